"""A run: its attempts side by side, the waits between filled in, periods; and its results."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

from ett_service.core.intervals import Interval, merged, outside
from ett_service.core.ledger.attempt_segments import (
    AttemptSegments,
    EarlierAttempts,
    LoopRange,
    OwnedLoops,
    basis,
    owned_windows,
)
from ett_service.core.ledger.attempts.attempt_events import AttemptIdentity
from ett_service.core.ledger.attempts.lifetimes import (
    Lifetime,
    Lifetimes,
    end_of_e2e,
    queued_spans,
)
from ett_service.core.ledger.ownership import ZONES_A_WINDOW
from ett_service.core.ledger.results import (
    AttemptLedger,
    OwnedWait,
    RunLedger,
    Segment,
    SpeedReference,
    summed_speed,
)
from ett_service.core.words import (
    FAILURES,
    INFRA_ORIGINS,
    Basis,
    Category,
    Owner,
    Period,
    Phase,
)

References = tuple[SpeedReference, ...]
"""Of one run."""


def allocated_at(lives: Sequence[Lifetime], first: int, first_loop: int | None) -> int:
    """Return the instant of the allocation, where the period ``scheduling`` ends."""
    if not lives:
        return first
    zero = lives[0]
    setup = _first_span(zero, Phase.HARDWARE_SETUP)
    scheduling = _first_span(zero, Phase.SCHEDULING)
    at = first
    if setup is not None:
        at = max(first, setup[0])
    elif scheduling is not None:
        at = scheduling[1]
    return at if first_loop is None else min(at, first_loop)


def _first_span(life: Lifetime, phase: Phase) -> Interval | None:
    """Return the span of the attempt that began first, of several the one that ends first."""
    spans = [
        (span.begin, min(span.end, life.end))
        for span in life.events.by_phase.get(phase, ())
        if life.contains(span.begin)
    ]
    return min(spans, default=None)


class Periods:
    """The periods of a run: half-open intervals that follow each other."""

    def __init__(self, parts: Sequence[OwnedLoops], allocation: int, ends: int) -> None:
        loop_ranges = sorted(
            (loop_range for part in parts for loop_range in part.loop_ranges),
            key=lambda loop_range: loop_range.start,
        )
        self.loop_ranges: list[LoopRange] = loop_ranges
        self._ends: list[int] = [allocation]
        self._names: list[Period] = [Period.SCHEDULING]
        before: LoopRange | None = None
        for loop_range in loop_ranges:
            self._until(loop_range.start, _between(before, loop_range))
            self._until(loop_range.end, Period.TRAINING)
            before = loop_range
        if before is None:
            self._until(ends, Period.STARTING)
        else:
            goes_on = ends > parts[before.number - parts[0].life.number].life.end
            self._until(ends, Period.RECOVERING if goes_on else Period.ENDING)

    def _until(self, end: int, name: Period) -> None:
        self._ends.append(end)
        self._names.append(name)

    def at(self, instant: int) -> Period:
        """Return the period in which *instant* lies."""
        return self._names[min(bisect_right(self._ends, instant), len(self._names) - 1)]

    def split(self, start: int, end: int) -> list[tuple[int, int, Period]]:
        """Cut ``[start, end)`` where the period changes."""
        pieces: list[tuple[int, int, Period]] = []
        while start < end:
            place = bisect_right(self._ends, start)
            stop = min(end, self._ends[place]) if place < len(self._ends) else end
            name = self.at(start)
            if pieces and pieces[-1][2] is name:
                pieces[-1] = (pieces[-1][0], stop, name)
            else:
                pieces.append((start, stop, name))
            start = stop
        return pieces


def _between(before: LoopRange | None, after: LoopRange) -> Period:
    if before is None:
        return Period.STARTING
    return Period.TRAINING if before.number == after.number else Period.RECOVERING


@dataclass(frozen=True, slots=True)
class AttemptPart:
    """One attempt's part of its run: what it owns, and the segments cut from it."""

    owned: OwnedLoops
    attempt_segments: AttemptSegments
    basis: Basis
    periods: dict[int, Period]  #: by zone of its ownership


@dataclass(frozen=True, slots=True)
class RunSegments:
    """A run's segments and what they were cut from, at one as-of."""

    lifetimes: Lifetimes
    first: int  #: the run's first instant; of a run without attempts where E2E ends
    ends: int  #: where E2E ends
    allocated_at: int
    first_loop: int | None
    parts: Sequence[AttemptPart]
    periods: Periods
    waits: Sequence[Segment]  #: the time between attempts
    segments: tuple[Segment, ...]

    def part(self, number: int) -> AttemptPart:
        """Return the part of the attempt of this number."""
        return self.parts[number - self.lifetimes.run.first_number]


def cut_run_segments(
    lifetimes: Lifetimes, attempt_segments: defaultdict[AttemptIdentity, AttemptSegments]
) -> RunSegments:
    """Cut every attempt into segments and join them; *attempt_segments* is kept between folds."""
    lives = lifetimes.lives
    segments_of = [attempt_segments[life.events.key] for life in lives]
    owned_by = [
        segments.find_loops(life, windows)
        for segments, life, windows in zip(segments_of, lives, owned_windows(lives), strict=True)
    ]
    ends = end_of_e2e(lifetimes)
    first = ends if lifetimes.first is None else lifetimes.first
    first_loop = min((owned.loops[0][0] for owned in owned_by if owned.loops), default=None)
    allocation = allocated_at(lives, first, first_loop)
    bases = _assign_ownership(owned_by, segments_of, allocation)
    periods = Periods(owned_by, allocation, ends)
    parts = []
    for owned, segments, basis_used in zip(owned_by, segments_of, bases, strict=True):
        names = _periods_of_zones(owned, periods)
        segments.set_periods(owned.life.number, names)
        parts.append(AttemptPart(owned, segments, basis_used, names))
    waits = _waits(owned_by, ends, periods)
    return RunSegments(
        lifetimes=lifetimes,
        first=first,
        ends=ends,
        allocated_at=allocation,
        first_loop=first_loop,
        parts=parts,
        periods=periods,
        waits=waits,
        segments=_in_time_order(parts, waits),
    )


def _assign_ownership(
    owned_by: Sequence[OwnedLoops], segments_of: Sequence[AttemptSegments], allocation: int
) -> list[Basis]:
    earlier = EarlierAttempts()
    bases = []
    for owned, segments in zip(owned_by, segments_of, strict=True):
        events = owned.life.events
        segments.assign_ownership(owned, earlier, allocation)
        bases.append(basis(events, earlier))
        earlier.add(events, segments.ownership, segments.edition)
    return bases


def _periods_of_zones(owned: OwnedLoops, periods: Periods) -> dict[int, Period]:
    """Name the period of each zone of an attempt that has any length."""
    range_of = {loop_range.window: loop_range for loop_range in owned.loop_ranges}
    names: dict[int, Period] = {}
    for index, (opens, closes) in enumerate(owned.windows):
        base = index * ZONES_A_WINDOW
        loop_range = range_of.get(index)
        names[base] = Period.SCHEDULING
        if loop_range is None:
            names[base + 1] = periods.at(closes - 1)
            continue
        if loop_range.start > opens:
            names[base + 1] = periods.at(loop_range.start - 1)
        names[base + 2] = Period.TRAINING
        if loop_range.end < closes:
            names[base + 3] = periods.at(loop_range.end)
    return names


def _waits(parts: Sequence[OwnedLoops], ends: int, periods: Periods) -> list[Segment]:
    """Return the time between attempts, which is nobody's."""
    starts = min((part.life.begin for part in parts), default=ends)
    alive = merged((part.life.begin, part.life.end) for part in parts)
    return [
        Segment(since, until, Category.RESTART_WAIT, period, None)
        for start, end in outside((starts, ends), alive)
        for since, until, period in periods.split(start, end)
    ]


def _in_time_order(parts: Iterable[AttemptPart], waits: Iterable[Segment]) -> tuple[Segment, ...]:
    """Return all segments of the run in order of their begin."""
    runs: list[list[Segment]] = [[segment] for segment in waits]
    for part in parts:
        segments, windows = part.attempt_segments.segments, part.owned.windows
        if len(windows) == 1:
            runs.append(segments)
            continue
        for opens, closes in windows:
            first = bisect_left(segments, (opens,))
            runs.append(segments[first : bisect_left(segments, (closes,))])
    runs.sort(key=lambda run: run[:1])
    return tuple(chain.from_iterable(runs))


def run_ledgers(
    runs: Sequence[RunSegments],
    attempts: Sequence[AttemptLedger],
    references: Sequence[References],
    queues: Sequence[Sequence[OwnedWait]],
    last_sign_at: int,
) -> tuple[RunLedger, ...]:
    """Return the results of each run; *attempts* are those of all, the rest is by run."""
    idle_us = [
        max(0, after.lifetimes.run.sign_at - _over_at(before)) for before, after in pairwise(runs)
    ]
    return tuple(
        _run_ledger(
            number,
            idle,
            run,
            [attempts[life.number] for life in run.lifetimes.lives],
            own_references,
            last_sign_at,
            queue=queue,
        )
        for number, (idle, run, own_references, queue) in enumerate(
            zip([0, *idle_us], runs, references, queues, strict=True)
        )
    )


def _run_ledger(
    number: int,
    idle_us: int,
    run: RunSegments,
    own: Sequence[AttemptLedger],
    references: References,
    last_sign_at: int,
    *,
    queue: Iterable[OwnedWait],
) -> RunLedger:
    lifetimes, events, first_loop = run.lifetimes, run.lifetimes.run, run.first_loop
    failed = [attempt for attempt in own if attempt.outcome in FAILURES]
    return RunLedger(
        number=number,
        launches=tuple(dict.fromkeys(attempt.key[0] for attempt in events.attempts)),
        first_attempt=events.first_number,
        attempts=len(own),
        state=lifetimes.state,
        outcome=lifetimes.standing.event.outcome if lifetimes.standing else None,
        sign_at=events.sign_at,
        started_at=lifetimes.first,
        ended_at=None if lifetimes.first is None else run.ends,
        idle_before_us=idle_us,
        queue_wait_us=queue_wait_us(run, last_sign_at),
        effective_us=sum(
            attempt.categories_us.get(Category.EFFECTIVE_TRAINING, 0) for attempt in own
        ),
        time_to_start_us=None if first_loop is None else first_loop - run.allocated_at,
        failures=len(failed),
        infra_failures=sum(attempt.origin in INFRA_ORIGINS for attempt in failed),
        unsaved_us=sum(attempt.unsaved_us for attempt in failed),
        speed=summed_speed(attempt.speed for attempt in own),
        speed_references=references,
        queue_owners_us=by_owner(queue),
    )


def _over_at(run: RunSegments) -> int:
    """Return where a run ends that another follows: one that only queued with its job."""
    if run.lifetimes.lives:
        return run.ends
    return max(at for at, _ in run.lifetimes.run.job_ends)


def queue_wait_us(run: RunSegments, last_sign_at: int) -> int:
    """Return the union of all queued time before the run's first instant, in microseconds."""
    first = run.first
    spans = queued_spans(run.lifetimes, last_sign_at)
    queued = merged((start, end) for _, start, end in spans)
    return sum(min(end, first) - start for start, end in queued if start < first)


def waits_inside(span: Interval, waits: Sequence[OwnedWait]) -> Sequence[OwnedWait]:
    """Return the waits that begin inside the *span*; *waits* are in order."""
    return waits[bisect_left(waits, (span[0],)) : bisect_left(waits, (span[1],))]


def by_owner(waits: Iterable[OwnedWait]) -> Mapping[Owner, int]:
    """Return the microseconds of *waits* by owner, in their order; one without any is absent."""
    sums: dict[Owner, int] = {}
    for start, end, _, _, owner in waits:
        sums[owner] = sums.get(owner, 0) + end - start
    return {owner: sums[owner] for owner in Owner if owner in sums}
