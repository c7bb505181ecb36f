"""One request of OTLP/HTTP, from its body to what is stored of it."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace

from msgspec import structs
from sqlalchemy import Connection

from ett_service.core.events import Event, PhaseEnded, PhaseStarted, SpanOver
from ett_service.core.intervals import rfc3339
from ett_service.core.words import Phase
from ett_service.ingest import accept as batches
from ett_service.ingest.accept import Verdicts
from ett_service.ingest.decode import Batch, inflate, read_made
from ett_service.ingest.members import Arrival, Frame, arrival
from ett_service.ingest.otlp.events import BEGIN, END, Conversion, Speaker, convert, process_facts
from ett_service.ingest.otlp.identity import Members
from ett_service.ingest.otlp.json_spans import read_json
from ett_service.ingest.otlp.protobuf_spans import read_protobuf
from ett_service.ingest.otlp.spans import ResourceSpans
from ett_service.ingest.refusals import BodyTooLarge, Code, UnsupportedMedia
from ett_service.ingest.wire import Limits
from ett_service.storage.record.events import stored_ids

PROTOBUF, JSON = "application/x-protobuf", "application/json"

_READERS: Mapping[str, Callable[[bytes, int], list[ResourceSpans]]] = {
    PROTOBUF: read_protobuf,
    JSON: read_json,
}


@dataclass(frozen=True, slots=True)
class Request:
    """What one request brought."""

    batch: Batch  #: the events of its spans
    spans: tuple[int, ...]  #: of each event, the place of its span
    facts: Batch  #: what the processes say of their jobs and attempts
    unread: tuple[Code, ...]  #: of the spans that cannot be read
    count: int  #: of all spans
    unmapped: int
    nameless: int


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of a request's spans and of their events."""

    verdicts: Verdicts  #: on all events; those refused are of spans
    rejected: Mapping[str, int]  #: how many spans, by the code of what is wrong with them


NO_JOB = "no_job"
"""What is wrong with a span that names no job."""


def media_type(content_type: str) -> str:
    """Return the type of a body or of an answer.

    Raises:
        UnsupportedMedia: OTLP/HTTP has no such.
    """
    media = content_type.partition(";")[0].strip().lower()
    if media not in _READERS:
        raise UnsupportedMedia(f"Content-Type may be {PROTOBUF} or {JSON}.")
    return media


def decode(body: bytes, headers: Mapping[str, str], *, now_us: int, limits: Limits) -> Request:
    """Read a request's *body* as its *headers* say.

    Raises:
        Refused: In one of its kinds, where the request as a whole cannot be taken.
    """
    read = _READERS[media_type(headers.get("content-type", ""))]
    if len(body) > limits.max_body_bytes:
        raise BodyTooLarge("bytes", limits.max_body_bytes)
    body = inflate(body, headers.get("content-encoding", ""), limits.max_inflated_bytes)
    groups = read(body, limits.max_batch_events)
    conversion = convert(groups)
    frame = Frame(limits, now_us)
    batch = read_made(conversion.events, frame)
    return Request(
        batch=batch,
        spans=tuple(conversion.spans),
        facts=read_made(_process_facts(conversion, batch), frame),
        unread=tuple(code for group in groups for code in group.refused),
        count=sum(len(group.spans) + len(group.refused) for group in groups),
        unmapped=conversion.unmapped,
        nameless=conversion.nameless,
    )


def _process_facts(conversion: Conversion, batch: Batch) -> list[Members]:
    arrived = {each.index: each.event for each in batch.arrivals}
    return [event for speaker in conversion.speakers for event in _facts_of(speaker, arrived)]


def _facts_of(speaker: Speaker, arrived: Mapping[int, Event]) -> list[Members]:
    events = [arrived[index] for index in speaker.events if index in arrived]
    firsts = [(_first(each), getattr(each, "phase", None) is Phase.QUEUED) for each in events]
    if not firsts:
        return []
    begun = min((first for first, is_queued in firsts if not is_queued), default=None)
    first_begun = None if begun is None else rfc3339(begun)
    return list(process_facts(speaker, rfc3339(min(firsts)[0]), first_begun))


def _first(event: Event) -> int:
    return min(event.start, event.at) if isinstance(event, SpanOver) else event.at


def accept(conn: Connection, request: Request, *, project_id: int, now_us: int) -> Receipt:
    """Keep what is new of *request*, in the caller's transaction."""
    # Facts come first: they say of which cluster a launch is.
    facts = (structs.replace(each, index=_OF_A_PROCESS) for each in request.facts.arrivals)
    arrivals = (*facts, *_continued(conn, request.batch.arrivals, project_id))
    batch = replace(request.batch, arrivals=arrivals)
    verdicts = batches.accept(conn, batch, project_id=project_id, now_us=now_us)
    errors = tuple(each for each in verdicts.errors if each.index != _OF_A_PROCESS)
    wrong = {request.spans[each.index or 0]: each.code for each in errors}
    rejected: Counter[str] = Counter([*wrong.values(), *request.unread])
    if request.nameless:
        rejected[NO_JOB] = request.nameless
    return Receipt(replace(verdicts, errors=errors), rejected)


_OF_A_PROCESS = -1
"""The index of an event that no span is."""


def _continued(
    conn: Connection, arrivals: Sequence[Arrival], project_id: int
) -> tuple[Arrival, ...]:
    """Return *arrivals* with one begin and one end for each span.

    A span whose begin is stored from when it was open needs its end only, and one that is stored
    whole needs no begin.
    """
    others = {_other(each) for each in arrivals if each.type in _BEGINNING}
    stored = stored_ids(conn, project_id, others)
    stored_or_here = stored | {(each.job, each.id) for each in arrivals}
    continued = []
    for each in arrivals:
        if each.type == SpanOver.type and _other(each) in stored:
            continued.append(_ended(each))
        elif not (each.type == PhaseStarted.type and _other(each) in stored_or_here):
            continued.append(each)
    return tuple(continued)


_BEGINNING = (SpanOver.type, PhaseStarted.type)


def _other(each: Arrival) -> tuple[str, str]:
    """Name the event by which this span was reported before: its begin, or all of it."""
    is_begin = each.type == PhaseStarted.type
    return each.job, each.id.removesuffix(BEGIN) if is_begin else each.id + BEGIN


_SHARED = tuple(each.name for each in fields(PhaseEnded) if each.name != "id")


def _ended(each: Arrival) -> Arrival:
    span = each.event
    members = {name: getattr(span, name) for name in _SHARED}
    return arrival(each.index, each.job, PhaseEnded(id=span.id + END, **members))
