"""What a profile says of the events that a line or a row becomes, and their making.

A template is an event as it goes over the wire, in which ``$name`` stands for a group of a pattern
or for a column. What is empty is left out; an event without an instant is not made.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, tzinfo
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Final, TypeVar

import msgspec
import msgspec.inspect
import yaml
from msgspec import Meta, Struct

from ett_service.core.errors import EttError
from ett_service.core.intervals import SECOND_US, rfc3339
from ett_service.importers.files import Unreadable
from ett_service.importers.importer import (
    Fact,
    ImportedRun,
    WireEvent,
    clean,
    digests_of,
    identified,
)
from ett_service.importers.instants import UnknownZone, zone
from ett_service.importers.logs.checked_events import ONLY_TEXT, STRUCTS, NoEvent, checked
from ett_service.importers.logs.event_shapes import (
    INSTANTS,
    LENGTHS,
    Column,
    Known,
    Recipes,
    Shape,
    Template,
    Values,
    emptiness,
)
from ett_service.importers.logs.local_times import LocalTimes
from ett_service.ingest.wire import SentEvent

_TIME: Final = "time"
_REFERENCE = re.compile(r"\$([A-Za-z_]\w*)")
_EPOCHS: Final = {"epoch_s": SECOND_US, "epoch_ms": 1_000, "epoch_us": 1}
_EVERY: Final = timedelta(seconds=10)
_MOST_HELD: Final = 20_000
_ALIKE: Final = 4  #: rows that are sooner made by columns than one by one
_AT_ONCE: Final = 100
"""Lines whose events get their ids one after the other, which is sooner than between other work."""


class BadProfile(EttError):
    """A profile cannot be used; the message says where and why."""


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
        allowed = {*struct.__struct_fields__, "type", *(LENGTHS if each["type"] == "span" else ())}
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


@dataclass(frozen=True, slots=True, eq=False)
class Becomes:
    """The templates of the events that a kind of line or row becomes."""

    templates: Sequence[Template]
    places: Mapping[str, int]  #: of its values, by their groups or columns


class Maker:
    """Makes the events of one file."""

    def __init__(
        self, form: TimeFormat, times: LocalTimes, job: str | None, spare_job: str | None = None
    ) -> None:
        """Take the job of all events, if there is one, and that of those that name none."""
        self._format = form.format
        self._is_iso = form.format == "iso"
        self._times = times
        self._job = job
        self._spare_job = spare_job
        self._recipes: dict[Becomes, Recipes] = {}
        self._known: dict[str, Known] = {}  #: by type of events
        self._common: Known = {name: {} for name in SentEvent.__struct_fields__}
        self._line = 0

    def made(self, becomes: Becomes, values: Values, line: int) -> list[WireEvent]:
        """Return the events of a line or row without those whose instant is empty.

        Raises:
            NoEvent: where the service would refuse one.
        """
        self._line = line
        recipes = self._recipes.get(becomes)
        if recipes is None:
            shapes = [self._shape(each) for each in becomes.templates]
            recipes = Recipes.of(shapes, becomes.places)
            self._recipes[becomes] = recipes
        followed = recipes.followed(values, self._written)
        if followed is not None:
            return followed
        named = {name: values[place] for name, place in becomes.places.items()}
        events = [self._made(shape, named) for shape in recipes.shapes]
        recipes.learn(values, events, self._known_of)
        return [event for event in events if event is not None]

    def made_alike(
        self, kinds: Sequence[Becomes], columns: Sequence[Column]
    ) -> list[Sequence[WireEvent] | None]:
        """Return the events of many rows, by columns of their values and what each row becomes.

        None stands for a row that :meth:`made` has to make, before which those that come before it
        are passed by :meth:`follow`.
        """
        made: list[Sequence[WireEvent] | None] = [None] * len(kinds)
        if len(kinds) < _ALIKE:
            return made
        places_of = defaultdict(list)
        for place, key in enumerate(zip(kinds, *map(emptiness, columns), strict=True)):
            places_of[key].append(place)
        for (becomes, *is_empty), places in places_of.items():
            recipes = self._recipes.get(becomes)
            if recipes is None or len(places) < _ALIKE:
                continue
            is_all = len(places) == len(kinds)
            theirs = columns if is_all else [itemgetter(*places)(column) for column in columns]
            followed = recipes.followed_alike(theirs, is_empty, self._written_alike)
            for place, events in zip(places, followed or (), strict=followed is not None):
                made[place] = events
        return made

    def follow(self, events: Sequence[WireEvent]) -> None:
        """Take the instants of events for those that times to come follow."""
        if self._times.may_happen_twice:
            for event in events:
                for name in INSTANTS:
                    if name in event:
                        self._times.note(event[name])

    def _written_alike(self, column: Column) -> Column:
        if self._is_iso and ONLY_TEXT.issuperset(map(type, column)):
            return self._times.written_alike(column)
        return [None] * len(column)

    def _made(self, shape: Shape, values: Mapping[str, object]) -> WireEvent | None:
        event = shape.filled(values)
        if self._spare_job is not None:
            event.setdefault("job", self._spare_job)
        if "at" not in event:
            return None
        at_us = self._read(event["at"])
        for name in shape.instants:
            if name in event:
                event[name] = self._written(event[name])
        for name, unit_us in shape.lengths:
            if name in event:
                event["start"] = rfc3339(at_us - round(_number(event.pop(name), name) * unit_us))
        return checked(event)

    def _known_of(self, kind: str) -> Known:
        """What all events can say is checked once for all of them."""
        known = self._known.get(kind)
        if known is None:
            names = STRUCTS[kind].__struct_fields__
            known = self._known[kind] = {name: self._common.get(name, {}) for name in names}
        return known

    def _shape(self, template: Template) -> Shape:
        """With a job of all events none is taken."""
        if self._job is None:
            return Shape.of(template)
        shape = Shape.of({name: value for name, value in template.items() if name != "job"})
        shape.literals["job"] = self._job
        return shape

    def _written(self, value: object) -> str:
        if self._is_iso and isinstance(value, str):
            text = self._times.written(value, self._line)
            if text is not None:
                return text
        return rfc3339(self._read(value))

    def _read(self, value: object) -> int:
        """Place an instant; the same one again is placed alike."""
        if isinstance(value, datetime):
            return self._times.placed(value, str(value), self._line)
        text = str(value).strip()
        if self._format in _EPOCHS:
            return round(_number(text, _TIME) * _EPOCHS[self._format])
        at_us = self._times.at_us(text, self._line) if self._is_iso else self._parsed(text)
        if at_us is None:
            raise NoEvent(f"{clean(text, 60)!r} is no time of format {self._format}")
        return at_us

    def _parsed(self, text: str) -> int | None:
        try:
            at = datetime.strptime(text, self._format)  # noqa: DTZ007 -- the log's zone places it
        except ValueError:
            return None
        return self._times.placed(at, text, self._line)


def _number(value: object, name: str) -> float:
    try:
        number = float(str(value))
    except ValueError:
        number = float("nan")
    if not abs(number) < 1e17:  # noqa: PLR2004 -- beyond any time, and nan
        raise NoEvent(f"{clean(str(value), 60)!r} is no number for {name}")
    return number


MadeOfLine = tuple[int, Sequence[WireEvent]]
"""The number of a line, and the events that it becomes."""


@dataclass(slots=True)
class _Held:
    """The facts of one job that are not passed on yet."""

    facts: dict[str, Fact] = field(default_factory=dict)  #: by their ids
    kept: dict[tuple[object, ...], datetime] = field(default_factory=dict)
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
        self._latest: str | None = None
        self._of_latest = _Held()
        self._count = 0

    def of(self, made: Iterable[MadeOfLine]) -> Iterator[ImportedRun]:
        """Yield the runs of the events that lines become, which get their ids.

        Raises:
            Unreadable: where *made* does; what it made before is taken first.
        """
        some: list[MadeOfLine] = []
        try:
            for each in made:
                some.append(each)
                if len(some) == _AT_ONCE:
                    yield from self._taken(some)
                    some = []
        except Unreadable:
            yield from self._taken(some)
            raise
        yield from self._taken(some)
        for job in list(self._held):
            yield self._run(job)

    def _taken(self, made: Sequence[MadeOfLine]) -> Iterator[ImportedRun]:
        """Take the events of some lines; yield a run after each line where too much is held."""
        digests = iter(digests_of([event for _, events in made for event in events]))
        source = self._source
        for line, events in made:
            n_new = 0
            for event, digest in zip(events, digests):  # noqa: B905 -- the others are of later lines
                if event["job"] != self._latest:
                    self._turn_to(event["job"])
                if event["type"] == "progress" and not self._is_due(event, line):
                    continue
                identity = f"{source}-{digest.hex()}"
                facts = self._of_latest.facts
                if identity not in facts:
                    event["id"] = identity
                    facts[identity] = Fact(event, line)
                    n_new += 1
            self._count += n_new
            if self._count > _MOST_HELD:
                yield self._run(next(iter(self._held)))

    def _turn_to(self, job: str) -> None:
        """Make a job the one with the latest news."""
        self._of_latest = self._held[job] = self._held.pop(job) if job in self._held else _Held()
        self._latest = job

    def _is_due(self, event: WireEvent, line: int) -> bool:
        """Whether progress is far enough from the last that was kept; else it waits."""
        held = self._of_latest
        whose = tuple([event.get(name) for name in ("launch", "attempt", "cycle", "rank")])
        at = datetime.fromisoformat(event["at"])
        kept = held.kept.get(whose)
        if kept is not None and abs(at - kept) < _EVERY:
            held.pending[whose] = Fact(event, line)
            return False
        held.kept[whose] = at
        held.pending.pop(whose, None)
        return True

    def _run(self, job: str) -> ImportedRun:
        held = self._held.pop(job)
        self._latest = None
        self._count -= len(held.facts)
        if held.pending:
            pending = identified(self._source, held.pending.values())
            held.facts.update(
                (fact.event["id"], fact) for fact in pending if fact.event["id"] not in held.facts
            )
        return ImportedRun(self._path, job, tuple(held.facts.values()))
