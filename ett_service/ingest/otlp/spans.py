"""Spans as OTLP/HTTP carries them, in protobuf and in JSON, reduced to what is read of them."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TypeAlias

import msgspec
from google.protobuf.message import DecodeError
from msgspec import Raw, Struct
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1 import trace_pb2

from ett_service.ingest.json_cursor import Cursor
from ett_service.ingest.otlp.mapping import WANTED
from ett_service.ingest.refusals import BodyTooLarge, Code, MalformedBody

Value: TypeAlias = str | int | float | bool
Attributes: TypeAlias = Mapping[str, Value]
"""The attributes that are read, by their names without prefix."""

_TRACE_BYTES, _SPAN_BYTES = 16, 8
_NO_TRACE, _NO_SPAN = bytes(_TRACE_BYTES), bytes(_SPAN_BYTES)
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


class Span(Struct, frozen=True, gc=False):
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
    _limit(map(len, spans), most)
    return [
        _of_resource(_resource(group.get(_RESOURCE, ())), map(_parsed_span, sent))
        for group, sent in zip(groups, spans, strict=True)
    ]


def _messages(body: bytes, messages: Iterator[int], most: int) -> dict[int, list[bytes]]:
    """Return what *body* holds of other messages, by their fields."""
    fields: dict[int, list[bytes]] = {}
    place, size, allowed = 0, len(body), _MESSAGES_A_SPAN * most
    while place < size:
        if next(messages) > allowed:
            raise BodyTooLarge("spans", most)
        key, place = _varint(body, place)
        if key & 7 == _DELIMITED:
            length, place = _varint(body, place)
            end = place + length
            fields.setdefault(key >> 3, []).append(body[place:end])
        else:
            end = _end_of(key & 7, body, place)
        if end > size:
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
        case 5:
            return place + 4
        case _:
            raise MalformedBody(_MALFORMED)


def _varint(body: bytes, place: int) -> tuple[int, int]:
    """Return the number at *place*, and where it ends."""
    if place < len(body) and body[place] < 0x80:  # noqa: PLR2004 -- most are of one byte
        return body[place], place + 1
    number = 0
    for length, byte in enumerate(body[place : place + _LONGEST_VARINT]):
        number |= (byte & 0x7F) << 7 * length
        if not byte & 0x80:
            return number, place + length + 1
    raise MalformedBody(_MALFORMED)


def _resource(sent: Sequence[bytes]) -> Attributes:
    """Read the last of what was sent, as protobuf does where one is expected."""
    if not sent:
        return {}
    if len(sent[-1]) > _MOST_SPAN_BYTES:
        raise BodyTooLarge("bytes of a resource", _MOST_SPAN_BYTES)
    resource = Resource()
    try:
        resource.ParseFromString(sent[-1])
    except DecodeError as error:
        raise MalformedBody(_MALFORMED) from error
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


def _limit(counts: Iterable[int], most: int) -> None:
    if sum(counts) > most:
        raise BodyTooLarge("spans", most)


def _of_resource(resource: Attributes, spans: Iterable[Span | Code]) -> ResourceSpans:
    read = tuple(spans)
    return ResourceSpans(
        resource,
        tuple(span for span in read if isinstance(span, Span)),
        tuple(code for code in read if isinstance(code, Code)),
    )


def _protobuf_span(span: trace_pb2.Span) -> Span | Code:
    trace_id, span_id = span.trace_id, span.span_id
    if len(trace_id) != _TRACE_BYTES or len(span_id) != _SPAN_BYTES:
        return Code.BAD_ID
    if trace_id == _NO_TRACE or span_id == _NO_SPAN:
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
        value = each.value
        kind = value.WhichOneof("value")
        if kind in _SCALARS:
            read[name] = getattr(value, kind)
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


class _Scope(Struct, rename="camel"):
    spans: list[Raw] | None = None


class _Group(Struct, rename="camel"):
    resource: Raw = Raw(b"null")
    scope_spans: list[_Scope] | None = None


class _Request(Struct, rename="camel"):
    resource_spans: list[_Group] | None = None


_RESOURCE_JSON = msgspec.json.Decoder(_Resource | None)
_ANY = msgspec.json.Decoder(Raw)
_SPAN = msgspec.json.Decoder(_Span)
_REQUEST = msgspec.json.Decoder(_Request)
#: Trace and span id; all zeros are none.
_KEY = re.compile(rf"(?!0+:)[0-9a-f]{{{2 * _TRACE_BYTES}}}:(?!0+\Z)[0-9a-f]{{{2 * _SPAN_BYTES}}}")
_MOST_NS = 2**64
#: A body with fewer becomes no more than twelve megabytes of objects before they are counted.
_MOST_COMMAS = 200_000


def read_json(body: bytes, most: int) -> list[ResourceSpans]:
    """Read a request of up to *most* spans; ids are in hexadecimal, as OTLP has them in JSON.

    Raises:
        MalformedBody: It is none.
        BodyTooLarge: It has more spans.
    """
    try:
        request = _divided(body)
        return _JsonRequest(body, most).groups() if request is None else _groups(request, most)
    except (MalformedBody, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedBody(_MALFORMED_JSON) from error


def _divided(body: bytes) -> _Request | None:
    """Return a request whose spans are yet to be parsed; None if it is large, or not as usual."""
    if body.count(b",") > _MOST_COMMAS:
        return None
    try:
        return _REQUEST.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None  # the walk says what is wrong with it


def _groups(request: _Request, most: int) -> list[ResourceSpans]:
    groups = [(each.resource, each.scope_spans or []) for each in request.resource_spans or []]
    spans = [[raw for scope in scopes for raw in scope.spans or []] for _, scopes in groups]
    _limit(map(len, spans), most)
    outer = len(groups) + sum(len(scopes) for _, scopes in groups)
    _limit([outer, *map(len, spans)], _MESSAGES_A_SPAN * most)
    return [
        _of_resource(_json_resource(resource), map(_json_span, sent))
        for (resource, _), sent in zip(groups, spans, strict=True)
    ]


def _json_resource(raw: bytes | Raw) -> Attributes:
    if len(raw) > _MOST_SPAN_BYTES:
        raise BodyTooLarge("bytes of a resource", _MOST_SPAN_BYTES)
    resource: _Resource | None = _RESOURCE_JSON.decode(raw)
    return _from_json(resource.attributes if resource is not None else None)


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
        resource: Attributes = {}
        spans: list[Span | Code] = []
        for name in self._cursor.members():
            if name == "resource":
                resource = _json_resource(self._cursor.value())
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


def _json_span(raw: bytes | Raw) -> Span | Code:
    """Raises ``msgspec.DecodeError`` for what is no JSON."""
    if len(raw) > _MOST_SPAN_BYTES:
        return Code.TOO_LARGE
    try:
        return _checked(_SPAN.decode(raw))
    except RecursionError:
        return Code.TOO_DEEP
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError):
        _ANY.decode(raw)
        return Code.WRONG_TYPE


def _checked(span: _Span) -> Span | Code:
    """Raises ``ValueError`` for what is no time."""
    start, end = _nanoseconds(span.start_time_unix_nano), _nanoseconds(span.end_time_unix_nano)
    key = f"{span.trace_id}:{span.span_id}".lower()
    if _KEY.fullmatch(key) is None:
        return Code.BAD_ID
    if not start:
        return Code.MISSING_MEMBER
    attributes = _from_json(span.attributes)
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
    read: dict[str, Value] = {}
    for each in attributes or ():
        name, sent = WANTED.get(each.key), each.value
        if name is None or sent is None:
            continue
        # Of several the last counts, as protobuf has it.
        for value in (sent.bool_value, sent.double_value, sent.int_value, sent.string_value):
            if value is not None:
                read[name] = value
                break
    return read
