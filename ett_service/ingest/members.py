"""Members as senders write them: texts and instants read, mended or refused, and events of them."""

import hashlib
import re
import signal
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any, get_args, get_type_hints

import msgspec
from msgspec import Struct
from msgspec.structs import astuple

from ett_service.core.events import Event
from ett_service.core.words import Outcome
from ett_service.ingest.refusals import (
    Code,
    Fault,
    Refusal,
    escape,
    fault_of,
)
from ett_service.ingest.wire import MAX_INTEGER, AnyEvent, Limits, SentEvent
from ett_service.storage.record.events import (
    EventContent,
    decode_body,
    encode_members,
    encode_rest,
    members_of,
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_SECOND_US = 1_000_000
_DAY_US = 86_400 * _SECOND_US

_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_RFC3339 = re.compile(
    r"(\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:)(\d\d)(\.\d{1,6})?([Zz]|[+-]\d\d:[0-5]\d)?", re.ASCII
)


def parse_instant(text: str) -> int:
    """Return microseconds since the Unix epoch.

    A leap second is the first second of the minute after it, as clocks count that know none; one
    elsewhere than at the end of a UTC day's last minute is none. Raises ``Fault``.
    """
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise Fault(Code.BAD_TIMESTAMP)
    if match[4] is None:
        raise Fault(Code.TIMESTAMP_WITHOUT_OFFSET)
    if match[2] == "60":
        return _leap(match)
    return _microseconds(text.upper())


def parse_day_or_instant(text: str) -> int:
    """Return microseconds since the Unix epoch; a day, ``2026-11-09``, is its first in UTC.

    Raises ``Fault``.
    """
    return parse_instant(f"{text}T00:00:00Z" if _DAY.fullmatch(text) else text)


def _microseconds(text: str) -> int:
    try:
        since = datetime.fromisoformat(text) - _EPOCH
    except ValueError as error:
        raise Fault(Code.TIMESTAMP_OUT_OF_RANGE) from error
    return since.days * _DAY_US + since.seconds * _SECOND_US + since.microseconds


def _leap(match: re.Match[str]) -> int:
    second_before = f"{match[1]}59{match[3] or ''}{match[4]}".upper()
    us = _microseconds(second_before) + _SECOND_US
    if us % _DAY_US >= _SECOND_US:
        raise Fault(Code.TIMESTAMP_OUT_OF_RANGE)
    return us


#: Stands where a character was damaged, before or by us.
DAMAGED = "\N{REPLACEMENT CHARACTER}"

_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Frame:
    """What a reader needs to know beside the value."""

    limits: Limits
    now_us: int


Reader = Callable[[Any, Frame], object]


def instant(text: str, frame: Frame) -> int:
    """Read an instant that events can have: from 1970 to a little into the future."""
    us = parse_instant(text)
    if not 0 <= us <= frame.now_us + frame.limits.max_future_us:
        raise Fault(Code.TIMESTAMP_OUT_OF_RANGE)
    return us


def text(value: str, _frame: Frame) -> str:
    """Read a name or the like: one line that can be shown."""
    if not value.isprintable() or DAMAGED in value:
        raise Fault(Code.BAD_TEXT)
    return value


def job(value: str, _frame: Frame) -> str:
    """Read a job's name, which is a part of addresses too."""
    if not value.isprintable() or "/" in value or value in (".", "..") or DAMAGED in value:
        raise Fault(Code.BAD_JOB)
    if not unicodedata.is_normalized("NFC", value) or _BLANK.issuperset(value):
        raise Fault(Code.BAD_JOB)
    return value


_BLANK = frozenset(" \u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\U0001d159").union(
    map(chr, (*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)))
)
"""What counts as printable and shows nothing: fillers, empty Braille, variation selectors."""


def identity(value: str, _frame: Frame) -> str:
    """Read an id; the pattern of its type lets a line feed at its end pass."""
    if not value.isprintable():
        raise Fault(Code.BAD_ID)
    return value


def log(value: str, _frame: Frame) -> str:
    """Read what may be a crash log: a failure is never refused for how its text looks."""
    return _CONTROLS.sub(DAMAGED, value)


def labels(value: Mapping[str, str], frame: Frame) -> dict[str, str]:
    """Read names and values that can be shown."""
    for each in (*value, *value.values()):
        text(each, frame)
    return dict(value)


def attributes(value: Mapping[str, Any], frame: Frame) -> object:
    """Read whatever JSON the sender keeps here, its text mended, its numbers exact."""
    return _kept(value, frame.limits.max_depth - 1)


def signal_number(value: int | str, _frame: Frame) -> int:
    """Read a signal by its number or its name."""
    if isinstance(value, int):
        return value
    try:
        return signal.Signals[value].value
    except KeyError:
        raise Fault(Code.UNKNOWN_VALUE) from None


def outcome(value: str, _frame: Frame) -> Outcome:
    """Read how something ended."""
    return Outcome(value)


READERS: dict[str, Reader] = {
    "instant": instant,
    "text": text,
    "job": job,
    "id": identity,
    "log": log,
    "labels": labels,
    "attributes": attributes,
    "signal": signal_number,
    "outcome": outcome,
}
"""By the word that the wire's types name them with."""


def _kept(value: Any, depth: int) -> object:
    if isinstance(value, str):
        return _CONTROLS.sub(DAMAGED, value)
    if isinstance(value, int):
        if not -MAX_INTEGER <= value <= MAX_INTEGER:
            raise Fault(Code.OUT_OF_RANGE)
        return value
    if not isinstance(value, dict | list) or (depth and not value):
        return value
    return _kept_inside(value, depth)


def _kept_inside(value: dict[str, Any] | list[Any], depth: int) -> object:
    if depth == 0:
        raise Fault(Code.TOO_DEEP)
    if isinstance(value, list):
        return [_kept(each, depth - 1) for each in value]
    return {_CONTROLS.sub(DAMAGED, name): _kept(each, depth - 1) for name, each in value.items()}


def read_members(sent: Struct, frame: Frame) -> dict[str, Any]:
    """Return what was sent by the names of the struct's fields; null is left out.

    Raises ``Fault``, which points at the member by its name on the wire.
    """
    members: dict[str, Any] = {}
    for (name, wire_name, reader), value in zip(
        _readers_of(type(sent)), astuple(sent), strict=True
    ):
        if value is None:
            continue
        try:
            members[name] = value if reader is None else reader(value, frame)
        except Fault as fault:
            raise Fault(fault.code, f"/{escape(wire_name)}{fault.pointer}") from fault
    return members


@cache
def _readers_of(kind: type[Struct]) -> tuple[tuple[str, str, Reader | None], ...]:
    hints = get_type_hints(kind, include_extras=True)
    names = zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True)
    return tuple((name, wire_name, _reader_of(hints[name])) for name, wire_name in names)


def _reader_of(hint: Any) -> Reader | None:
    for each in (hint, *get_args(hint)):
        for meta in getattr(each, "__metadata__", ()):
            if meta.extra is not None:
                return READERS[meta.extra["reads"]]
    return None


CLUSTER_OF_LAUNCH = "slurm.cluster.name"
"""The attribute that says of which cluster an event's launch is: two of them may count alike."""

_LENGTH = 40
_NO_ATTRIBUTES: Mapping[str, Any] = {}


_SENT: msgspec.json.Decoder[SentEvent] = msgspec.json.Decoder(AnyEvent)
_ANY = msgspec.json.Decoder()


class _Named(msgspec.Struct):
    id: str | None = None


_ID = msgspec.json.Decoder(_Named)
_CAN_BE_AN_ID = re.compile(r"[A-Za-z0-9._:-]{1,64}")


class Arrival(msgspec.Struct, frozen=True, gc=False):
    """An event that can be kept, and the job that it belongs to."""

    index: int  #: its place in the batch
    job: str
    id: str
    type: str
    at: int
    producer: str | None
    body: str  #: the rest of its canonical content, as its row has it
    launch: str = ""  #: as sent, also where the event itself has none
    cluster: str = ""  #: of the launch, where it says that

    @property
    def content(self) -> EventContent:
        """What it says beside its id: its type, its instant and its body."""
        return self.type, self.at, self.body

    @property
    def event(self) -> Event:
        """The event itself, made anew at each call: as text it takes the least."""
        return decode_body(self.type, self.id, self.at, self.body)


def arrival(index: int, job: str, event: Event) -> Arrival:
    """Make an event ready to be kept, with an id derived from its content if it has none."""
    return _arrival(index, job, event.type, members_of(event), event.launch)


def _arrival(
    index: int, job: str, kind: str, members: dict[str, Any], launch: str, cluster: str = ""
) -> Arrival:
    name = members["id"]
    if not name:
        name = members["id"] = _derived_id(kind, encode_members(kind, members))
    at, producer = members["at"], members.get("producer")
    body = encode_rest(kind, members)
    return Arrival(index, job, name, kind, at, producer, body, launch, cluster)


def _derived_id(kind: str, content: str) -> str:
    """Return the id that says what the event says: the same content always has the same one."""
    return hashlib.sha256(f"{kind}\n{content}".encode()).hexdigest()[:_LENGTH]


def read_event(raw: bytes, index: int, frame: Frame, producer: str | None) -> Arrival | Refusal:
    """Read the event at place *index*; one that names no producer takes the batch's."""
    try:
        sent = _decoded(raw, frame.limits.max_event_bytes)
        members = read_members(sent, frame)
    except Fault as fault:
        return Refusal(fault.code, f"/events/{index}{fault.pointer}", index, _id_in(raw))
    kind = _type_of(sent)
    launch = members.get("launch", "")
    cluster = members.get("attributes", _NO_ATTRIBUTES).get(CLUSTER_OF_LAUNCH) if launch else None
    _leave_out_what_says_nothing(kind, members)
    members.setdefault("id", "")
    if producer is not None:
        members.setdefault("producer", producer)
    job = members.pop("job")
    return _arrival(
        index, job, kind, members, launch, "" if cluster is None else str(cluster).casefold()
    )


def _decoded(raw: bytes, most: int) -> SentEvent:
    if len(raw) > most:
        raise Fault(Code.TOO_LARGE)
    try:
        return _SENT.decode(raw)
    except RecursionError as error:
        raise Fault(Code.TOO_DEEP) from error
    except msgspec.ValidationError as error:
        return _decoded_by_last_keys(raw, error)
    except msgspec.DecodeError as error:
        raise Fault(Code.MALFORMED_JSON) from error


def _decoded_by_last_keys(raw: bytes, error: msgspec.ValidationError) -> SentEvent:
    """Try again without all but the last of duplicate keys, each of which was looked at above."""
    try:
        return _SENT.decode(msgspec.json.encode(_ANY.decode(raw)))
    except (msgspec.DecodeError, RecursionError):
        raise fault_of(error) from error


def _leave_out_what_says_nothing(kind: str, members: dict[str, Any]) -> None:
    if kind in ("job", "job_ended"):
        for name in ("launch", "attempt", "cycle"):
            members.pop(name, None)
    elif kind != "attempt_ended" and members.get("cycle") == 0:
        del members["cycle"]


def _type_of(sent: SentEvent) -> str:
    return sent.__struct_config__.tag  # type: ignore[return-value]


def _id_in(raw: bytes) -> str | None:
    """Return the id of an event that was refused, so that its sender can find it."""
    try:
        event_id = _ID.decode(raw).id
    except (msgspec.DecodeError, RecursionError):
        return None
    return event_id if event_id is not None and _CAN_BE_AN_ID.fullmatch(event_id) else None
