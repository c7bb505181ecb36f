"""Spans of OTLP/HTTP in JSON."""

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from typing import TypeVar

import msgspec
from msgspec import Raw, Struct

from ett_service.ingest.json_cursor import Cursor
from ett_service.ingest.otlp.mapping import WANTED
from ett_service.ingest.otlp.spans import (
    ERROR,
    EXCEPTION,
    MALFORMED,
    MESSAGES_A_SPAN,
    MOST_SPAN_BYTES,
    NS,
    SPAN_BYTES,
    TRACE_BYTES,
    ResourceSpans,
    Span,
    SpanAttributes,
    Value,
    limit,
    of_resource,
)
from ett_service.ingest.refusals import BodyTooLarge, Code, MalformedBody

T = TypeVar("T")
_MALFORMED_JSON = f"{MALFORMED[:-1]} in JSON."


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
_KEY = re.compile(rf"(?!0+:)[0-9a-f]{{{2 * TRACE_BYTES}}}:(?!0+\Z)[0-9a-f]{{{2 * SPAN_BYTES}}}")
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
    limit(map(len, spans), most)
    outer = len(groups) + sum(len(scopes) for _, scopes in groups)
    limit([outer, *map(len, spans)], MESSAGES_A_SPAN * most)
    return [
        of_resource(_json_resource(resource), map(_json_span, sent))
        for (resource, _), sent in zip(groups, spans, strict=True)
    ]


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
        resource: SpanAttributes | Code = {}
        spans: list[Span | Code] = []
        for name in self._cursor.members():
            if name == "resource":
                resource = _json_resource(self._cursor.value())
            elif (scopes := self._each(name, "scopeSpans")) is not None:
                spans = [span for _ in scopes for span in self._scope()]
        return of_resource(resource, spans)

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
            if next(self._messages) > MESSAGES_A_SPAN * self._most:
                raise BodyTooLarge("spans", self._most)
            yield


def _json_span(raw: bytes | Raw) -> Span | Code:
    """Raises ``msgspec.DecodeError`` for what is no JSON."""
    return Code.TOO_LARGE if len(raw) > MOST_SPAN_BYTES else _decoded(raw, _checked)


def _json_resource(raw: bytes | Raw) -> SpanAttributes | Code:
    """Raises ``msgspec.DecodeError`` for what is no JSON."""
    too_large = len(raw) > MOST_SPAN_BYTES
    return Code.TOO_LARGE if too_large else _decoded(raw, _resource_attributes)


def _decoded(raw: bytes | Raw, read: Callable[[bytes | Raw], T]) -> T | Code:
    """Raises ``msgspec.DecodeError`` for what is no JSON."""
    try:
        return read(raw)
    except RecursionError:
        return Code.TOO_DEEP
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError):
        _ANY.decode(raw)
        return Code.WRONG_TYPE


def _resource_attributes(raw: bytes | Raw) -> SpanAttributes:
    resource: _Resource | None = _RESOURCE_JSON.decode(raw)
    return _from_json(resource.attributes if resource is not None else None)


def _checked(raw: bytes | Raw) -> Span | Code:
    """Raises ``ValueError`` for what is no time, too."""
    span = _SPAN.decode(raw)
    start, end = _nanoseconds(span.start_time_unix_nano), _nanoseconds(span.end_time_unix_nano)
    key = f"{span.trace_id}:{span.span_id}".lower()
    if _KEY.fullmatch(key) is None:
        return Code.BAD_ID
    if not start:
        return Code.MISSING_MEMBER
    attributes = _from_json(span.attributes)
    return Span(key, span.name, start // NS, end // NS or None, attributes, *_failure(span))


def _nanoseconds(value: int | str) -> int:
    """Raises ``ValueError`` for what is no unsigned integer of 64 bits."""
    nanoseconds = int(value) if isinstance(value, int) or value.isdecimal() else -1
    if not 0 <= nanoseconds < _MOST_NS:
        raise ValueError(value)
    return nanoseconds


def _failure(span: _Span) -> tuple[bool, SpanAttributes | None]:
    if span.status is None or span.status.code not in (ERROR, "STATUS_CODE_ERROR"):
        return False, None
    exceptions = [each for each in span.events or () if each.name == EXCEPTION]
    return True, _from_json(exceptions[-1].attributes) if exceptions else None


def _from_json(attributes: Iterable[_Attribute] | None) -> SpanAttributes:
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
