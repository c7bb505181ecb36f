"""How far a figure might lie from the true one: the bootstrap, over jobs.

Events of one job are not independent, so jobs are drawn again and not events. Jobs are dealt out
to at most ``GROUPS`` groups, whose sums are kept: a group of jobs is as good a unit as a job, and
memory stays bounded. Draws are seeded: the same jobs give the same interval. After Efron and
Tibshirani, An Introduction to the Bootstrap (1993); the interval is that of percentiles.
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

GROUPS = 1_000
DRAWS = 1_000
CONFIDENCE = 0.95

_SEED = 20_260_301
_FEWEST_GROUPS = 2
_TAIL_PERCENT = 100 * (1 - CONFIDENCE) / 2

Floats: TypeAlias = NDArray[np.float64]


class Interval(NamedTuple):
    """Within which a figure lies with the probability ``CONFIDENCE``."""

    low: float
    high: float


class Resampling:
    """Sums of several columns over units that are independent of each other."""

    def __init__(self, columns: int, stream: int = 0) -> None:
        """Draws of different *streams* are independent of each other."""
        self._stream = stream
        self._sums: Floats = np.zeros((GROUPS, columns))
        self.units = 0

    def add(self, values: Sequence[float]) -> None:
        """Take in one unit, a value a column."""
        self._sums[self.units % GROUPS] += values
        self.units += 1

    def draws(self) -> Floats | None:
        """Return the sums of each draw: rows of columns. None with fewer than two units."""
        groups = min(self.units, GROUPS)
        if groups < _FEWEST_GROUPS:
            return None
        chance = np.random.default_rng([_SEED, self._stream])
        drawn = chance.multinomial(groups, np.full(groups, 1 / groups), size=DRAWS)
        sums: Floats = drawn @ self._sums[:groups]
        return sums


def interval(figures: Floats) -> Interval | None:
    """Return the middle ``CONFIDENCE`` of one figure a draw, leaving out those that are none."""
    known = figures[np.isfinite(figures)]
    if not known.size:
        return None
    low, high = np.percentile(known, [_TAIL_PERCENT, 100 - _TAIL_PERCENT])
    return Interval(float(low), float(high))
