"""Uncertainty: intervals of failure counts, and bootstrap intervals over jobs."""

import math
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
_PRODUCTS = 1 << 18  #: of a larger product BLAS makes threads, which takes longer than the product
_COUNTED = 1 << 16  #: places that are counted at once, and fit into a cache
_FEWEST_GROUPS = 2
_TAIL_PERCENT = 100 * (1 - CONFIDENCE) / 2

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]


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
        return _product(drawn, sums)

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
        total = drawn @ np.bincount(groups, minlength=drawn.shape[1])
        below, steps = _upto_each_step(drawn, groups)
        low, high = (
            ordered[_place_of_rank(rank, drawn, groups, below, steps)]
            for rank in ((total + 1) // 2, total // 2 + 1)
        )
        middles: Floats = (low + high) / 2
        return middles

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


def _product(drawn: NDArray[np.int16], sums: Floats) -> Floats:
    rows = max(1, _PRODUCTS // sums.size)
    return np.concatenate([drawn[start : start + rows] @ sums for start in range(0, DRAWS, rows)])


def _upto_each_step(drawn: NDArray[np.int16], groups: Integers) -> tuple[Floats, int]:
    """Count by draw how many values stand before each step, and after the last; and its length.

    *groups* are those of ascending values.
    """
    steps = max(1, math.isqrt(len(groups)))
    edges = -(-len(groups) // steps)
    place = (np.arange(len(groups)) // steps) * drawn.shape[1] + groups
    of_step = np.bincount(place, minlength=edges * drawn.shape[1]).reshape(edges, -1)
    upto = np.zeros((drawn.shape[1], edges + 1))
    upto[:, 1:] = np.cumsum(of_step, axis=0).T
    return _product(drawn, upto), steps


def _place_of_rank(
    rank: Integers,
    drawn: NDArray[np.int16],
    groups: Integers,
    below: Floats,
    steps: int,
) -> Integers:
    """Return by draw the place of the value of a rank: its step first, then inside of that."""
    step = (below[:, 1:] < rank[:, np.newaxis]).sum(axis=1)
    draws = np.arange(len(drawn))
    places = step[:, np.newaxis] * steps + np.arange(steps)
    # Beyond the last value it stands again: nothing is looked for there.
    times = drawn[draws[:, np.newaxis], groups[np.minimum(places, len(groups) - 1)]]
    upto = below[draws, step][:, np.newaxis] + np.cumsum(times, axis=1)
    inside: Integers = step * steps + (upto < rank[:, np.newaxis]).sum(axis=1)
    return inside


def interval(figures: Floats) -> Interval | None:
    """Return the middle ``CONFIDENCE`` of one figure a draw, leaving out those that are none."""
    finite = figures[np.isfinite(figures)]
    if not finite.size:
        return None
    low, high = np.percentile(finite, [_TAIL_PERCENT, 100 - _TAIL_PERCENT])
    return Interval(float(low), float(high))
