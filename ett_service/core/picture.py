"""The picture of a job: its attempts' paintings side by side, the waits between filled in."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from ett_service.core.answer import Segment
from ett_service.core.bounds import Bounds, end_of_e2e
from ett_service.core.canvas import ZONES_A_WINDOW
from ett_service.core.interval import merged, outside
from ett_service.core.painting import Painting
from ett_service.core.periods import Periods, allocated_at
from ett_service.core.scene import Own, Past, basis, owned_windows
from ett_service.core.track import AttemptKey
from ett_service.core.vocabulary import Basis, Category, Period


@dataclass(frozen=True, slots=True)
class Part:
    """One attempt in the picture."""

    own: Own
    painting: Painting
    basis: Basis
    periods: dict[int, Period]  #: of the zones of its canvas


@dataclass(frozen=True, slots=True)
class Picture:
    """All that is painted of a job at one as-of."""

    found: Bounds
    first: int  #: the job's first instant; of a job without attempts where E2E ends
    ends: int  #: where E2E ends
    allocated_at: int
    first_loop: int | None
    parts: Sequence[Part]
    periods: Periods
    waits: Sequence[Segment]  #: the time between attempts
    segments: tuple[Segment, ...]


def draw(found: Bounds, kept: defaultdict[AttemptKey, Painting]) -> Picture:
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
        parts.append(Part(one, painting, base, names))
    between = _waits(owns, ends, periods)
    segments = _in_time_order(parts, between)
    return Picture(found, first, ends, allocation, first_loop, parts, periods, between, segments)


def _paint(owns: Sequence[Own], paintings: Sequence[Painting], allocation: int) -> list[Basis]:
    past = Past()
    bases = []
    for one, painting in zip(owns, paintings, strict=True):
        track = one.life.track
        painting.paint(one, past, allocation)
        bases.append(basis(track, past))
        past.add(track, painting.canvas, painting.edition)
    return bases


def _periods_of_zones(part: Own, periods: Periods) -> dict[int, Period]:
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


def _waits(parts: Sequence[Own], ends: int, periods: Periods) -> list[Segment]:
    """Return the time between attempts, which is nobody's."""
    starts = min((part.life.begin for part in parts), default=ends)
    alive = merged((part.life.begin, part.life.end) for part in parts)
    return [
        Segment(since, until, Category.RESTART_WAIT, period, None)
        for start, end in outside((starts, ends), alive)
        for since, until, period in periods.split(start, end)
    ]


def _in_time_order(parts: Iterable[Part], waits: Iterable[Segment]) -> tuple[Segment, ...]:
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
