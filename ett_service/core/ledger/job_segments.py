"""A job's segments: its attempts side by side, the waits between filled in, each in its period."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from ett_service.core.intervals import Interval, merged, outside
from ett_service.core.ledger.attempt_events import AttemptKey
from ett_service.core.ledger.attempt_segments import (
    AttemptSegments,
    EarlierAttempts,
    LoopRange,
    OwnedLoops,
    basis,
    owned_windows,
)
from ett_service.core.ledger.lifetimes import Lifetime, Lifetimes, end_of_e2e
from ett_service.core.ledger.ownership import ZONES_A_WINDOW
from ett_service.core.ledger.results import Segment
from ett_service.core.words import Basis, Category, Period, Phase


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
        for span in life.track.by_phase.get(phase, ())
        if life.contains(span.begin)
    ]
    return min(spans, default=None)


class Periods:
    """The periods of a job as half-open stretches that follow each other."""

    def __init__(self, parts: Sequence[OwnedLoops], allocation: int, ends: int) -> None:
        stretches = sorted(
            (stretch for part in parts for stretch in part.stretches),
            key=lambda stretch: stretch.start,
        )
        self.stretches: list[LoopRange] = stretches
        self._ends: list[int] = [allocation]
        self._names: list[Period] = [Period.SCHEDULING]
        before: LoopRange | None = None
        for stretch in stretches:
            self._until(stretch.start, _between(before, stretch))
            self._until(stretch.end, Period.TRAINING)
            before = stretch
        if before is None:
            self._until(ends, Period.STARTING)
        else:
            goes_on = ends > parts[before.number].life.end
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
    """One attempt in the picture."""

    own: OwnedLoops
    painting: AttemptSegments
    basis: Basis
    periods: dict[int, Period]  #: of the zones of its canvas


@dataclass(frozen=True, slots=True)
class JobSegments:
    """All that is painted of a job at one as-of."""

    found: Lifetimes
    first: int  #: the job's first instant; of a job without attempts where E2E ends
    ends: int  #: where E2E ends
    allocated_at: int
    first_loop: int | None
    parts: Sequence[AttemptPart]
    periods: Periods
    waits: Sequence[Segment]  #: the time between attempts
    segments: tuple[Segment, ...]


def job_segments(found: Lifetimes, kept: defaultdict[AttemptKey, AttemptSegments]) -> JobSegments:
    """Paint every attempt, from what is *kept* of it, and put the paintings together."""
    windows = owned_windows(found.lives)
    paintings = [kept[life.track.key] for life in found.lives]
    owns = [
        painting.look(life, owned)
        for painting, life, owned in zip(paintings, found.lives, windows, strict=True)
    ]
    ends = end_of_e2e(found)
    first = ends if found.first is None else found.first
    first_loop = min((one.loops[0][0] for one in owns if one.loops), default=None)
    allocation = allocated_at(found.lives, first, first_loop)
    bases = _paint(owns, paintings, allocation)
    periods = Periods(owns, allocation, ends)
    parts = []
    for one, painting, base in zip(owns, paintings, bases, strict=True):
        names = _periods_of_zones(one, periods)
        painting.frame(one.life.number, names)
        parts.append(AttemptPart(one, painting, base, names))
    between = _waits(owns, ends, periods)
    segments = _in_time_order(parts, between)
    return JobSegments(
        found, first, ends, allocation, first_loop, parts, periods, between, segments
    )


def _paint(
    owns: Sequence[OwnedLoops], paintings: Sequence[AttemptSegments], allocation: int
) -> list[Basis]:
    past = EarlierAttempts()
    bases = []
    for one, painting in zip(owns, paintings, strict=True):
        track = one.life.track
        painting.paint(one, past, allocation)
        bases.append(basis(track, past))
        past.add(track, painting.canvas, painting.edition)
    return bases


def _periods_of_zones(part: OwnedLoops, periods: Periods) -> dict[int, Period]:
    """Name the period of each zone of an attempt's canvas that has any length."""
    stretch_of = {stretch.window: stretch for stretch in part.stretches}
    found: dict[int, Period] = {}
    for index, (opens, closes) in enumerate(part.windows):
        base = index * ZONES_A_WINDOW
        stretch = stretch_of.get(index)
        found[base] = Period.SCHEDULING
        if stretch is None:
            found[base + 1] = periods.at(closes - 1)
            continue
        if stretch.start > opens:
            found[base + 1] = periods.at(stretch.start - 1)
        found[base + 2] = Period.TRAINING
        if stretch.end < closes:
            found[base + 3] = periods.at(stretch.end)
    return found


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
    """Return all segments of the job in order of their begin."""
    runs: list[list[Segment]] = [[segment] for segment in waits]
    for part in parts:
        segments, windows = part.painting.segments, part.own.windows
        if len(windows) == 1:
            runs.append(segments)
            continue
        for opens, closes in windows:
            first = bisect_left(segments, (opens,))
            runs.append(segments[first : bisect_left(segments, (closes,))])
    runs.sort(key=lambda run: run[:1])
    return tuple(chain.from_iterable(runs))
