"""Chrome trace-event JSON of a job, as Perfetto and chrome://tracing read it.

Process 0 is the ledger: one lane, one slice a segment, so its slices by category sum to the ledger.
Process ``number + 1`` is an attempt, with a thread a rank. Thread 0 holds spans without a rank.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ett_service.core.ledger.results import AttemptLedger, Segment
from ett_service.core.ledger.stages import Milestone, RankSpan

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
