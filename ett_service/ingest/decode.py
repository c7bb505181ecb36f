"""From a request's body to a batch of events, keeping the good ones of a batch with bad ones."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from ett_service.ingest.arrival import Arrival, read_event
from ett_service.ingest.fault import fault_of
from ett_service.ingest.inflate import inflate
from ett_service.ingest.instant import parse_instant
from ett_service.ingest.limits import Limits
from ett_service.ingest.reading import DAMAGED, Frame, text
from ett_service.ingest.refusal import (
    BadBatch,
    BadEncoding,
    BodyTooLarge,
    Code,
    Fault,
    MalformedBody,
    Refusal,
    UnsupportedMedia,
)
from ett_service.ingest.wire import EventBatch

_BATCH = msgspec.json.Decoder(EventBatch)
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])

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

#: A string without an end is one, too: none of it is ever looked at twice.
_STRUCTURE = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[\[\]{}]', re.DOTALL)
#: Deeper than any limit, and well before the decoder gives the whole body up.
_FAR_TOO_DEEP = 64


@dataclass(frozen=True, slots=True)
class Batch:
    """What one request brought; instants are microseconds since the Unix epoch."""

    arrivals: tuple[Arrival, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    batch_id: str | None = None
    sent_at: int | None = None
    history: bool = False
    dropped: Mapping[str, int] = field(default_factory=dict)


def decode(body: bytes, headers: Mapping[str, str], *, now_us: int, limits: Limits) -> Batch:
    """Read a request's *body* as its *headers* say, whatever case their names are in.

    Raises ``Refused``, in one of its kinds, where the request as a whole cannot be taken.
    """
    named = _joined(headers.items())
    media = _media_type(named.get("content-type", ""))
    if len(body) > limits.max_body_bytes:
        raise BodyTooLarge("bytes", limits.max_body_bytes)
    body = inflate(body, named.get("content-encoding", ""), limits.max_inflated_bytes)
    body = _mended(body)
    frame = Frame(limits, now_us)
    if media == "application/json":
        about = _envelope(body)
        return _batch(about, about.events, frame)
    lines = [line for line in body.split(b"\n") if line.strip()]
    batch = _batch(_about(named), lines, frame)
    if lines and _is_nowhere_json(batch):
        raise MalformedBody("No line of the body is JSON.")
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


def _mended(body: bytes) -> bytes:
    """Return *body* with each lone surrogate replaced, as no text can hold one."""
    try:
        body.decode()
    except UnicodeDecodeError as error:
        raise BadEncoding("The body is not UTF-8.") from error
    if _SURROGATE.search(body) is None:
        return body
    return _ESCAPE.sub(_mended_escape, body)


def _mended_escape(escape: re.Match[bytes]) -> bytes:
    found = escape[0]
    is_lone = len(found) == _LONE and _SURROGATE.match(found) is not None
    return DAMAGED.encode() if is_lone else found


def _envelope(body: bytes) -> EventBatch:
    try:
        return _BATCH.decode(body)
    except RecursionError:
        return _envelope(_cut_deep(body))
    except msgspec.ValidationError as error:
        return _envelope_by_last_keys(body, error)
    except msgspec.DecodeError as error:
        raise MalformedBody("The body is not JSON.") from error


def _envelope_by_last_keys(body: bytes, error: msgspec.ValidationError) -> EventBatch:
    """Try again without all but the last of duplicate keys, each of which was looked at above."""
    try:
        return _BATCH.decode(msgspec.json.encode(_MEMBERS.decode(body)))
    except msgspec.ValidationError:
        fault = fault_of(error)
        raise BadBatch(Refusal(fault.code, fault.pointer)) from error
    except msgspec.DecodeError as malformed:
        raise MalformedBody("The body is not JSON.") from malformed
    except RecursionError:
        return _envelope_by_last_keys(_cut_deep(body), error)


def _cut_deep(body: bytes) -> bytes:
    """Return *body* with 0 for what lies far too deep: its event is refused, others are read."""
    kept: list[bytes] = []
    depth = start = 0
    for token in _STRUCTURE.finditer(body):
        if token[0] in b"[{":
            depth += 1
            if depth == _FAR_TOO_DEEP:
                kept += body[start : token.start()], b"0"
        elif token[0] in b"]}":
            if depth == _FAR_TOO_DEEP:
                start = token.end()
            depth -= 1
    return b"".join(kept) + (body[start:] if depth < _FAR_TOO_DEEP else b"")


def _about(headers: Mapping[str, str]) -> EventBatch:
    """Read what the headers say around the events that come one a line."""
    said: dict[str, object] = {
        member: headers[header] for header, member in _HEADERS.items() if header in headers
    }
    try:
        return msgspec.convert({**said, "events": []}, EventBatch, strict=False)
    except msgspec.ValidationError as error:
        fault = fault_of(error)
        raise BadBatch(Refusal(fault.code, fault.pointer)) from error


def _batch(about: EventBatch, raws: list[msgspec.Raw] | list[bytes], frame: Frame) -> Batch:
    if len(raws) > frame.limits.max_batch_events:
        raise BodyTooLarge("events", frame.limits.max_batch_events)
    sent_at = _checked_about(about, frame)
    read = [read_event(bytes(raw), index, frame, about.producer) for index, raw in enumerate(raws)]
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
