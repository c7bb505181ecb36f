"""Spans of OTLP/HTTP, reduced to what is read of them, and what bounds a request."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from msgspec import Struct

from ett_service.ingest.refusals import BodyTooLarge, Code

Value: TypeAlias = str | int | float | bool
SpanAttributes: TypeAlias = Mapping[str, Value]
"""The attributes that are read, by their names without prefix."""

TRACE_BYTES, SPAN_BYTES = 16, 8
"""Lengths of ids."""

ERROR = 2
"""The code of the status of a span that failed."""

EXCEPTION = "exception"
"""The name of the event that records one."""

NS = 1000
"""Nanoseconds in a microsecond."""

MALFORMED = "The body is not an ExportTraceServiceRequest."

MESSAGES_A_SPAN = 4
"""A span may come in a group and a scope of its own, with a resource."""

MOST_SPAN_BYTES = 256 << 10
"""As much as a long traceback and all attributes that an SDK allows by default."""

MOST_ATTRIBUTES = 1024
"""Eight times what an SDK allows by default; each is looked at."""


class Span(Struct, frozen=True, gc=False):
    """One span; instants are microseconds since the Unix epoch."""

    key: str  #: trace and span id in hexadecimal, joined by a colon
    name: str
    start: int
    end: int | None  #: None while it is open
    attributes: SpanAttributes
    failed: bool = False
    exception: SpanAttributes | None = None  #: of the last one that it records, if it failed


@dataclass(frozen=True, slots=True)
class ResourceSpans:
    """The spans of one process, and what is wrong with those that cannot be read."""

    resource: SpanAttributes
    spans: tuple[Span, ...]
    refused: tuple[Code, ...] = ()


def limit(counts: Iterable[int], most: int) -> None:
    """Raises ``BodyTooLarge`` where they add up to more than *most*."""
    if sum(counts) > most:
        raise BodyTooLarge("spans", most)


def of_resource(resource: SpanAttributes | Code, spans: Iterable[Span | Code]) -> ResourceSpans:
    """Put spans to their process; where it cannot be read, nobody knows whose they are."""
    read = tuple(spans)
    if isinstance(resource, Code):
        return ResourceSpans({}, (), (resource,) * len(read))
    return ResourceSpans(
        resource,
        tuple(span for span in read if isinstance(span, Span)),
        tuple(code for code in read if isinstance(code, Code)),
    )
