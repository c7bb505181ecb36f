"""The timeline of a job: time by stage and by rank, and the spans of every rank as a trace."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from fastapi import APIRouter, Depends
from pydantic import Field
from starlette.responses import Response

from ett_service.api.answers import Answer, Instant, Seconds
from ett_service.api.bodies import OF_RECORD, FormatParameter, as_files, listed
from ett_service.api.deps import Job, ProjectId, Reader, Reading, only_declared_parameters
from ett_service.api.jobs.listing import ledger_of
from ett_service.api.problems import declared
from ett_service.core.events import Event
from ett_service.core.fleet.totals import ratio
from ett_service.core.ledger.ranks import rank_times, slowest_ranks
from ett_service.core.ledger.results import AttemptLedger, JobLedger, Segment
from ett_service.core.ledger.stages import Milestone, RankSpan, milestones, rank_spans, stage_times
from ett_service.core.words import Phase
from ett_service.storage.jobs import ledgers
from ett_service.storage.record import events as stored_events
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.storage.record.pruned import require_record

router = APIRouter(
    prefix="/v1/jobs", tags=["jobs"], dependencies=[Depends(only_declared_parameters)]
)


class StageAnswer(Answer):
    """The time of an attempt in a phase, or in a stage of it."""

    number: int = Field(description="The attempt's number.")
    phase: Phase
    stage: str | None = Field(description="Null for the phase as a whole.")
    spans: int
    inclusive_seconds: Seconds
    exclusive_seconds: Seconds = Field(
        description="The part in which no phase that began later was open, stages of it or not; of "
        "a stage, no stage that began later."
    )
    skew_seconds: Seconds | None = Field(
        description="Slowest rank minus the median; null with fewer than two ranks."
    )


class StagesAnswer(Answer):
    """Time by attempt, phase and stage."""

    job: str
    as_of: Instant
    e2e_seconds: Seconds
    span_seconds: Seconds = Field(
        validation_alias="span_us",
        description="All phases and stages added up, as whoever sums their spans would.",
    )
    span_ratio: float = Field(
        description="`span_seconds` over `e2e_seconds`: spans overlap, and the ledger does not."
    )
    stages: list[StageAnswer]


class RankAnswer(Answer):
    """What a rank takes for a step in an attempt, or the ranks of a host together."""

    number: int = Field(description="The attempt's number.")
    host: str | None
    rank: int | None = Field(description="Null for the host as a whole.")
    ranks: int
    windows: int = Field(description="Between two reports of one process.")
    steps: int
    step_seconds: float = Field(description="A step; the median over the windows.")
    data_wait_seconds: float | None = Field(description="Likewise; null where not reported.")


class SlowestRankAnswer(Answer):
    """The rank that takes longest in an attempt, by one measure."""

    number: int = Field(description="The attempt's number.")
    measure: Literal["step_seconds", "data_wait_seconds"]
    rank: int
    host: str | None
    seconds: float = Field(description="Its median, a step.")
    median_seconds: float = Field(description="The median of the ranks, the lower of two.")
    ranks: int = Field(description="The ranks that report it.")
    windows: int = Field(description="The windows of the slowest.")


class RanksAnswer(Answer):
    """Times of ranks and hosts by attempt, and the slowest where two ranks or more report."""

    job: str
    as_of: Instant
    ranks: list[RankAnswer]
    slowest: list[SlowestRankAnswer]


_TRACE: dict[str, Any] = {
    "description": "Chrome trace-event JSON; `ts` is microseconds since the Unix epoch.",
    "content": {
        "application/json": {
            "schema": {
                "type": "object",
                "required": ["traceEvents"],
                "properties": {"traceEvents": {"type": "array", "items": {"type": "object"}}},
            }
        }
    },
}


_EVENT_BYTES = 2 << 10
"""What one event and what is read from it hold."""


class _Record(NamedTuple):
    """What a job's timeline is made of."""

    events: list[Event]
    offsets: Mapping[str, int]
    ledger: JobLedger


def events_of(job: Job, conn: Reader, project_id: ProjectId, reading: Reading) -> list[Event]:
    """Read a job's events, which are many in a long one.

    Raises:
        Problem: 410 of a pruned job, 429.
    """
    require_record(conn, JobKey(project_id, job))
    reading.take(stored_events.count_events(conn, project_id, job) * _EVENT_BYTES)
    return stored_events.events(conn, project_id, job)


JobEvents = Annotated[list[Event], Depends(events_of)]


def _record(job: Job, conn: Reader, project_id: ProjectId, events: JobEvents) -> _Record:
    ledger = ledger_of(conn, project_id, job)
    return _Record(events, stored_events.offsets(conn, project_id, job), ledger)


_JobRecord = Annotated[_Record, Depends(_record)]


@router.get(
    "/{job}/stages",
    operation_id="read_stages",
    response_model=StagesAnswer,
    responses=as_files(OF_RECORD),
)
def read_stages(
    job: Job, record: _JobRecord, form: FormatParameter = "json"
) -> StagesAnswer | Response:
    """Return the time of each attempt by phase and stage, and the skew between its ranks."""
    ledger, spans = record.ledger, rank_spans(*record)
    times = stage_times(spans, ledger)
    span_us = sum(time.inclusive_us for time in times)
    span_ratio = ratio(span_us, ledger.e2e_us)
    answer = StagesAnswer.of(ledger, job=job, stages=times, span_us=span_us, span_ratio=span_ratio)
    return listed(form, answer, answer.stages, of=StageAnswer, name="stages")


@router.get(
    "/{job}/ranks",
    operation_id="read_ranks",
    response_model=RanksAnswer,
    responses=as_files(OF_RECORD),
)
def read_ranks(
    job: Job, record: _JobRecord, form: FormatParameter = "json"
) -> RanksAnswer | Response:
    """Return what each rank and host takes for a step and waits for its data, and the slowest.

    Ranks that train in step wait for each other inside the step and show one step time. Their
    waits for data tell them apart; a rank that computes slowly is not found.
    """
    ledger, times = record.ledger, rank_times(*record)
    answer = RanksAnswer.of(ledger, job=job, ranks=times, slowest=slowest_ranks(times))
    return listed(form, answer, answer.ranks, of=RankAnswer, name="ranks")


@router.get(
    "/{job}/trace",
    operation_id="read_trace",
    response_class=Response,
    responses={200: _TRACE, **declared(*OF_RECORD)},
)
def read_trace(job: Job, conn: Reader, project_id: ProjectId, record: _JobRecord) -> Response:
    """Return a trace for Perfetto: the ledger, and the spans of every rank of every attempt.

    Process 0 is the ledger, one slice a segment. Every attempt is a process and every rank one of
    its threads. The slices of a thread nest.
    """
    trace_events = trace(
        job,
        record.ledger.attempts,
        ledgers.segments(conn, project_id, job),
        rank_spans(*record),
        milestones(*record),
    )
    body = msgspec.json.encode({"displayTimeUnit": "ms", "traceEvents": list(trace_events)})
    return Response(body, media_type="application/json")


LEDGER_PROCESS = 0

TraceEvent = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Slice:
    """A span of time on one lane."""

    start_at: int
    end_at: int
    name: str
    category: str
    args: dict[str, Any]


def trace(
    job: str,
    attempts: Sequence[AttemptLedger],
    segments: Sequence[Segment],
    spans: Iterable[RankSpan],
    milestones: Iterable[Milestone],
) -> Iterator[TraceEvent]:
    """Yield the trace events of one job; ``ts`` is microseconds since the Unix epoch."""
    yield _named("process_name", LEDGER_PROCESS, 0, f"ledger of {job}")
    yield _named("thread_name", LEDGER_PROCESS, 0, "ledger")
    yield from drawn(LEDGER_PROCESS, 0, [_segment_slice(segment) for segment in segments])
    for attempt in attempts:
        yield _named("process_name", attempt.number + 1, 0, _title(attempt))
    lanes: dict[tuple[int, int], list[Slice]] = defaultdict(list)
    for span in spans:
        lanes[span.number + 1, _thread(span.rank)].append(_span_slice(span))
    for process, thread in sorted(lanes):
        yield _named("thread_name", process, thread, _lane(thread))
        yield from drawn(process, thread, lanes[process, thread])
    for milestone in milestones:
        yield _instant(milestone)


def drawn(process: int, thread: int, slices: Iterable[Slice]) -> Iterator[TraceEvent]:
    """Yield a begin and an end event for each of *slices*, nested as the format requires.

    Slices of one lane must nest, but spans need not. A span that outlasts the slice in which it
    began is cut there and continues beside it, so its length stays.
    """
    lane = {"pid": process, "tid": thread}
    open_slices: list[Slice] = []
    for slice_ in sorted(slices, key=lambda each: (each.start_at, -each.end_at)):
        yield from _closed(open_slices, slice_.start_at, lane)
        open_slices.append(slice_)
        yield _begin(slice_, slice_.start_at, lane)
    while open_slices:
        yield from _closed(open_slices, min(each.end_at for each in open_slices), lane)


def _closed(open_slices: list[Slice], until: int, lane: dict[str, int]) -> Iterator[TraceEvent]:
    while ending := [each for each in open_slices if each.end_at <= until]:
        first = min(ending, key=lambda each: each.end_at)
        at = first.end_at
        depth = open_slices.index(first)
        above = [each for each in open_slices[depth + 1 :] if each.end_at > at]
        over = open_slices[depth:]
        del open_slices[depth:]
        for _ in over:
            yield {"ph": "E", "ts": at, **lane}
        for each in above:
            open_slices.append(each)
            yield _begin(each, at, lane, continued=True)


def _begin(slice_: Slice, at: int, lane: dict[str, int], *, continued: bool = False) -> TraceEvent:
    args = {**slice_.args, "continued": True} if continued else slice_.args
    named = {"name": slice_.name, "cat": slice_.category}
    return {"ph": "B", "ts": at, **lane, **named, "args": args}


def _segment_slice(segment: Segment) -> Slice:
    args = {"period": segment.period, "attempt": segment.number}
    return Slice(segment.start_at, segment.end_at, segment.category, segment.category, args)


def _span_slice(span: RankSpan) -> Slice:
    args = {"phase": span.phase, "inferred_end": not span.ended}
    kind = "phase" if span.stage is None else "stage"
    return Slice(span.start_at, span.end_at, span.stage or span.phase, kind, args)


def _instant(milestone: Milestone) -> TraceEvent:
    lane = {"pid": milestone.number + 1, "tid": _thread(milestone.rank)}
    named = {"name": milestone.name, "cat": "event", "s": "p"}
    return {"ph": "i", "ts": milestone.at, **lane, **named, "args": dict(milestone.details)}


def _named(kind: str, process: int, thread: int, name: str) -> TraceEvent:
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "args": {"name": name}}


def _title(attempt: AttemptLedger) -> str:
    launch = f", launch {attempt.launch}" if attempt.launch else ""
    return f"attempt {attempt.number} ({attempt.outcome}{launch})"


def _thread(rank: int | None) -> int:
    return 0 if rank is None else rank + 1


def _lane(thread: int) -> str:
    return "no rank" if thread == 0 else f"rank {thread - 1}"
