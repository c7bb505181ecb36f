"""Stages and ranks: the spans of every rank, time by stage, and a job's milestones."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median_low

from ett_service.core.events import (
    CheckpointRestored,
    CheckpointSaved,
    Event,
    PhaseEnded,
    PhaseStarted,
    SpanOver,
)
from ett_service.core.intervals import Interval
from ett_service.core.ledger.attempt_segments import closings_inside
from ett_service.core.ledger.attempts.attempt_events import AttemptEvents, AttemptIdentity, Placed
from ett_service.core.ledger.attempts.attempts import Attempts, Clocks
from ett_service.core.ledger.attempts.spans import NEVER, RANK_OF_PHASE, Pairing, end_of, self_times
from ett_service.core.ledger.results import AttemptLedger, JobLedger
from ett_service.core.words import Outcome, Phase

StageKey = tuple[int, Phase, str | None]
"""``(attempt number, phase, stage)``"""


@dataclass(frozen=True, slots=True)
class RankSpan:
    """A phase, or a stage of one, over ``[start_at, end_at)`` as one rank reported it."""

    number: int  #: of the attempt
    rank: int | None  #: None for what launchers and schedulers report
    phase: Phase
    stage: str | None
    start_at: int
    end_at: int
    ended: bool  #: whether its end was sent


@dataclass(frozen=True, slots=True)
class StageTime:
    """What an attempt spent on a phase (``stage`` None) or on a stage of it."""

    number: int
    phase: Phase
    stage: str | None
    spans: int
    inclusive_us: int  #: summed over the stream's spans
    exclusive_us: int  #: the part in which no span that began later was open
    skew_us: int | None  #: over the ranks' inclusive times; None with fewer than two ranks


class _GivenEvents(Attempts):
    """Attempts that keep their events as they were given, and read from them alone when they began.

    By that an end that names no cycle finds its own.
    """

    def __init__(self) -> None:
        super().__init__()
        self.events_given: dict[AttemptIdentity, list[Placed]] = defaultdict(list)

    def feed(
        self,
        by_key: Mapping[AttemptIdentity, list[Placed]],
        settled_at: Callable[[AttemptIdentity], int],  # noqa: ARG002 -- as the base has it
    ) -> bool:
        for key, items in by_key.items():
            self.events_given[key] += items
            self.events_of.setdefault(key, AttemptEvents(key)).hear(items)
        return True


def by_attempt(
    events: Iterable[Event], offsets: Mapping[str, int]
) -> Mapping[AttemptIdentity, Sequence[Placed]]:
    """Return the events of every rank by the attempt that they belong to, by corrected clocks."""
    clocks, attempts = Clocks(), _GivenEvents()
    unique = {event.id: event for event in events}.values()
    clocks.admit(unique, offsets)
    attempts.add(unique, clocks)
    return attempts.events_given


def rank_spans(
    events: Iterable[Event], offsets: Mapping[str, int], ledger: JobLedger
) -> list[RankSpan]:
    """Return the spans of every rank by attempt, rank and begin, cut at the attempt's bounds.

    *ledger* is the fold of the same events and offsets. A phase that was left open ends as in
    the ledger, a stage with the phase span in which it began.
    """
    given = by_attempt(events, offsets)
    attempts = {
        (attempt.launch, attempt.attempt, attempt.cycle): attempt for attempt in ledger.attempts
    }
    return [
        span for key, attempt in attempts.items() for span in attempt_spans(attempt, given[key])
    ]


def attempt_spans(attempt: AttemptLedger, items: Sequence[Placed]) -> list[RankSpan]:
    """Return the spans of one attempt, whose events are *items*."""
    by_rank: dict[int | None, list[Placed]] = defaultdict(list)
    for item in sorted(items):
        by_rank[item[4].rank].append(item)
    return [
        span
        for rank in sorted(by_rank, key=lambda rank: -1 if rank is None else rank)
        for span in _one_rank(attempt, rank, by_rank[rank])
    ]


def _one_rank(attempt: AttemptLedger, rank: int | None, items: Sequence[Placed]) -> list[RankSpan]:
    events = AttemptEvents((attempt.launch, attempt.attempt, attempt.cycle))
    events.lead = rank
    events.add(items)
    loops = events.by_phase.get(Phase.TRAIN_LOOP, ())
    closings = closings_inside(events, [(span.begin, span.end) for span in loops])
    phases = [
        RankSpan(
            attempt.number,
            rank,
            span.phase,
            None,
            *_cut(span.begin, end_of(span, closings), attempt),
            span.own_end is not None and span.own_end <= attempt.ended_at,
        )
        for span in events.spans
        if span.begin < attempt.ended_at
    ]
    stages = [
        _stage_span(attempt, rank, stage, phases)
        for stage in _stage_edges(items)
        if stage[2] < attempt.ended_at
    ]
    return sorted([*phases, *stages], key=_outer_first)


def _outer_first(span: RankSpan) -> tuple[int, bool, int, int, str]:
    rank = RANK_OF_PHASE[span.phase]
    return (span.start_at, span.stage is not None, rank, -span.end_at, span.stage or "")


def _cut(start: int, end: int, attempt: AttemptLedger) -> Interval:
    start = max(start, attempt.started_at)
    return start, max(start, min(end, attempt.ended_at))


def _stage_edges(items: Sequence[Placed]) -> Iterator[tuple[Phase, str, int, int | None]]:
    """Yield ``(phase, stage, begin, end)`` of one rank's stages; end None where left open."""
    pairing = Pairing()
    begun = []
    for at, _, _, first, event in items:
        if isinstance(event, PhaseStarted) and event.stage is not None:
            span = pairing.begin(event, at)
            if span is not None:
                begun.append((event.stage, span))
        elif isinstance(event, PhaseEnded) and event.stage is not None:
            pairing.end(event, at)
        elif isinstance(event, SpanOver) and event.stage is not None:
            yield event.phase, event.stage, first, at
    for stage, span in begun:
        yield span.phase, stage, span.begin, span.own_end


def _stage_span(
    attempt: AttemptLedger,
    rank: int | None,
    edges: tuple[Phase, str, int, int | None],
    phases: Sequence[RankSpan],
) -> RankSpan:
    phase, stage, begin, end = edges
    around = (
        span.end_at
        for span in phases
        if span.phase is phase and span.start_at <= begin < span.end_at
    )
    inferred = max(around, default=NEVER)
    start_at, end_at = _cut(begin, inferred if end is None else end, attempt)
    ended = end is not None and end <= attempt.ended_at
    return RankSpan(attempt.number, rank, phase, stage, start_at, end_at, ended)


def stage_times(spans: Sequence[RankSpan], ledger: JobLedger) -> list[StageTime]:
    """Sum *spans*, as :func:`rank_spans` returns them, by attempt, phase and stage."""
    leads = {attempt.number: attempt.lead_rank for attempt in ledger.attempts}
    stream = [span for span in spans if span.rank is None or span.rank == leads[span.number]]
    exclusive: dict[StageKey, int] = defaultdict(int)
    for staged in (False, True):
        layer = [span for span in stream if (span.stage is not None) is staged]
        for key, us in _self_times(layer):
            exclusive[key] += us
    inclusive: dict[StageKey, list[int]] = defaultdict(list)
    for span in stream:
        inclusive[_key(span)].append(span.end_at - span.start_at)
    skews = _skews(spans)
    return [
        StageTime(*key, len(lengths), sum(lengths), exclusive[key], skews.get(key))
        for key, lengths in sorted(inclusive.items(), key=lambda item: _in_order_of_life(item[0]))
    ]


def _in_order_of_life(key: StageKey) -> tuple[int, int, str]:
    number, phase, stage = key
    return (number, RANK_OF_PHASE[phase], stage or "")


def _key(span: RankSpan) -> StageKey:
    return (span.number, span.phase, span.stage)


def _skews(spans: Iterable[RankSpan]) -> dict[StageKey, int]:
    by_rank: dict[StageKey, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for span in spans:
        if span.rank is not None:
            by_rank[_key(span)][span.rank] += span.end_at - span.start_at
    return {
        key: max(times.values()) - median_low(times.values())
        for key, times in by_rank.items()
        if len(times) > 1
    }


def _self_times(spans: Sequence[RankSpan]) -> Iterator[tuple[StageKey, int]]:
    """Yield the time of each span in which it was the one that began last, per attempt."""
    by_attempt: dict[int, list[RankSpan]] = defaultdict(list)
    for span in spans:
        by_attempt[span.number].append(span)
    for layer in by_attempt.values():
        layer.sort(key=_outer_first)
        yield from self_times((span.start_at, span.end_at, _key(span)) for span in layer)


@dataclass(frozen=True, slots=True)
class Milestone:
    """Something that happened at an instant."""

    at: int
    number: int  #: of the attempt
    rank: int | None
    name: str  #: ``checkpoint_saved``, ``checkpoint_restored``, or how the attempt ended
    details: Mapping[str, object] = field(default_factory=dict)


def milestones(
    events: Iterable[Event], offsets: Mapping[str, int], ledger: JobLedger
) -> list[Milestone]:
    """Return checkpoints and the ends of attempts, in order of time.

    *ledger* is the fold of the same events and offsets.
    """
    given = by_attempt(events, offsets)
    marks = []
    for attempt in ledger.attempts:
        for at, _, _, _, event in given[attempt.launch, attempt.attempt, attempt.cycle]:
            if isinstance(event, CheckpointSaved | CheckpointRestored):
                step = {"step": event.step}
                marks.append(Milestone(at, attempt.number, event.rank, event.type, step))
        if attempt.outcome is not Outcome.RUNNING:
            marks.append(_end(attempt))
    return sorted(marks, key=lambda mark: (mark.at, mark.number, mark.name))


def _end(attempt: AttemptLedger) -> Milestone:
    details = {
        "origin": attempt.origin,
        "cause": attempt.cause,
        "evidence": None if attempt.evidence is None else attempt.evidence.text,
        "reason": attempt.reason,
    }
    present = {name: value for name, value in details.items() if value is not None}
    return Milestone(attempt.ended_at, attempt.number, None, attempt.outcome.value, present)
