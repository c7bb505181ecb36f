"""Days that hang together: conditions of a day that are like those of the day before.

The level of a group on a day is its rows' own noise and the conditions of the day. The conditions
are taken for an autoregressive process of the first order (Box and Jenkins 1970): neighbouring
days have a covariance, which decays with their distance. So days in a row say less than as many
that are independent, and the less the longer they are.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ett_service.detection.sample import Flags, Floats

_MOST_DECAY, _USUAL_DECAY = 0.85, 0.6
_PRIOR_DECAY = 0.3  #: of a standard error: how much the usual decay counts
_MOST_LAG = 14  #: days over which conditions are followed
_ROUNDS = 3
_PRIOR_SERIES = 2.0  #: the pooled covariance counts as this many series of mean information
_TINY = 1e-12


class DayMemory(NamedTuple):
    """How the levels of neighbouring days hang together, by group."""

    covariance: Floats  #: of neighbouring days
    decay: Floats  #: the factor on it for each further day

    def independence(self, precision: Floats) -> Floats:
        """Return the part of days of this *precision* that are worth independent ones, by group."""
        whole = np.maximum(precision.sum(axis=1), _TINY)
        more = self.variance((precision / whole[:, None])[:, None, :])[:, 0]
        return np.asarray(1 / (1 + more * whole))

    def variance(self, weights: Floats) -> Floats:
        """Return what neighbouring days add to the variance of weighted sums of levels.

        *weights* are groups by sums by days.
        """
        total = np.zeros(weights.shape[:2])
        if not self.covariance.any():
            return total
        part = 2 * self.covariance
        for lag in range(1, min(_MOST_LAG, weights.shape[2] - 1) + 1):
            products = np.einsum("gsd,gsd->gs", weights[:, :, :-lag], weights[:, :, lag:])
            total += part[:, None] * products
            part = part * self.decay
        return total


def day_memory(level: Floats, precision: Floats, single: Flags) -> DayMemory:
    """Estimate the memory of days from *level* and its *precision*, groups by days.

    The covariance of a series is shrunk to that of all series of its kind, and no less: too small
    a covariance makes false alarms. The decay is that of the kind. Fitting a mean takes a part of
    what days share away, which is given back.
    """
    memory = DayMemory(*np.zeros((2, len(level))))
    if level.shape[1] < 2 * _MOST_LAG:
        return memory
    moments = _Moments.of(level, precision)
    for _ in range(_ROUNDS):
        lost = moments.of_mean + memory.variance(moments.weights[:, None, :])[:, 0]
        covariance, decay = np.zeros((2, len(level)))
        for kind in (single, ~single):
            if kind.any():
                own, of_kind = moments.fitted(lost, kind)
                covariance, decay = (
                    np.where(kind, own, covariance),
                    np.where(kind, of_kind, decay),
                )
        memory = DayMemory(covariance, decay)
    return memory


@dataclass(frozen=True, slots=True)
class _Moments:
    """Products of levels some days apart, weighed by their precision."""

    products: tuple[Floats, ...]  #: mean product of each series, by lag from 1
    sure: tuple[Floats, ...]  #: information in each
    weights: Floats  #: of each day in the mean of its series
    of_mean: Floats  #: variance of that mean, were days independent

    @classmethod
    def of(cls, level: Floats, precision: Floats) -> "_Moments":
        whole = np.maximum(precision.sum(axis=1), _TINY)
        weights = precision / whole[:, None]
        scaled = precision * (level - (weights * level).sum(axis=1)[:, None])
        products, sure = [], []
        for lag in (1, 2, 3):
            information = (precision[:, lag:] * precision[:, :-lag]).sum(axis=1)
            product = (scaled[:, lag:] * scaled[:, :-lag]).sum(axis=1)
            products.append(product / np.maximum(information, _TINY))
            sure.append(information)
        return cls(tuple(products), tuple(sure), weights, 1 / whole)

    def fitted(self, lost: Floats, kind: Flags) -> tuple[Floats, float]:
        """Return the covariance of neighbours by series, and the decay that the *kind* shares."""
        by_lag = [product + lost for product in self.products]
        sure = [information * kind for information in self.sure]
        first, second, third = (
            float((product * weight).sum()) / max(float(weight.sum()), _TINY)
            for product, weight in zip(by_lag, sure, strict=True)
        )
        prior = _PRIOR_DECAY / np.sqrt(max(float(sure[0].sum()), _TINY))
        near = max(first + max(second, 0.0), 0.0)
        decay = (max(second + max(third, 0.0), 0.0) + _USUAL_DECAY * prior) / (near + prior)
        shared = _PRIOR_SERIES * sure[0].sum() / max(int(kind.sum()), 1)
        own = (by_lag[0] * sure[0] + first * shared) / np.maximum(sure[0] + shared, _TINY)
        return np.maximum(own, max(first, 0.0)), min(decay, _MOST_DECAY)
