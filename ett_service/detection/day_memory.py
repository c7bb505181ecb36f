"""Days that hang together: conditions of a day that are like those of the day before.

The level of a group on a day is its rows' own noise and the conditions of the day. The conditions
are taken for an autoregressive process of the first order (Box and Jenkins 1970). So days in a row
say less than as many that are independent, and the less the longer they are.
"""

from typing import NamedTuple

import numpy as np

from ett_service.detection.sample import Flags, Floats

MOST_MEMORY = 0.85
_MOST_LAG = 14  #: days over which conditions are followed
_ROUNDS = 3
_PRIOR_SERIES = 2.0  #: the pooled moments count as this many series
_TINY = 1e-12


class DayConditions(NamedTuple):
    """The conditions of days, by group."""

    variance: Floats
    memory: Floats  #: correlation of a day with the one before

    def cross_variance(self, weights: Floats) -> Floats:
        """Return what neighbouring days add to the variance of weighted sums of levels.

        *weights* are groups by sums by days.
        """
        total = np.zeros(weights.shape[:2])
        if not self.memory.any():
            return total
        part = 2 * self.variance
        for lag in range(1, min(_MOST_LAG, weights.shape[2] - 1) + 1):
            part = part * self.memory
            products = np.einsum("gsd,gsd->gs", weights[:, :, :-lag], weights[:, :, lag:])
            total += part[:, None] * products
        return total


def conditions(level: Floats, noise: Floats, variance: Floats, single: Flags) -> DayConditions:
    """Estimate the memory of days from *level*, groups by days, and correct the *variance* for it.

    *noise* is the variance of each level by its rows alone, infinite where there are none. Moments
    of a series are shrunk to those of all series of its kind. A mean that was fitted takes a part
    of what days share away, which is given back.
    """
    memory = np.zeros(len(level))
    if level.shape[1] < 2 * _MOST_LAG:
        return DayConditions(variance, memory)
    moments = _Moments.of(level, noise, variance)
    for kind in (single, ~single):
        if kind.any():
            memory = np.where(kind, moments.memory(kind), memory)
    return DayConditions(variance / (1 - moments.fitted(memory)), memory)


class _Moments(NamedTuple):
    """Moments of each series, in units of the variance of its levels."""

    conditions: Floats  #: the part of the variance that a day's conditions have
    first: Floats  #: covariance of neighbouring days
    second: Floats  #: and of those two days apart
    weight: Floats  #: days
    days: Floats  #: pairs of neighbouring days

    @classmethod
    def of(cls, level: Floats, noise: Floats, variance: Floats) -> "_Moments":
        """Sum up products of levels."""
        whole = noise + variance[:, None]
        present = np.isfinite(whole) & (whole > 0)
        scale = np.sqrt(np.divide(1.0, whole, out=np.zeros_like(level), where=present))
        count = np.maximum(present.sum(axis=1), 1)
        mean = (level * scale**2).sum(axis=1) / np.maximum((scale**2).sum(axis=1), _TINY)
        standard = (level - mean[:, None]) * scale
        own = (variance[:, None] * scale**2).sum(axis=1) / count
        pairs = [(scale[:, lag:] * scale[:, :-lag] > 0).sum(axis=1) for lag in (1, 2)]
        first, second = (
            (standard[:, lag:] * standard[:, :-lag]).sum(axis=1) / np.maximum(of_lag, 1)
            for lag, of_lag in zip((1, 2), pairs, strict=True)
        )
        return cls(own, first, second, count.astype(np.float64), pairs[0].astype(np.float64))

    def fitted(self, memory: Floats) -> Floats:
        """Return the part of a series' variance of conditions that its mean takes away."""
        return np.minimum((1 + memory) / (1 - memory) / np.maximum(self.weight, 4.0), 0.5)

    def memory(self, kind: Flags) -> Floats:
        """Return the memory of each series, shrunk to that of its *kind*."""
        memory = np.zeros(len(self.weight))
        for _ in range(_ROUNDS):
            long_run = 1 + self.conditions * 2 * memory / (1 - memory)
            lost = long_run / np.maximum(self.weight, 4.0)
            shared, apart = self.conditions + self.first + lost, self.first + self.second + 2 * lost
            memory = np.clip(_shrunk(apart, shared, self.days * kind), 0.0, MOST_MEMORY)
        return memory


def _shrunk(part: Floats, whole: Floats, weight: Floats) -> Floats:
    """Return quotients of each series, mixed with that of all."""
    parts, wholes = float((part * weight).sum()), float((whole * weight).sum())
    series = max(int((weight > 0).sum()), 1)
    above = part * weight + _PRIOR_SERIES * parts / series
    below = whole * weight + _PRIOR_SERIES * wholes / series
    return np.where(below > _TINY, above / np.maximum(below, _TINY), 0.0)
