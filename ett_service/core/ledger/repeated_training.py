"""Repeated training: which loop time consumed data that the job had consumed before."""

from bisect import bisect_right
from collections.abc import Sequence

from ett_service.core.intervals import Interval
from ett_service.core.ledger.spans import NEVER, Mark


class RepeatedTraining:
    """The stretches of one attempt in which its steps lay below the job's mark.

    Points come in order. ``base`` is the highest step of earlier attempts, None where they
    have none; without a base an attempt can repeat only itself.
    """

    def __init__(self, base: int | None) -> None:
        self._base = base
        self._mark = base  #: the highest step up to and including the last point
        self._at: int | None = None
        self._step = 0
        self.intervals: list[Interval] = []

    def add(self, at: int, step: int, *, restored: bool) -> None:
        """Take in the next point: a ``progress``, or where training goes on from."""
        at_mark = self._mark is not None and self._step >= self._mark
        if at_mark and self._at is not None and self._mark is not None and step >= self._mark:
            pass
        elif self._at is None:
            if self._base is not None:
                self._repeat(-NEVER, at)
        elif self._mark is not None:
            self._repeat(self._at, self._reached(at, step, restored=restored))
        self._at, self._step = at, step
        if not restored:
            self._mark = step if self._mark is None else max(self._mark, step)

    def _reached(self, at: int, step: int, *, restored: bool) -> int:
        """Return up to where the stretch from the last point to this one is repeated."""
        assert self._at is not None
        assert self._mark is not None
        if self._step >= self._mark:
            return at if not restored and step < self._mark else self._at
        if restored or step < self._mark:
            return at
        return self._at + (at - self._at) * (self._mark - self._step) // (step - self._step)

    def _repeat(self, start: int, end: int) -> None:
        if end <= start:
            return
        if self.intervals and self.intervals[-1][1] == start:
            start = self.intervals.pop()[0]
        self.intervals.append((start, end))

    def last_at(self) -> int:
        """Return the instant of the last point: later points change nothing before it."""
        return -NEVER if self._at is None else self._at

    def with_tail(self) -> list[Interval]:
        """Return the intervals, with what follows the last point if it lies below the mark."""
        if self._at is None or self._mark is None or self._step >= self._mark:
            return self.intervals
        return [*self.intervals, (self._at, NEVER)]


def points(
    progress: Sequence[Mark],
    restores: Sequence[Mark],
    implied: tuple[int, int] | None,
    loops: Sequence[Interval],
) -> list[tuple[int, int, int, bool, int]]:
    """Return ``(instant, 1 unless implied, own instant, whether restored, step)``, in order.

    A restore outside a loop counts at the start of the attempt's next loop, else nowhere.
    """
    found = [(at, 1, at, False, step) for at, step, _ in progress]
    starts = [start for start, _ in loops]
    for at, step, _ in restores:
        place = bisect_right(starts, at)
        if place and at < loops[place - 1][1]:
            found.append((at, 1, at, True, step))
        elif place < len(loops):
            found.append((starts[place], 1, at, True, step))
    if implied is not None:
        found.append((implied[0], 0, implied[0], True, implied[1]))
    return sorted(found)
