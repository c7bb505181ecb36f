"""Spans as OTLP/HTTP carries them: in protobuf, and the same in JSON."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from tests.builders.clock import NOON, SECOND

Value = str | int | float | bool
PROTOBUF = {"Content-Type": "application/x-protobuf"}
JSON = {"Content-Type": "application/json"}
_NS = 1000


@dataclass(frozen=True)
class Sent:
    """A span; its instants are seconds after noon, and its end None while it is open."""

    name: str
    start: float
    end: float | None
    attributes: Mapping[str, Value] = field(default_factory=dict)
    number: int = 1  #: makes its ids, one per span
    exception: tuple[str, str] | None = None  #: its type and message, with which the span failed

    def protobuf(self) -> Span:
        """Return the span as OTLP has it."""
        span = Span(
            trace_id=self.number.to_bytes(16, "big"),
            span_id=self.number.to_bytes(8, "big"),
            name=self.name,
            start_time_unix_nano=_nanoseconds(self.start),
            end_time_unix_nano=0 if self.end is None else _nanoseconds(self.end),
            attributes=_attributes(self.attributes),
        )
        if self.exception is not None:
            kind, message = self.exception
            attributes = {"exception.type": kind, "exception.message": message}
            span.status.code = Status.STATUS_CODE_ERROR
            span.events.add(name="exception", attributes=_attributes(attributes))
        return span


def _nanoseconds(seconds: float) -> int:
    return (NOON + round(seconds * SECOND)) * _NS


def _attributes(attributes: Mapping[str, Value]) -> list[KeyValue]:
    return [KeyValue(key=key, value=_value(value)) for key, value in attributes.items()]


def _value(value: Value) -> AnyValue:
    match value:
        case bool():
            return AnyValue(bool_value=value)
        case int():
            return AnyValue(int_value=value)
        case float():
            return AnyValue(double_value=value)
        case str():
            return AnyValue(string_value=value)


def numbered(*spans: Sent) -> list[Sent]:
    """Give each of *spans* ids of its own, by its place."""
    return [
        Sent(span.name, span.start, span.end, span.attributes, place, span.exception)
        for place, span in enumerate(spans, start=1)
    ]


def request(resource: Mapping[str, Value], spans: Sequence[Sent]) -> ExportTraceServiceRequest:
    """Return an export of *spans* by one process."""
    sent = ExportTraceServiceRequest()
    group = sent.resource_spans.add()
    group.resource.attributes.extend(_attributes(resource))
    group.scope_spans.add().spans.extend(span.protobuf() for span in spans)
    return sent


def protobuf(resource: Mapping[str, Value], spans: Sequence[Sent]) -> bytes:
    """Return the body of a request in protobuf."""
    body: bytes = request(resource, spans).SerializeToString()
    return body


def in_json(resource: Mapping[str, Value], spans: Sequence[Sent]) -> dict[str, Any]:
    """Return the body of the same request in JSON, its ids in hexadecimal."""
    return {
        "resourceSpans": [
            {
                "resource": {"attributes": _json_attributes(resource)},
                "scopeSpans": [{"spans": [_json_span(span) for span in spans]}],
            }
        ]
    }


def _json_span(span: Sent) -> dict[str, Any]:
    sent = span.protobuf()
    members: dict[str, Any] = {
        "traceId": sent.trace_id.hex(),
        "spanId": sent.span_id.hex(),
        "name": span.name,
        "kind": 1,
        "startTimeUnixNano": str(sent.start_time_unix_nano),
        "attributes": _json_attributes(span.attributes),
    }
    if span.end is not None:
        members["endTimeUnixNano"] = str(sent.end_time_unix_nano)
    if span.exception is not None:
        kind, message = span.exception
        attributes = _json_attributes({"exception.type": kind, "exception.message": message})
        members["status"] = {"code": 2}
        members["events"] = [{"name": "exception", "attributes": attributes}]
    return members


def _json_attributes(attributes: Mapping[str, Value]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _json_value(value)} for key, value in attributes.items()]


def _json_value(value: Value) -> dict[str, Any]:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case str():
            return {"stringValue": value}


def json_body(resource: Mapping[str, Value], spans: Sequence[Sent]) -> bytes:
    """Return the body of a request in JSON."""
    return json.dumps(in_json(resource, spans)).encode()
