"""Spans of OTLP/HTTP in protobuf."""

from collections.abc import Iterator, Sequence
from itertools import count

from google.protobuf.message import DecodeError
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1 import trace_pb2

from ett_service.ingest.otlp.mapping import WANTED
from ett_service.ingest.otlp.spans import (
    ERROR,
    EXCEPTION,
    MALFORMED,
    MESSAGES_A_SPAN,
    MOST_ATTRIBUTES,
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

_NO_TRACE, _NO_SPAN = bytes(TRACE_BYTES), bytes(SPAN_BYTES)
#: Fields: of a request its groups, and of a group its resource, are the first; of a group its
#: scopes, and of a scope its spans, are the second.
_RESOURCE, _INNER = 1, 2
_DELIMITED = 2
_LONGEST_VARINT = 10


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
    limit(map(len, spans), most)
    return [
        of_resource(_resource(group.get(_RESOURCE, ())), map(_parsed_span, sent))
        for group, sent in zip(groups, spans, strict=True)
    ]


def _messages(body: bytes, messages: Iterator[int], most: int) -> dict[int, list[bytes]]:
    """Return what *body* holds of other messages, by their fields."""
    fields: dict[int, list[bytes]] = {}
    place, size, allowed = 0, len(body), MESSAGES_A_SPAN * most
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
            raise MalformedBody(MALFORMED)
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
            raise MalformedBody(MALFORMED)


def _varint(body: bytes, place: int) -> tuple[int, int]:
    """Return the number at *place*, and where it ends."""
    if place < len(body) and body[place] < 0x80:  # noqa: PLR2004 -- most are of one byte
        return body[place], place + 1
    number = 0
    for length, byte in enumerate(body[place : place + _LONGEST_VARINT]):
        number |= (byte & 0x7F) << 7 * length
        if not byte & 0x80:
            return number, place + length + 1
    raise MalformedBody(MALFORMED)


def _resource(sent: Sequence[bytes]) -> SpanAttributes | Code:
    """Read the last of what was sent, as protobuf does where one is expected."""
    if not sent:
        return {}
    if len(sent[-1]) > MOST_SPAN_BYTES:
        return Code.TOO_LARGE
    resource = Resource()
    try:
        resource.ParseFromString(sent[-1])
    except DecodeError:
        return Code.WRONG_TYPE
    return _from_protobuf(resource.attributes)


def _parsed_span(body: bytes) -> Span | Code:
    if len(body) > MOST_SPAN_BYTES:
        return Code.TOO_LARGE
    span = trace_pb2.Span()
    try:
        span.ParseFromString(body)
    except DecodeError:
        return Code.WRONG_TYPE
    if len(span.attributes) > MOST_ATTRIBUTES or len(span.events) > MOST_ATTRIBUTES:
        return Code.TOO_LARGE
    return _protobuf_span(span)


def _protobuf_span(span: trace_pb2.Span) -> Span | Code:
    trace_id, span_id = span.trace_id, span.span_id
    if len(trace_id) != TRACE_BYTES or len(span_id) != SPAN_BYTES:
        return Code.BAD_ID
    if trace_id == _NO_TRACE or span_id == _NO_SPAN:
        return Code.BAD_ID
    start, end = span.start_time_unix_nano, span.end_time_unix_nano
    if not start:
        return Code.MISSING_MEMBER
    key = f"{trace_id.hex()}:{span_id.hex()}"
    attributes = _from_protobuf(span.attributes)
    if span.status.code != ERROR:
        return Span(key, span.name, start // NS, end // NS or None, attributes)
    exceptions = [each for each in span.events if each.name == EXCEPTION]
    exception = _from_protobuf(exceptions[-1].attributes) if exceptions else None
    return Span(key, span.name, start // NS, end // NS or None, attributes, True, exception)


def _from_protobuf(attributes: Sequence[KeyValue]) -> SpanAttributes:
    read: dict[str, Value] = {}
    for each in attributes[:MOST_ATTRIBUTES]:
        name = WANTED.get(each.key)
        if name is None:
            continue
        value = each.value
        kind = value.WhichOneof("value")
        if kind in _SCALARS:
            read[name] = getattr(value, kind)
    return read


_SCALARS = frozenset({"string_value", "int_value", "double_value", "bool_value"})
