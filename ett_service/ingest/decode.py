"""From a request's body to events, keeping the good ones of a batch with bad ones."""

import codecs
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from ett_service.core.events import EVENT_TYPES, Event
from ett_service.ingest.inflate import inflate
from ett_service.ingest.json_cursor import LONGEST_VALUE, Cursor
from ett_service.ingest.refusals import (
    BadBatch,
    BadEncoding,
    BodyTooLarge,
    Code,
    Fault,
    MalformedBody,
    Refusal,
    UnsupportedMedia,
    fault_of,
)
from ett_service.ingest.text import DAMAGED, Frame, parse_instant, read_members, text
from ett_service.ingest.wire import AnyEvent, EventBatch, Limits, SentEvent
from ett_service.storage.record.events import encode_body

_LENGTH = 40
_LONG_BODY = 512


def derived_id(event: Event) -> str:
    """Return the id that says what *event* says: the same content always has the same one."""
    content = f"{event.type}\n{encode_body(replace(event, id=''))}"
    return hashlib.sha256(content.encode()).hexdigest()[:_LENGTH]


_SENT: msgspec.json.Decoder[SentEvent] = msgspec.json.Decoder(AnyEvent)
_ANY = msgspec.json.Decoder()


class _Named(msgspec.Struct):
    id: str | None = None


_ID = msgspec.json.Decoder(_Named)
_CAN_BE_AN_ID = re.compile(r"[A-Za-z0-9._:-]{1,64}")


@dataclass(frozen=True, slots=True)
class Arrival:
    """An event that can be kept, and the job that it belongs to."""

    index: int  #: its place in the batch
    job: str
    event: Event  #: its attributes, if there are many, are in the body alone
    body: str  #: its canonical content, but for its type

    @property
    def content(self) -> tuple[str, str]:
        """What it says: its type and its body."""
        return self.event.type, self.body


def arrival(index: int, job: str, event: Event) -> Arrival:
    """Make an event ready to be kept, with an id derived from its content if it has none."""
    if not event.id:
        event = replace(event, id=derived_id(event))
    body = encode_body(event)
    if event.attributes and len(body) > _LONG_BODY:
        # As objects they take up to twenty times as much as in the body, where they are read.
        event = replace(event, attributes={})
    return Arrival(index, job, event, body)


def read_event(raw: bytes, index: int, frame: Frame, producer: str | None) -> Arrival | Refusal:
    """Read the event at place *index*; one that names no producer takes the batch's."""
    try:
        sent = _decoded(raw, frame.limits.max_event_bytes)
        members = _members(sent, frame)
    except Fault as fault:
        return Refusal(fault.code, f"/events/{index}{fault.pointer}", index, _id_in(raw))
    members.setdefault("producer", producer)
    job = members.pop("job")
    return arrival(index, job, EVENT_TYPES[_type_of(sent)](**members))


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


def _members(sent: SentEvent, frame: Frame) -> dict[str, Any]:
    """Return what was sent, by the names and in the types of the core; null is left out."""
    members = {"id": "", **read_members(sent, frame)}
    _leave_out_what_says_nothing(_type_of(sent), members)
    return members


def _leave_out_what_says_nothing(kind: str, members: dict[str, Any]) -> None:
    if kind in ("job", "job_ended"):
        for name in ("launch", "attempt", "cycle"):
            members.pop(name, None)
    elif kind != "attempt_ended" and members.get("cycle") == 0:
        del members["cycle"]


def _type_of(sent: SentEvent) -> str:
    return str(sent.__struct_config__.tag)


def _id_in(raw: bytes) -> str | None:
    """Return the id of an event that was refused, so that its sender can find it."""
    try:
        event_id = _ID.decode(raw).id
    except (msgspec.DecodeError, RecursionError):
        return None
    return event_id if event_id is not None and _CAN_BE_AN_ID.fullmatch(event_id) else None


_BATCH = msgspec.json.Decoder(EventBatch)
_ANY_RAW = msgspec.json.Decoder(msgspec.Raw)

#: A line with anything but spaces in it.
_LINE = re.compile(rb"[^\s][^\n]*+")
_PIECE = 64 << 10

_HEADERS = {
    "ett-batch-id": "batch_id",
    "ett-sent-at": "sent_at",
    "ett-producer": "producer",
    "ett-history": "history",
}

#: Every escape of a JSON text; a surrogate is whole only with its other half behind it.
_ESCAPE = re.compile(rb"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|u[dD][89a-fA-F]..|.)", re.DOTALL)
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_LONE = 6


@dataclass(frozen=True, slots=True)
class Batch:
    """What one request brought; instants are microseconds since the Unix epoch."""

    arrivals: tuple[Arrival, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    batch_id: str | None = None
    sent_at: int | None = None
    history: bool = False
    dropped: Mapping[str, int] = field(default_factory=dict)


def read_made(events: Iterable[Mapping[str, Any]], frame: Frame) -> Batch:
    """Read events that were made from another format; what the wire refuses is refused here."""
    read = [
        read_event(msgspec.json.encode(event), index, frame, None)
        for index, event in enumerate(events)
    ]
    return Batch(
        arrivals=tuple(each for each in read if isinstance(each, Arrival)),
        refusals=tuple(each for each in read if isinstance(each, Refusal)),
    )


def decode(body: bytes, headers: Mapping[str, str], *, now_us: int, limits: Limits) -> Batch:
    """Read a request's *body* as its *headers* say, whatever case their names are in.

    Raises ``Refused``, in one of its kinds, where the request as a whole cannot be taken.
    """
    named = _joined(headers.items())
    media = _media_type(named.get("content-type", ""))
    if len(body) > limits.max_body_bytes:
        raise BodyTooLarge("bytes", limits.max_body_bytes)
    body = inflate(body, named.get("content-encoding", ""), limits.max_inflated_bytes)
    _require_utf8(body)
    frame = Frame(limits, now_us)
    if media == "application/json":
        about, raws = _envelope(body, limits.max_batch_events)
        return _whole_json(_batch(about, raws, frame), raws)
    raws = _lines(body, limits.max_batch_events)
    batch = _batch(_about(named), raws, frame)
    if raws and _is_nowhere_json(batch):
        raise MalformedBody("No line of the body is JSON.")
    return batch


def _lines(body: bytes, most: int) -> list[bytes]:
    lines: list[bytes] = []
    for line in _LINE.finditer(body):
        if len(lines) == most:
            raise BodyTooLarge("events", most)
        lines.append(line[0])
    return lines


def _whole_json(batch: Batch, raws: list[bytes]) -> Batch:
    """Pass a *batch* that is JSON from its begin to its end: what was refused may not be."""
    for refusal in batch.refusals:
        try:
            _ANY_RAW.decode(_mended(raws[refusal.index or 0]))
        except RecursionError:
            continue
        except msgspec.DecodeError as error:
            raise MalformedBody("The body is not JSON.") from error
    return batch


def _is_nowhere_json(batch: Batch) -> bool:
    garbled = all(each.code is Code.MALFORMED_JSON for each in batch.refusals)
    return garbled and not batch.arrivals


def _joined(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Join headers that were sent more than once: two encodings are not one."""
    joined: dict[str, str] = {}
    for name, value in headers:
        key = name.lower()
        joined[key] = f"{joined[key]}, {value}" if key in joined else value
    return joined


def _media_type(value: str) -> str:
    media, _, parameters = value.partition(";")
    charset = parameters.strip().lower().replace('"', "")
    if charset not in ("", "charset=utf-8") or media.strip().lower() not in (
        "application/json",
        "application/x-ndjson",
    ):
        raise UnsupportedMedia("Content-Type may be application/json or application/x-ndjson.")
    return media.strip().lower()


def _require_utf8(body: bytes) -> None:
    """Look at one piece after the other: a text takes up to four times as much as its bytes."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for start in range(0, len(body), _PIECE):
            decoder.decode(body[start : start + _PIECE])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise BadEncoding("The body is not UTF-8.") from error


def _mended(raw: bytes) -> bytes:
    """Return *raw* with each lone surrogate replaced, as no text can hold one."""
    return raw if _SURROGATE.search(raw) is None else _ESCAPE.sub(_mended_escape, raw)


def _mended_escape(escape: re.Match[bytes]) -> bytes:
    written = escape[0]
    is_lone = len(written) == _LONE and _SURROGATE.match(written) is not None
    return DAMAGED.encode() if is_lone else written


def _envelope(body: bytes, most: int) -> tuple[EventBatch, list[bytes]]:
    """Return what stands around the events, and each of up to *most* of them as it was written."""
    cursor = Cursor(body)
    if not cursor.is_at(b"{"):
        return _read_envelope(body[:LONGEST_VALUE]), []
    around: dict[str, msgspec.Raw] = {}
    raws: list[bytes] = []
    for name in cursor.members():
        if name == "events" and cursor.is_at(b"["):
            raws = list(_elements(cursor, most))
            around[name] = msgspec.Raw(b"[]")
        else:
            around[name] = msgspec.Raw(_mended(cursor.value()))
    cursor.finish()
    return _read_envelope(_written(around)), raws


def _elements(cursor: Cursor, most: int) -> Iterator[bytes]:
    for count, raw in enumerate(cursor.values()):
        if count == most:
            raise BodyTooLarge("events", most)
        yield raw


def _written(around: Mapping[str, msgspec.Raw]) -> bytes:
    if sum(map(len, map(bytes, around.values()))) > LONGEST_VALUE:
        raise BadBatch(Refusal(Code.TOO_LARGE, ""))
    return msgspec.json.encode(around)


def _read_envelope(written: bytes) -> EventBatch:
    try:
        return _BATCH.decode(written)
    except msgspec.ValidationError as error:
        fault = fault_of(error)
        raise BadBatch(Refusal(fault.code, fault.pointer)) from error
    except (msgspec.DecodeError, RecursionError) as error:
        raise MalformedBody("The body is not JSON.") from error


def _about(headers: Mapping[str, str]) -> EventBatch:
    """Read what the headers say around the events that come one a line."""
    members: dict[str, object] = {
        member: headers[header] for header, member in _HEADERS.items() if header in headers
    }
    try:
        return msgspec.convert({**members, "events": []}, EventBatch, strict=False)
    except msgspec.ValidationError as error:
        fault = fault_of(error)
        raise BadBatch(Refusal(fault.code, fault.pointer)) from error


def _batch(about: EventBatch, raws: list[bytes], frame: Frame) -> Batch:
    sent_at = _checked_about(about, frame)
    read = [
        read_event(_mended(raw), index, frame, about.producer) for index, raw in enumerate(raws)
    ]
    return Batch(
        arrivals=tuple(each for each in read if isinstance(each, Arrival)),
        refusals=tuple(each for each in read if isinstance(each, Refusal)),
        batch_id=about.batch_id,
        sent_at=sent_at,
        history=bool(about.history),
        dropped=about.dropped or {},
    )


def _checked_about(about: EventBatch, frame: Frame) -> int | None:
    """Check what the types of the batch's own members cannot say; returns when it was sent."""
    member = ""
    try:
        for member in ("batch_id", "producer"):
            text(getattr(about, member) or "", frame)
        member = "sent_at"
        return None if about.sent_at is None else parse_instant(about.sent_at)
    except Fault as fault:
        raise BadBatch(Refusal(fault.code, f"/{member}")) from fault
