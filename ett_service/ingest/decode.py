"""From a request's body to events, keeping the good ones of a batch with bad ones.

The body is inflated up to its limit, then read into what stands around its events, and each event
as it was written.
"""

import codecs
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import zstandard

from ett_service.ingest.json_cursor import LONGEST_VALUE, Cursor
from ett_service.ingest.members import DAMAGED, Arrival, Frame, parse_instant, read_event, text
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
from ett_service.ingest.wire import EventBatch, Limits

_ANY_RAW = msgspec.json.Decoder(msgspec.Raw)


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
    require_utf8(body)
    frame = Frame(limits, now_us)
    if media == "application/json":
        about, raws = read_object(body, limits.max_batch_events)
        return _whole_json(_batch(about, raws, frame), raws)
    about, raws = read_lines(body, named, limits.max_batch_events)
    batch = _batch(about, raws, frame)
    if raws and _is_nowhere_json(batch):
        raise MalformedBody("No line of the body is JSON.")
    return batch


def _whole_json(batch: Batch, raws: list[bytes]) -> Batch:
    """Pass a *batch* that is JSON from its begin to its end: what was refused may not be."""
    for refusal in batch.refusals:
        try:
            _ANY_RAW.decode(raws[refusal.index or 0])
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


def _batch(about: EventBatch, raws: list[bytes], frame: Frame) -> Batch:
    sent_at = _checked_about(about, frame)
    read = [read_event(raw, index, frame, about.producer) for index, raw in enumerate(raws)]
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


#: A few bytes can stand for 128 KiB each, so the cap is looked at every so many.
_ZSTD_PIECE = 256
#: What RFC 8878 asks every decoder to take; more would let the sender choose our memory.
_ZSTD_WINDOW = 8 << 20
_GZIP = 16 + zlib.MAX_WBITS

Around = tuple[EventBatch, list[bytes]]
"""The members of a batch beside its events, and each event as it was written."""

_BATCH = msgspec.json.Decoder(EventBatch)

_AT_ONCE = 4 << 20
"""Bytes of a body that a parser may look through before its events are counted."""

_A_VALUE = 16
"""Bytes of a body for each of its commas at least: each may make an object of some 60."""

_AROUND, _BETWEEN = 4096, 3
"""Bytes around the events at most, and between two of them, where a body is a usual one."""

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


def inflate(body: bytes, encoding: str, limit: int) -> bytes:
    """Undo one *encoding*, the value of ``Content-Encoding``.

    Raises ``BodyTooLarge`` beyond *limit* bytes, ``BadEncoding`` for what is cut, broken or
    followed by anything, ``UnsupportedMedia`` for others and for several.
    """
    match encoding.strip().lower():
        case "" | "identity":
            return body
        case "gzip":
            return _gunzip(body, limit)
        case "zstd":
            return _unzstd(body, limit)
        case _:
            raise UnsupportedMedia("Content-Encoding may be gzip or zstd, once.")


def _gunzip(body: bytes, limit: int) -> bytes:
    stream = zlib.decompressobj(_GZIP)
    try:
        inflated = stream.decompress(body, limit + 1)
    except zlib.error as error:
        raise BadEncoding("The body is not gzip.") from error
    if len(inflated) > limit:
        raise BodyTooLarge("inflated bytes", limit)
    if not stream.eof or stream.unused_data:
        raise BadEncoding("The body is truncated, or something follows it.")
    return inflated


def _unzstd(body: bytes, limit: int) -> bytes:
    stream = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW).decompressobj()
    inflated = bytearray()
    for start in range(0, len(body), _ZSTD_PIECE):
        if stream.eof:
            raise BadEncoding("Something follows the body.")
        try:
            inflated += stream.decompress(body[start : start + _ZSTD_PIECE])
        except zstandard.ZstdError as error:
            raise BadEncoding("The body is not zstd, or needs too much memory.") from error
        if len(inflated) > limit:
            raise BodyTooLarge("inflated bytes", limit)
    if not stream.eof or stream.unused_data:
        raise BadEncoding("The body is truncated, or something follows it.")
    return bytes(inflated)


def require_utf8(body: bytes) -> None:
    """Look at one piece after the other: a text takes up to four times as much as its bytes.

    Raises:
        BadEncoding: It is not.
    """
    if body.isascii():
        return
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for start in range(0, len(body), _PIECE):
            decoder.decode(body[start : start + _PIECE])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise BadEncoding("The body is not UTF-8.") from error


def read_object(body: bytes, most: int) -> Around:
    """Read an object with up to *most* events in it.

    Raises:
        BodyTooLarge: It has more, or one of its values is too long.
        MalformedBody: It is not JSON.
        BadBatch: A member beside the events is at fault.
    """
    about, raws = read_at_once(body, most) or read_in_steps(body, most)
    return about, _all_mended(body, raws)


def read_lines(body: bytes, headers: Mapping[str, str], most: int) -> Around:
    """Read up to *most* events of one line each, around which *headers* stand.

    Raises:
        BodyTooLarge: There are more.
        BadBatch: The headers are at fault.
    """
    raws = _all_mended(body, _lines(body, most))
    return _about(headers), raws


def _all_mended(body: bytes, raws: list[bytes]) -> list[bytes]:
    if b"\\" not in body or _SURROGATE.search(body) is None:
        return raws
    return [_mended(raw) for raw in raws]


def _mended(raw: bytes) -> bytes:
    """Return *raw* with each lone surrogate replaced, as no text can hold one."""
    return raw if _SURROGATE.search(raw) is None else _ESCAPE.sub(_mended_escape, raw)


def _mended_escape(escape: re.Match[bytes]) -> bytes:
    written = escape[0]
    is_lone = len(written) == _LONE and _SURROGATE.match(written) is not None
    return DAMAGED.encode() if is_lone else written


def read_at_once(body: bytes, most: int) -> Around | None:
    """Read what senders usually write, at the speed of a parser; None for anything else.

    A body of few commas has few values, so that not much is made before they are counted.
    """
    if len(body) > _AT_ONCE or body.count(b",") * _A_VALUE > len(body):
        return None
    try:
        about = _BATCH.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return None
    raws = list(map(bytes, about.events))
    around = len(body) - sum(map(len, raws)) - _BETWEEN * len(raws)
    if around > _AROUND or max(map(len, raws), default=0) > LONGEST_VALUE:
        return None
    if len(raws) > most:
        raise BodyTooLarge("events", most)
    return about, raws


def read_in_steps(body: bytes, most: int) -> Around:
    """Walk a body of any shape, value by value; raises as :func:`read_object`."""
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


def _lines(body: bytes, most: int) -> list[bytes]:
    lines: list[bytes] = []
    for line in _LINE.finditer(body):
        if len(lines) == most:
            raise BodyTooLarge("events", most)
        lines.append(line[0])
    return lines


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
