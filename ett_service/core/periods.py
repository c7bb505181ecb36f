"""Periods: where in the job's life each instant lies, told by the loops of all attempts."""

from bisect import bisect_right
from collections.abc import Sequence

from ett_service.core.bounds import Life
from ett_service.core.interval import Interval
from ett_service.core.scene import Own, Stretch
from ett_service.core.vocabulary import Period, Phase


def allocated_at(lives: Sequence[Life], first: int, first_loop: int | None) -> int:
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


def _first_span(life: Life, phase: Phase) -> Interval | None:
    """Return the span of the attempt that began first, of several the one that ends first."""
    spans = [
        (span.begin, min(span.end, life.end))
        for span in life.track.by_phase.get(phase, ())
        if life.contains(span.begin)
    ]
    return min(spans, default=None)


class Periods:
    """The periods of a job as half-open stretches that follow each other."""

    def __init__(self, parts: Sequence[Own], allocation: int, ends: int) -> None:
        stretches = sorted(
            (stretch for part in parts for stretch in part.stretches),
            key=lambda stretch: stretch.start,
        )
        self.stretches: list[Stretch] = stretches
        self._ends: list[int] = [allocation]
        self._names: list[Period] = [Period.SCHEDULING]
        before: Stretch | None = None
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


def _between(before: Stretch | None, after: Stretch) -> Period:
    if before is None:
        return Period.STARTING
    return Period.TRAINING if before.number == after.number else Period.RECOVERING
