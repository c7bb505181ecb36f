"""Uncertainty: intervals of failure counts, and bootstrap intervals over jobs."""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

CONFIDENCE = 0.95


GROUPS = 250
"""Of more units those are drawn together that are so many apart: the interval is as good."""

DRAWS = 1_000
MOST_VALUES = 100_000
"""Of more values than this no median is drawn again."""

_SEED = 20_260_301
_AT_ONCE = 200_000  #: values of several draws that are in memory together
_PRODUCTS = 1 << 18  #: of a larger product BLAS makes threads, which takes longer than the product
_COUNTED = 1 << 16  #: places that are counted at once, and fit into a cache
_FEWEST_GROUPS = 2
_TAIL_PERCENT = 100 * (1 - CONFIDENCE) / 2

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]


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

    def add_all(self, rows: Floats) -> None:
        """Take in many units, a row each."""
        places = (self.units + np.arange(len(rows))) % GROUPS
        np.add.at(self._sums, places, rows)
        self.units += len(rows)

    def draws(self) -> Floats | None:
        """Return the sums of each draw: rows of columns. None with fewer than two units."""
        drawn = self._drawn()
        if drawn is None:
            return None
        sums = self._sums[: drawn.shape[1]]
        rows = max(1, _PRODUCTS // sums.size)
        return np.concatenate(
            [drawn[start : start + rows] @ sums for start in range(0, DRAWS, rows)]
        )

    def medians(
        self, values: Sequence[int] | Integers, units: Sequence[int] | Integers
    ) -> Floats | None:
        """Return the median of each draw of *values*, whose units count from 0 as they were added.

        None with fewer than two units, and where it would take too long.
        """
        drawn = self._drawn()
        if drawn is None or not 0 < len(values) <= MOST_VALUES:
            return None
        order = np.argsort(np.asarray(values), kind="stable")
        ordered, groups = np.asarray(values)[order], np.asarray(units)[order] % GROUPS
        rows = max(1, _AT_ONCE // len(values))
        blocks = [drawn[start : start + rows] for start in range(0, DRAWS, rows)]
        return np.concatenate([_middles(ordered, block[:, groups]) for block in blocks])

    def _drawn(self) -> NDArray[np.int16] | None:
        groups = min(self.units, GROUPS)
        return None if groups < _FEWEST_GROUPS else _draws(groups, self._stream)


@lru_cache(maxsize=64)
def _draws(groups: int, stream: int) -> NDArray[np.int16]:
    """Return how often each draw holds each group."""
    chance = np.random.default_rng([_SEED, stream])
    # Counting who was drawn is several times faster than drawing counts (multinomial).
    drawn = chance.integers(0, groups, size=(DRAWS, groups), dtype=np.int16)
    times = np.empty((DRAWS, groups), np.int16)
    rows = max(1, _COUNTED // groups)
    for start in range(0, DRAWS, rows):
        block = drawn[start : start + rows].astype(np.int64)
        block += groups * np.arange(len(block))[:, np.newaxis]  # a draw's own places
        counts = np.bincount(block.ravel(), minlength=block.size)
        times[start : start + rows] = counts.reshape(block.shape)
    return times


def _middles(ordered: NDArray[np.int64], times: NDArray[np.int16]) -> Floats:
    """Return the median of ascending values by draw; each row says how often each value stands."""
    upto = np.cumsum(times, axis=1, dtype=np.int64)
    total = upto[:, -1:]
    low, high = (np.sum(upto < rank, axis=1) for rank in ((total + 1) // 2, total // 2 + 1))
    middles: Floats = (ordered[low] + ordered[high]) / 2
    return middles


def interval(figures: Floats) -> Interval | None:
    """Return the middle ``CONFIDENCE`` of one figure a draw, leaving out those that are none."""
    finite = figures[np.isfinite(figures)]
    if not finite.size:
        return None
    low, high = np.percentile(finite, [_TAIL_PERCENT, 100 - _TAIL_PERCENT])
    return Interval(float(low), float(high))
