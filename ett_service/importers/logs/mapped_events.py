"""What a profile says of the events that a line or a row becomes, and their making.

A template is an event as it goes over the wire, in which ``$name`` stands for a group of a pattern
or for a column. What is empty is left out; an event without an instant is not made.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar, get_args

import msgspec
import msgspec.inspect
import yaml
from msgspec import Meta, Struct

from ett_service.core.errors import EttError
from ett_service.core.intervals import SECOND_US, rfc3339
from ett_service.importers.importer import Fact, ImportedRun, WireEvent, clean, identified
from ett_service.importers.instants import UnknownZone, zone
from ett_service.importers.logs.local_times import LocalTimes
from ett_service.ingest.text import DAMAGED
from ett_service.ingest.wire import AnyEvent

Template = dict[str, Any]
Values = Mapping[str, Any]
"""What the groups or columns of one line hold; None or empty where they hold nothing."""

STRUCTS: Final[Mapping[str, Any]] = {
    str(struct.__struct_config__.tag): struct for struct in get_args(AnyEvent)
}
_INSTANTS: Final[tuple[str, ...]] = ("at", "start", "submitted_at")
_LENGTHS: Final = {"duration_us": 1, "duration_ms": 1_000, "duration_s": SECOND_US}
_TIME: Final = "time"
_REFERENCE = re.compile(r"\$([A-Za-z_]\w*)")
_EPOCHS: Final = {"epoch_s": SECOND_US, "epoch_ms": 1_000, "epoch_us": 1}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EVERY_US: Final = 10 * SECOND_US
_MOST_HELD: Final = 20_000
_LONGEST_TEXT: Final = 2_000
_MESSAGES: Final = frozenset({"exception", "message", "reason", "scheduler_state"})
_MEMBER = re.compile(r"at `\$\.(\w+)")


class BadProfile(EttError):
    """A profile cannot be used; the message says where and why."""


class NoEvent(EttError):
    """A line or row does not make the event that its template says; the message says why."""


class TimeFormat(Struct, forbid_unknown_fields=True):
    """How times are written."""

    format: str = "iso"  #: ``iso``, ``epoch_s``, ``epoch_ms``, ``epoch_us`` or as for ``strptime``
    zone: str | None = None  #: of times that name none


Name = Annotated[str, Meta(min_length=1, max_length=60)]


class Document(Struct, forbid_unknown_fields=True, kw_only=True):
    """What profiles of logs and of tables have in common."""

    name: Name
    time: TimeFormat = msgspec.field(default_factory=TimeFormat)
    files: list[str] | None = None  #: names that are looked for in a folder
    common: Template = msgspec.field(default_factory=dict)  #: members of all events


D = TypeVar("D", bound=Document)


def loaded(path: Path, kind: type[D]) -> tuple[D, tzinfo | None]:
    """Read a profile, and the zone that it names.

    Raises:
        BadProfile: where it is not as it should be.
    """
    try:
        document = msgspec.convert(yaml.safe_load(path.read_text("utf-8")), kind)
    except OSError as error:
        raise BadProfile(f"{path}: {error.strerror or 'cannot be read'}") from None
    except (UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        raise BadProfile(f"{path}: it is no YAML: {' '.join(str(error).split())}") from None
    except msgspec.ValidationError as error:
        raise BadProfile(f"{path}: {error}") from None
    return document, own_zone(document.time, f"{path}: time")


def templates(becomes: Template | list[Template], common: Template, where: str) -> list[Template]:
    """Return templates with the common members.

    Raises:
        BadProfile: where one is of no type of events, or has a member that this type has not.
    """
    made = []
    for each in becomes if isinstance(becomes, list) else [becomes]:
        struct = STRUCTS.get(str(each.get("type")))
        if struct is None:
            raise BadProfile(f"{where}: {each.get('type')!r} is no type of events")
        allowed = {*struct.__struct_fields__, "type", *(_LENGTHS if each["type"] == "span" else ())}
        unknown = sorted(set(each) - allowed)
        if unknown:
            raise BadProfile(f"{where}: a {each['type']} has no member {unknown[0]!r}")
        for value in each.values():
            if isinstance(value, str) and value[:1] == "$" and not references(value):
                raise BadProfile(f"{where}: {value!r} is no name of a group or column")
        shared = {name: value for name, value in common.items() if name in allowed}
        made.append({"at": f"${_TIME}", **shared, **each})
    return made


def references_of(made: Sequence[Template]) -> set[str]:
    """Return the names that templates take from groups or columns."""
    return set().union(*map(references, made))


def references(template: object) -> set[str]:
    """Return the names that a template takes from groups or columns."""
    if isinstance(template, dict):
        return set().union(*map(references, template.values()), set())
    name = _REFERENCE.fullmatch(template) if isinstance(template, str) else None
    return {name[1]} if name is not None else set()


def own_zone(form: TimeFormat, where: str) -> tzinfo | None:
    """Return the zone that a profile names.

    Raises:
        BadProfile: where there is none of this name.
    """
    try:
        return zone(form.zone) if form.zone is not None else None
    except UnknownZone as error:
        raise BadProfile(f"{where}: {error}") from None


@dataclass(frozen=True, slots=True)
class _Shape:
    """A template, taken apart once."""

    literals: Template
    taken: list[tuple[str, str]]  #: members, and the groups or columns that they are taken from
    nested: dict[str, "_Shape"]
    instants: list[str]
    lengths: list[tuple[str, int]]

    @classmethod
    def of(cls, template: Template) -> "_Shape":
        nested = {
            name: cls.of(value) for name, value in template.items() if isinstance(value, dict)
        }
        taken = {
            name: value[1:]
            for name, value in template.items()
            if isinstance(value, str) and value[:1] == "$"
        }
        literals = {
            name: value
            for name, value in template.items()
            if name not in nested and name not in taken and value not in (None, "")
        }
        instants = [name for name in _INSTANTS if name in template]
        lengths = [] if "start" in template else [*_LENGTHS.items()]
        return cls(literals, [*taken.items()], nested, instants, lengths)

    def filled(self, values: Values) -> dict[str, Any]:
        """Return the members that are not empty."""
        members = dict(self.literals)
        for name, source in self.taken:
            value = _taken(values.get(source))
            if value is not None and value != "":
                members[name] = value
        for name, shape in self.nested.items():
            members[name] = shape.filled(values)
        return members


class Maker:
    """Makes the events of one file."""

    def __init__(
        self, form: TimeFormat, times: LocalTimes, job: str | None, spare_job: str | None = None
    ) -> None:
        """Take the job of all events, if there is one, and that of those that name none."""
        self._format = form.format
        self._times = times
        self._job = job
        self._spare_job = spare_job
        self._line = 0
        self._instants: dict[object, tuple[int, str]] = {}
        self._shapes: dict[int, _Shape] = {}

    def made(self, template: Template, values: Values, line: int) -> WireEvent | None:
        """Return the event of a template; None where its instant is empty.

        Raises:
            NoEvent: where the service would refuse it.
        """
        shape = self._shapes.get(id(template))
        if shape is None:
            shape = self._shapes[id(template)] = _Shape.of(template)
        event = shape.filled(values)
        if "at" not in event:
            return None
        job = self._job or event.get("job") or self._spare_job
        if job is not None:
            event["job"] = job
        if line != self._line:
            self._line, self._instants = line, {}
        self._place(event, shape, line)
        return _checked(event)

    def _place(self, event: WireEvent, shape: _Shape, line: int) -> None:
        at_us, _ = self._placed(event["at"], line)
        for name in shape.instants:
            if name in event:
                event[name] = self._placed(event[name], line)[1]
        for name, unit_us in shape.lengths:
            if name in event:
                event["start"] = rfc3339(at_us - round(_number(event.pop(name), name) * unit_us))

    def _placed(self, value: object, line: int) -> tuple[int, str]:
        """Place an instant, each of a line once: in microseconds, and as events have it."""
        placed = self._instants.get(value)
        if placed is None:
            at_us = self._read(value, line)
            placed = self._instants[value] = (at_us, rfc3339(at_us))
        return placed

    def _read(self, value: object, line: int) -> int:
        if isinstance(value, datetime):
            return self._times.placed(value, str(value), line)
        text = str(value).strip()
        if self._format in _EPOCHS:
            return round(_number(text, _TIME) * _EPOCHS[self._format])
        is_iso = self._format == "iso"
        at_us = self._times.at_us(text, line) if is_iso else self._parsed(text, line)
        if at_us is None:
            raise NoEvent(f"{clean(text, 60)!r} is no time of format {self._format}")
        return at_us

    def _parsed(self, text: str, line: int) -> int | None:
        try:
            at = datetime.strptime(text, self._format)  # noqa: DTZ007 -- the log's zone places it
        except ValueError:
            return None
        return self._times.placed(at, text, line)


def _taken(value: object) -> object:
    """Return a value of a table: it writes whole numbers as floats, and nothing as nan."""
    if isinstance(value, float):
        return None if math.isnan(value) else int(value) if value.is_integer() else value
    return value


def _number(value: object, name: str) -> float:
    try:
        number = float(str(value))
    except ValueError:
        number = float("nan")
    if not abs(number) < 1e17:  # noqa: PLR2004 -- beyond any time, and nan
        raise NoEvent(f"{clean(str(value), 60)!r} is no number for {name}")
    return number


def _checked(event: WireEvent) -> WireEvent:
    """Return an event with its members as the wire has them: texts of digits are numbers."""
    struct = STRUCTS[event["type"]]
    if "job" not in event:
        raise NoEvent("it has no job: name it with --job, or in the profile's `common`")
    for name in _TEXTS[event["type"]]:
        if name not in event:
            continue
        text = clean(str(event[name]), _LONGEST_TEXT)
        if DAMAGED in text and name not in _MESSAGES:
            raise NoEvent(f"bytes of `{name}` are no text: {text[:60]!r}")
        event[name] = text
    try:
        checked: WireEvent = msgspec.to_builtins(msgspec.convert(event, struct, strict=False))
    except msgspec.ValidationError as error:
        member = _MEMBER.search(str(error))
        value = f" {clean(str(event.get(member[1])), 60)!r}" if member is not None else ""
        raise NoEvent(f"{error}:{value}") from None
    return checked


def _texts_of(struct: Any) -> frozenset[str]:
    """Return the members that are texts, which tables may write as numbers."""
    kind = msgspec.inspect.type_info(struct)
    assert isinstance(kind, msgspec.inspect.StructType)
    return frozenset(each.name for each in kind.fields if _is_text(each.type))


def _is_text(kind: Any) -> bool:
    while isinstance(kind, msgspec.inspect.Metadata):
        kind = kind.type
    if isinstance(kind, msgspec.inspect.UnionType):
        kinds = [each for each in kind.types if not isinstance(each, msgspec.inspect.NoneType)]
        return len(kinds) == 1 and _is_text(kinds[0])
    return isinstance(kind, msgspec.inspect.StrType)


_TEXTS: Final = {name: _texts_of(struct) for name, struct in STRUCTS.items()}


@dataclass(slots=True)
class _Held:
    """The facts of one job that are not passed on yet."""

    facts: list[Fact] = field(default_factory=list)
    kept_us: dict[tuple[object, ...], datetime] = field(default_factory=dict)
    pending: dict[tuple[object, ...], Fact] = field(default_factory=dict)


class Runs:
    """Collects the events of a file by job; progress is thinned out to one in ten seconds.

    A file may hold any number of jobs, and a job any number of events: beyond 20,000 those of the
    job that is longest without news are passed on.
    """

    def __init__(self, path: Path, source: str) -> None:
        self._path = path
        self._source = source
        self._held: dict[str, _Held] = {}
        self._count = 0

    def add(self, event: WireEvent, line: int) -> Iterator[ImportedRun]:
        """Take an event; yield a run if too much is held."""
        held = self._held.pop(event["job"], None) or _Held()
        self._held[event["job"]] = held  # the last is the one with the latest news
        fact = Fact(event, line)
        if event["type"] == "progress":
            self._thin(held, fact)
        else:
            held.facts.append(fact)
            self._count += 1
        if self._count > _MOST_HELD:
            yield self._run(next(iter(self._held)))

    def finish(self) -> Iterator[ImportedRun]:
        """Yield what is left."""
        for job in list(self._held):
            yield self._run(job)

    def _thin(self, held: _Held, fact: Fact) -> None:
        event = fact.event
        identity = tuple(event.get(name) for name in ("launch", "attempt", "cycle", "rank"))
        at = datetime.fromisoformat(event["at"])
        kept = held.kept_us.get(identity)
        if kept is not None and abs(at - kept) < timedelta(microseconds=_EVERY_US):
            held.pending[identity] = fact
            return
        held.kept_us[identity] = at
        held.pending.pop(identity, None)
        held.facts.append(fact)
        self._count += 1

    def _run(self, job: str) -> ImportedRun:
        held = self._held.pop(job)
        self._count -= len(held.facts)
        facts = identified(self._source, [*held.facts, *held.pending.values()])
        return ImportedRun(self._path, job, facts)


def fault_of(made: Sequence[WireEvent], expected: Sequence[Template]) -> str:
    """Return how events differ from what is expected of them, empty where they do not.

    Members that are not named may be anything.
    """
    is_same = len(made) == len(expected) and all(
        all(_text(event.get(name)) == _text(value) for name, value in wanted.items())
        for event, wanted in zip(made, expected, strict=True)
    )
    return "" if is_same else f"it becomes {made}, not {expected}"


def _text(value: object) -> str:
    """Return a value as text; instants by their value, whatever their zone and digits."""
    if isinstance(value, datetime):
        value = value.isoformat()
    try:
        at = datetime.fromisoformat(str(value))
        return str(at.astimezone(UTC)) if at.tzinfo else str(value)
    except ValueError:
        return str(value)
