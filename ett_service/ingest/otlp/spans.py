"""Spans as OTLP/HTTP carries them, in protobuf and in JSON, reduced to what is read of them."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, NamedTuple, TypeAlias, TypeVar

import msgspec
from google.protobuf.message import DecodeError
from msgspec import Raw, Struct
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1 import trace_pb2

from ett_service.ingest.json_cursor import Cursor
from ett_service.ingest.otlp.mapping import WANTED
from ett_service.ingest.refusals import BodyTooLarge, Code, MalformedBody

T = TypeVar("T")
Value: TypeAlias = str | int | float | bool
Attributes: TypeAlias = Mapping[str, Value]
"""The attributes that are read, by their names without prefix."""

_TRACE_BYTES, _SPAN_BYTES = 16, 8
_ERROR = trace_pb2.Status.STATUS_CODE_ERROR
_EXCEPTION = "exception"
_NS = 1000
_MALFORMED = "The body is not an ExportTraceServiceRequest."
_MALFORMED_JSON = f"{_MALFORMED[:-1]} in JSON."

#: Fields: of a request its groups, and of a group its resource, are the first; of a group its
#: scopes, and of a scope its spans, are the second.
_RESOURCE, _INNER = 1, 2
_DELIMITED = 2
_LONGEST_VARINT = 10
#: A span may come in a group and a scope of its own, with a resource.
_MESSAGES_A_SPAN = 4
#: As much as a long traceback and all attributes that an SDK allows by default.
_MOST_SPAN_BYTES = 256 << 10
#: Eight times what an SDK allows by default; each is looked at.
_MOST_ATTRIBUTES = 1024


class Span(NamedTuple):
    """One span; instants are microseconds since the Unix epoch."""

    key: str  #: trace and span id in hexadecimal, joined by a colon
    name: str
    start: int
    end: int | None  #: None while it is open
    attributes: Attributes
    failed: bool = False
    exception: Attributes | None = None  #: of the last one that it records, if it failed


@dataclass(frozen=True, slots=True)
class ResourceSpans:
    """The spans of one process, and what is wrong with those that cannot be read."""

    resource: Attributes
    spans: tuple[Span, ...]
    refused: tuple[Code, ...] = ()


def read_protobuf(body: bytes, most: int) -> list[ResourceSpans]:
    """Read a request of up to *most* spans.

    Its outer messages are walked and its spans parsed one by one, since a body of empty messages
    takes a hundred times its size once it is parsed.

    Raises:
        MalformedBody: It is none.
        BodyTooLarge: It has more spans.
    """
    messages = count(1)
    groups = [
        _messages(group, messages, most)
        for group in _messages(body, messages, most).get(_RESOURCE, ())
    ]
    spans = [
        [
            span
            for scope in group.get(_INNER, ())
            for span in _messages(scope, messages, most).get(_INNER, ())
        ]
        for group in groups
    ]
    if sum(map(len, spans)) > most:
        raise BodyTooLarge("spans", most)
    return [
        _of_resource(_resource(group.get(_RESOURCE, ())), map(_parsed_span, sent))
        for group, sent in zip(groups, spans, strict=True)
    ]


def _messages(body: bytes, messages: Iterator[int], most: int) -> dict[int, list[bytes]]:
    """Return what *body* holds of other messages, by their fields."""
    fields: dict[int, list[bytes]] = {}
    place = 0
    while place < len(body):
        if next(messages) > _MESSAGES_A_SPAN * most:
            raise BodyTooLarge("spans", most)
        key, place = _varint(body, place)
        end = _end_of(key & 7, body, place)
        if key & 7 == _DELIMITED:
            length, place = _varint(body, place)
            end = place + length
            fields.setdefault(key >> 3, []).append(body[place:end])
        if end > len(body):
            raise MalformedBody(_MALFORMED)
        place = end
    return fields


def _end_of(kind: int, body: bytes, place: int) -> int:
    """Return where a value ends, of a *kind* other than what has a length."""
    match kind:
        case 0:
            return _varint(body, place)[1]
        case 1:
            return place + 8
        case 2:
            return place
        case 5:
            return place + 4
        case _:
            raise MalformedBody(_MALFORMED)


def _varint(body: bytes, place: int) -> tuple[int, int]:
    """Return the number at *place*, and where it ends."""
    number = 0
    for length, byte in enumerate(body[place : place + _LONGEST_VARINT]):
        number |= (byte & 0x7F) << 7 * length
        if not byte & 0x80:
            return number, place + length + 1
    raise MalformedBody(_MALFORMED)


def _resource(sent: Sequence[bytes]) -> Attributes | Code:
    """Read the last of what was sent, as protobuf does where one is expected."""
    if not sent:
        return {}
    if len(sent[-1]) > _MOST_SPAN_BYTES:
        return Code.TOO_LARGE
    resource = Resource()
    try:
        resource.ParseFromString(sent[-1])
    except DecodeError:
        return Code.WRONG_TYPE
    return _from_protobuf(resource.attributes)


def _parsed_span(body: bytes) -> Span | Code:
    if len(body) > _MOST_SPAN_BYTES:
        return Code.TOO_LARGE
    span = trace_pb2.Span()
    try:
        span.ParseFromString(body)
    except DecodeError:
        return Code.WRONG_TYPE
    if len(span.attributes) > _MOST_ATTRIBUTES or len(span.events) > _MOST_ATTRIBUTES:
        return Code.TOO_LARGE
    return _protobuf_span(span)


def _of_resource(resource: Attributes | Code, spans: Iterable[Span | Code]) -> ResourceSpans:
    """Put spans to their process; where it cannot be read, nobody knows whose they are."""
    read = tuple(spans)
    if isinstance(resource, Code):
        return ResourceSpans({}, (), (resource,) * len(read))
    return ResourceSpans(
        resource,
        tuple(span for span in read if isinstance(span, Span)),
        tuple(code for code in read if isinstance(code, Code)),
    )


def _protobuf_span(span: trace_pb2.Span) -> Span | Code:
    trace_id, span_id = span.trace_id, span.span_id
    if len(trace_id) != _TRACE_BYTES or len(span_id) != _SPAN_BYTES:
        return Code.BAD_ID
    if not any(trace_id) or not any(span_id):
        return Code.BAD_ID
    start, end = span.start_time_unix_nano, span.end_time_unix_nano
    if not start:
        return Code.MISSING_MEMBER
    key = f"{trace_id.hex()}:{span_id.hex()}"
    attributes = _from_protobuf(span.attributes)
    if span.status.code != _ERROR:
        return Span(key, span.name, start // _NS, end // _NS or None, attributes)
    exceptions = [each for each in span.events if each.name == _EXCEPTION]
    exception = _from_protobuf(exceptions[-1].attributes) if exceptions else None
    return Span(key, span.name, start // _NS, end // _NS or None, attributes, True, exception)


def _from_protobuf(attributes: Sequence[KeyValue]) -> Attributes:
    read: dict[str, Value] = {}
    for each in attributes[:_MOST_ATTRIBUTES]:
        name = WANTED.get(each.key)
        if name is None:
            continue
        kind = each.value.WhichOneof("value")
        if kind in _SCALARS:
            read[name] = getattr(each.value, kind)
    return read


_SCALARS = frozenset({"string_value", "int_value", "double_value", "bool_value"})


class _Value(Struct, rename="camel"):
    """One of them; in JSON an integer of 64 bits is a text, too."""

    string_value: str | None = None
    int_value: int | str | None = None
    double_value: float | str | None = None
    bool_value: bool | None = None


class _Attribute(Struct):
    key: str = ""
    value: _Value | None = None


class _Event(Struct):
    name: str = ""
    attributes: list[_Attribute] | None = None


class _Status(Struct):
    code: int | str | None = None


class _Span(Struct, rename="camel"):
    trace_id: str = ""
    span_id: str = ""
    name: str = ""
    start_time_unix_nano: int | str = 0
    end_time_unix_nano: int | str = 0
    attributes: list[_Attribute] | None = None
    status: _Status | None = None
    events: list[_Event] | None = None


class _Resource(Struct):
    attributes: list[_Attribute] | None = None


_RESOURCE_JSON = msgspec.json.Decoder(_Resource | None)
_ANY = msgspec.json.Decoder(Raw)
_SPAN = msgspec.json.Decoder(_Span)
#: All zeros are no id.
_TRACE_ID = re.compile(rf"(?!0+\Z)[0-9a-f]{{{2 * _TRACE_BYTES}}}")
_SPAN_ID = re.compile(rf"(?!0+\Z)[0-9a-f]{{{2 * _SPAN_BYTES}}}")
_MOST_NS = 2**64


def read_json(body: bytes, most: int) -> list[ResourceSpans]:
    """Read a request of up to *most* spans; ids are in hexadecimal, as OTLP has them in JSON.

    Raises:
        MalformedBody: It is none.
        BodyTooLarge: It has more spans.
    """
    try:
        return _JsonRequest(body, most).groups()
    except (MalformedBody, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedBody(_MALFORMED_JSON) from error


class _JsonRequest:
    """Walks to the spans, counting what it meets, and parses them one by one."""

    def __init__(self, body: bytes, most: int) -> None:
        self._cursor = Cursor(body)
        self._most = most
        self._spans = count(1)
        self._messages = count(1)

    def groups(self) -> list[ResourceSpans]:
        read: list[ResourceSpans] = []
        for name in self._cursor.members():
            groups = self._each(name, "resourceSpans")
            if groups is not None:
                read = [self._group() for _ in groups]
        self._cursor.finish()
        return read

    def _group(self) -> ResourceSpans:
        resource: Attributes | Code = {}
        spans: list[Span | Code] = []
        for name in self._cursor.members():
            if name == "resource":
                resource = self._resource()
            elif (scopes := self._each(name, "scopeSpans")) is not None:
                spans = [span for _ in scopes for span in self._scope()]
        return _of_resource(resource, spans)

    def _scope(self) -> list[Span | Code]:
        read: list[Span | Code] = []
        for name in self._cursor.members():
            spans = self._each(name, "spans")
            if spans is not None:
                read = [self._span() for _ in spans]
        return read

    def _span(self) -> Span | Code:
        if next(self._spans) > self._most:
            raise BodyTooLarge("spans", self._most)
        return _json_span(self._cursor.value())

    def _resource(self) -> Attributes | Code:
        raw = self._cursor.value()
        return Code.TOO_LARGE if len(raw) > _MOST_SPAN_BYTES else _decoded(raw, _json_resource)

    def _each(self, name: str, wanted: str) -> Iterator[None] | None:
        """Return the elements of what *name* has, if it is what is *wanted*; else pass it."""
        if name == wanted and self._cursor.is_at(b"["):
            return self._counted(self._cursor.elements())
        raw = self._cursor.value()
        if name == wanted and raw != b"null":
            raise MalformedBody(_MALFORMED_JSON)
        _ANY.decode(raw)
        return None

    def _counted(self, elements: Iterator[None]) -> Iterator[None]:
        for _ in elements:
            if next(self._messages) > _MESSAGES_A_SPAN * self._most:
                raise BodyTooLarge("spans", self._most)
            yield


def _json_span(raw: bytes) -> Span | Code:
    """Raises ``msgspec.DecodeError`` for what is no JSON."""
    return Code.TOO_LARGE if len(raw) > _MOST_SPAN_BYTES else _decoded(raw, _checked)


def _decoded(raw: bytes, read: Callable[[bytes], T]) -> T | Code:
    """Raises ``msgspec.DecodeError`` for what is no JSON."""
    try:
        return read(raw)
    except RecursionError:
        return Code.TOO_DEEP
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError):
        _ANY.decode(raw)
        return Code.WRONG_TYPE


def _json_resource(raw: bytes) -> Attributes:
    resource = _RESOURCE_JSON.decode(raw)
    return _from_json(resource.attributes if resource else None)


def _checked(raw: bytes) -> Span | Code:
    """Raises ``ValueError`` for what is no time, too."""
    span = _SPAN.decode(raw)
    start, end = _nanoseconds(span.start_time_unix_nano), _nanoseconds(span.end_time_unix_nano)
    trace_id, span_id = span.trace_id.lower(), span.span_id.lower()
    if not _TRACE_ID.fullmatch(trace_id) or not _SPAN_ID.fullmatch(span_id):
        return Code.BAD_ID
    if not start:
        return Code.MISSING_MEMBER
    attributes = _from_json(span.attributes)
    key = f"{trace_id}:{span_id}"
    return Span(key, span.name, start // _NS, end // _NS or None, attributes, *_failure(span))


def _nanoseconds(value: int | str) -> int:
    """Raises ``ValueError`` for what is no unsigned integer of 64 bits."""
    nanoseconds = int(value) if isinstance(value, int) or value.isdecimal() else -1
    if not 0 <= nanoseconds < _MOST_NS:
        raise ValueError(value)
    return nanoseconds


def _failure(span: _Span) -> tuple[bool, Attributes | None]:
    if span.status is None or span.status.code not in (_ERROR, "STATUS_CODE_ERROR"):
        return False, None
    exceptions = [each for each in span.events or () if each.name == _EXCEPTION]
    return True, _from_json(exceptions[-1].attributes) if exceptions else None


def _from_json(attributes: Iterable[_Attribute] | None) -> Attributes:
    return dict(_read_attributes(attributes or ()))


def _read_attributes(attributes: Iterable[_Attribute]) -> Iterator[tuple[str, Value]]:
    for each in attributes:
        name = WANTED.get(each.key)
        if name is None or each.value is None:
            continue
        sent: tuple[Any, ...] = (
            each.value.string_value,
            each.value.int_value,
            each.value.double_value,
            each.value.bool_value,
        )
        yield from ((name, value) for value in sent if value is not None)
