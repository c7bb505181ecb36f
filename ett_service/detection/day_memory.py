"""How far the levels of neighbouring days hang together.

A level is the noise of its rows and the conditions of its day. These are taken for an
autoregressive process of the first order (Box and Jenkins 1970): neighbouring days have a
covariance, which decays with their distance. So days in a row say less than as many that are
independent, and the less the longer they are.

Six weeks of one subject say little of that. How like its neighbours a day is, is therefore
estimated of all subjects together, and a subject's own estimate counts as far as subjects differ
(DerSimonian and Laird 1986). So does that of a series beside others of its subject.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ett_service.detection.cells import TINY, beyond_chance, ratio
from ett_service.detection.sample import Flags, Floats

_MOST_DECAY, _USUAL_DECAY = 0.85, 0.6
_PRIOR_DECAY = 0.3  #: of a standard error: how much the usual decay counts
_MOST_LAG = 14  #: days over which conditions are followed
_LAGS = 3  #: of which covariances are estimated
_SIZES = (1.0, 4.0)  #: values a day that part small, middle and large cohorts
_KINDS = len(_SIZES) + 2  #: of groups: single cohorts by their size, and all others
_ROUNDS = 3

Kinds = NDArray[np.intp]


class DayMemory(NamedTuple):
    """How the levels of neighbouring days hang together, by group."""

    covariance: Floats  #: of neighbouring days
    decay: Floats  #: the factor on it for each further day

    def independence(self, precision: Floats) -> Floats:
        """Return the part of days of this *precision* that are worth independent ones, by group."""
        return np.asarray(1 / (1 + self.of_mean(precision) * precision.sum(axis=1)))

    def of_mean(self, precision: Floats) -> Floats:
        """Return what neighbouring days add to the variance of the mean of each group.

        Days weigh by their *precision*, groups by days.
        """
        whole = np.maximum(precision.sum(axis=1, keepdims=True), TINY)
        return self.variance((precision / whole)[:, None, :])[:, 0]

    def variance(self, weights: Floats) -> Floats:
        """Return what neighbouring days add to the variance of weighted sums of levels.

        *weights* are groups by sums by days.
        """
        if not self.covariance.any():
            return np.zeros(weights.shape[:2])
        return self.added(_neighbouring(weights))

    def added(self, products: Floats) -> Floats:
        """Return the same of *products* of neighbouring weights: lags from 1 by groups by sums."""
        part = 2 * self.covariance * self.decay ** np.arange(len(products))[:, None]
        return np.asarray(np.einsum("lg,lgs->gs", part, products))


def _neighbouring(weights: Floats) -> Floats:
    """Return sums of products of weights some days apart: lags from 1 by groups by sums."""
    lags = range(1, min(_MOST_LAG, weights.shape[2] - 1) + 1)
    products = np.zeros((len(lags), *weights.shape[:2]))
    for lag in lags:
        np.einsum("gsd,gsd->gs", weights[:, :, :-lag], weights[:, :, lag:], out=products[lag - 1])
    return products


class Evidence(NamedTuple):
    """How like their neighbours the days of one subject are; kinds of groups by lags from 1.

    How much of a day is noise of its own depends on the size of a cohort, and so does this.
    """

    covariance: Floats
    sure: Floats  #: one over the variance of each, were days independent
    pairs: Floats  #: of days
    differing: Floats  #: by kind, the parts of the variance from one series to the next


class UsualMemory(NamedTuple):
    """The same of all subjects together.

    Covariances are what is pooled, not correlations: what days share is of one size in subjects
    whose own noise is large and in those where it is small, and only a part of a correlation.
    """

    covariance: Floats  #: by kind and lag
    between: Floats  #: by kind, the variance from one subject to the next
    among: Floats  #: by kind, the variance from one series of a subject to the next


def usual_memory(evidence: Iterable[Evidence]) -> UsualMemory | None:
    """Pool the evidence of several subjects; None without any."""
    of_subjects = list(evidence)
    if not of_subjects:
        return None
    covariance, sure, pairs, differing = map(np.stack, zip(*of_subjects, strict=True))
    unit = _unit(sure[:, :, 0], pairs[:, :, 0])
    mean, between = _mean(covariance, sure), np.zeros(_KINDS)
    for _ in range(_ROUNDS):
        spread = _product_variance(mean[:, 0] * unit, _decay(mean.T))
        known = sure / spread[:, :, None]
        between = _variance(*beyond_chance(covariance, known, mean))[:, 0]
        mean = _mean(covariance, known / (1 + known * between[:, None]))
    return UsualMemory(mean, between, _variance(*differing.sum(axis=0).T))


def _unit(sure: Floats, pairs: Floats) -> Floats:
    """Return what makes covariances correlations."""
    return np.asarray(np.sqrt(sure / np.maximum(pairs, 1.0)))


def _mean(covariance: Floats, weight: Floats) -> Floats:
    return ratio((covariance * weight).sum(axis=0), weight.sum(axis=0))


def _decay(covariance: Floats, prior: float = 0.0) -> Floats:
    """Return the factor on a covariance for each further day; *covariance* has lags first.

    *prior* is how much the usual decay counts, as a covariance.
    """
    second, third = np.maximum(covariance[1:], 0.0)
    near = np.maximum(covariance[0] + second, 0.0) + prior
    decay = ratio(np.maximum(covariance[1] + third, 0.0) + _USUAL_DECAY * prior, near)
    return np.minimum(decay, _MOST_DECAY)


def _product_variance(correlation: Floats, decay: Floats | float) -> Floats:
    """Return the variance of a product of days by that of independent ones (Bartlett 1946)."""
    near = np.maximum(correlation, 0.0)
    return np.asarray(1 + near * (3 * near + 2 * decay) + (2 * near * decay) ** 2 / (1 - decay**2))


def _variance(above: Floats, weight: Floats) -> Floats:
    """Return the variance of which ``beyond_chance`` returned the parts."""
    return np.asarray(np.maximum(above, 0.0) / np.maximum(weight, TINY))


def kinds(values: Floats, single: Flags) -> Kinds:
    """Return the kind of each group, whose memory is shrunk to that of its kind.

    *values* are those of a day of its baseline; *single* tells groups of one cohort.
    """
    return np.where(single, np.searchsorted(_SIZES, values, side="right"), _KINDS - 1)


class GroupMemory(NamedTuple):
    """The memory of groups, and what it says of other subjects."""

    memory: DayMemory
    evidence: Evidence


def day_memory(
    level: Floats, precision: Floats, kind: Kinds, usual: UsualMemory | None = None
) -> GroupMemory:
    """Estimate the memory of days from *level* and its *precision*, groups by days.

    The covariance of a series is that of all series of its kind, or more where it differs from
    theirs by more than chance: too small a covariance makes false alarms. The decay is that of the
    kind. Fitting a mean takes a part of what days share away, which is given back. What is *usual*
    counts beside a subject's own.
    """
    memory = DayMemory(*np.zeros((2, len(level))))
    covariance, sure, pairs = np.zeros((3, _KINDS, _LAGS))
    evidence = Evidence(covariance, sure, pairs, np.zeros((_KINDS, 2)))
    if level.shape[1] < 2 * _MOST_LAG:
        return GroupMemory(memory, evidence)
    moments = _Moments.of(level, precision)
    products = _neighbouring(moments.weights[:, None, :])
    for _ in range(_ROUNDS):
        lost = moments.of_mean + memory.added(products)[:, 0]
        covariance, decay = np.zeros((2, len(level)))
        for place in range(_KINDS):
            same = kind == place
            if same.any():
                of_kind = moments.of_kind(lost, same)
                evidence.covariance[place] = of_kind.covariance
                evidence.sure[place] = of_kind.sure
                evidence.pairs[place] = of_kind.pairs
                common = of_kind.beside(usual, place)
                of_days = of_kind.decay(common)
                series = moments.series(lost, same, of_kind.spread(common, of_days))
                evidence.differing[place] = series.differing(common)
                among = usual.among if usual else _variance(*evidence.differing.T)
                covariance[same] = series.shrunk(common, float(among[place]))
                decay[same] = of_days
        memory = DayMemory(covariance, decay)
    return GroupMemory(memory, evidence)


@dataclass(frozen=True, slots=True)
class _KindMoments:
    """The covariance that all series of a kind share, by lag."""

    covariance: Floats
    sure: Floats  #: information in each
    pairs: Floats

    def beside(self, usual: UsualMemory | None, place: int) -> Floats:
        """Return the covariances shrunk to what is usual, by how much subjects differ."""
        if usual is None:
            return self.covariance
        expected = usual.covariance[place]
        error = self.spread(expected, self.decay(expected)) / max(float(self.sure[0]), TINY)
        own = usual.between[place] / (usual.between[place] + error)
        return np.asarray(own * self.covariance + (1 - own) * expected)

    def decay(self, covariance: Floats) -> float:
        """Return the factor on the covariance for each further day."""
        return float(_decay(covariance, _PRIOR_DECAY / np.sqrt(max(float(self.sure[0]), TINY))))

    def spread(self, covariance: Floats, decay: float) -> float:
        """Return the variance of a product of days by that of independent ones."""
        return float(_product_variance(covariance[0] * _unit(self.sure, self.pairs)[0], decay))


@dataclass(frozen=True, slots=True)
class _SeriesMoments:
    """The covariance of neighbours in each series of a kind."""

    covariance: Floats
    unit: Floats  #: what makes each a correlation
    known: Floats  #: one over the variance of each correlation

    def differing(self, common: Floats) -> tuple[Floats, Floats]:
        """Return by how much they differ about a *common* one, as of ``Evidence``."""
        return beyond_chance(self.covariance * self.unit, self.known, float(common[0]) * self.unit)

    def shrunk(self, common: Floats, among: float) -> Floats:
        """Return them nearer to the *common* one, the less series vary *among* each other."""
        own = among * self.known / (among * self.known + 1)
        first = float(common[0])
        return np.maximum(first + own * (self.covariance - first), max(first, 0.0))


@dataclass(frozen=True, slots=True)
class _Moments:
    """Products of levels some days apart, weighed by their precision."""

    products: Floats  #: mean product of each series; lags from 1 by series
    sure: Floats  #: information in each
    pairs: Floats  #: of days with values
    weights: Floats  #: of each day in the mean of its series
    of_mean: Floats  #: variance of that mean, were days independent

    @classmethod
    def of(cls, level: Floats, precision: Floats) -> "_Moments":
        whole = np.maximum(precision.sum(axis=1), TINY)
        weights = precision / whole[:, None]
        scaled = precision * (level - (weights * level).sum(axis=1)[:, None])
        products, sure, pairs = np.zeros((3, _LAGS, len(level)))
        for place, lag in enumerate(range(1, _LAGS + 1)):
            information = (precision[:, lag:] * precision[:, :-lag]).sum(axis=1)
            product = (scaled[:, lag:] * scaled[:, :-lag]).sum(axis=1)
            products[place] = product / np.maximum(information, TINY)
            sure[place] = information
            pairs[place] = ((precision[:, lag:] > 0) & (precision[:, :-lag] > 0)).sum(axis=1)
        return cls(products, sure, pairs, weights, 1 / whole)

    def of_kind(self, lost: Floats, kind: Flags) -> _KindMoments:
        """Sum the series of a kind up; *lost* is what fitting their means took."""
        sure = (self.sure * kind).sum(axis=1)
        total = ((self.products + lost) * self.sure * kind).sum(axis=1)
        return _KindMoments(total / np.maximum(sure, TINY), sure, (self.pairs * kind).sum(axis=1))

    def series(self, lost: Floats, kind: Flags, spread: float) -> _SeriesMoments:
        """Return the neighbours of each series of a kind, whose products *spread* so much."""
        own, pairs = (self.products[0] + lost)[kind], self.pairs[0, kind]
        return _SeriesMoments(own, _unit(self.sure[0, kind], pairs), pairs / spread)
