"""Levels by cohort and day, how groups of cohorts pool them, and how far days differ.

The variance between days is DerSimonian and Laird's (1986). Rows of the baseline lie nearer to what
was fitted to them than future rows will. Beside the levels of the baseline stands therefore the
variance of fitted rows: were it that of future ones, days would seem to differ less than they do.
"""

from dataclasses import dataclass, replace

import numpy as np

from ett_service.detection.sample import Flags, Floats, Ints

TINY = 1e-12
_SHARED_SERIES = 2.0  #: what all cohorts say of the variance of days counts as this many more


@dataclass(frozen=True, slots=True)
class Cells:
    """Cohorts by days; levels are 0 on average in the baseline, in units of a change of 1."""

    level: Floats  #: mean of the rows, 0 where there are none
    weight: Floats  #: of the rows together
    effective: Floats  #: the number of independent rows that weigh as much
    count: Ints  #: rows
    variance: Floats  #: of one future row, by cohort
    fitted: Floats  #: the part of it that rows of the baseline show, by cohort
    baseline: int  #: the number of days of the baseline, which come first
    weekday: Ints  #: of each day, 0 to 6 from any
    skewness: float = 0.0  #: of one row
    curvature: float = 0.0
    """How much further than 1 a shift by 1 moves the level up; down it is as much less."""

    def shifted(self, members: Floats, start: int, stop: int) -> "Cells":
        """Take each member's own change of these days off its level."""
        days = np.arange(self.level.shape[1])
        late = (days >= start) & (days < stop)
        change = _mean(self, late) - _mean(self, ~late)
        return replace(self, level=self.level - np.outer(members * change, late))


def centred(cells: Cells) -> Cells:
    """Make the mean of each cohort's baseline 0; a cohort without a baseline weighs nothing."""
    early = np.arange(cells.level.shape[1]) < cells.baseline
    mean = _mean(cells, early)
    has_baseline = (cells.weight * early).sum(axis=1) > 0
    return replace(
        cells, level=cells.level - mean[:, None], weight=cells.weight * has_baseline[:, None]
    )


def _mean(cells: Cells, days: Flags) -> Floats:
    weight = cells.weight * days
    return ratio((weight * cells.level).sum(axis=1), weight.sum(axis=1))


@dataclass(frozen=True, slots=True)
class Pooled:
    """Sums over the cohorts of each group, by day."""

    weight: Floats
    total: Floats
    square: Floats  #: sum of the squared weights times variances of future rows
    fitted_square: Floats  #: the same of rows that are fitted

    @classmethod
    def of(cls, members: Floats, cells: Cells) -> "Pooled":
        """Pool *cells* by group; *members* are groups by cohorts."""
        pooled = cells.weight * baseline_share(cells)[:, None]
        noise = np.divide(pooled**2, cells.weight, out=np.zeros_like(pooled), where=pooled > 0)
        noise *= cells.variance[:, None]
        return cls(
            members @ pooled,
            members @ (pooled * cells.level),
            members @ noise,
            members @ (noise * cells.fitted[:, None]),
        )

    def without(self, part: "Pooled") -> "Pooled":
        """Return the sums of all cohorts but those of a *part*."""
        return Pooled(
            self.weight - part.weight,
            self.total - part.total,
            self.square - part.square,
            self.fitted_square - part.fitted_square,
        )

    @property
    def level(self) -> Floats:
        """The levels of days."""
        return ratio(self.total, self.weight)

    @property
    def variance(self) -> Floats:
        """Of the level, by the spread of rows alone."""
        return ratio(self.square, self.weight**2)

    @property
    def fitted_variance(self) -> Floats:
        """The same where rows are fitted: in the baseline."""
        return ratio(self.fitted_square, self.weight**2)

    def precision(self, days: Floats) -> Floats:
        """Return one over the variance of future levels, 0 where there is none.

        *days* is the variance between days by group.
        """
        return _inverse(self.variance + days[:, None], self.weight)

    def fitted_precision(self, days: Floats) -> Floats:
        """Return the same of levels that are fitted."""
        return _inverse(self.fitted_variance + days[:, None], self.weight)


def baseline_share(cells: Cells) -> Floats:
    """Return the weight of a cohort in van Elteren's sum: little where its baseline is small."""
    before = cells.weight[:, : cells.baseline].sum(axis=1)
    return ratio(before, cells.weight.sum(axis=1))


def day_variance(level: Floats, pooled: Pooled, baseline: int, single: Flags) -> Floats:
    """Return the variance between days of the *level* of each group, in the baseline.

    It is that of all groups of the same kind together, or more where a group differs from them by
    more than chance: too small a variance makes false alarms. *single* tells groups of one cohort.
    """
    noise = pooled.fitted_variance[:, :baseline]
    above, scale = _excess(level[:, :baseline], noise)
    own, variance = ratio(above, scale), np.zeros(len(level))
    for kind in (single, ~single):
        if kind.any():
            common = max(0.0, float(above[kind].sum()) / max(float(scale[kind].sum()), TINY))
            # Of normal levels a sum of squares spreads by twice the sum of squared variances.
            spread = 2 * ((1 + common * _inverse(noise, noise)) ** 2 * (noise > 0)).sum(axis=1)
            known = ratio(scale**2, spread) * kind
            shrunk = common + part_of_own(own, known, common) * (own - common)
            variance = np.where(kind, np.maximum(shrunk, common), variance)
    return variance


def part_of_own(own: Floats, known: Floats, common: Floats | float) -> Floats:
    """Return how much of each estimate is its *own*; the rest is what is *common*.

    It is the less, the less estimates differ but for chance. *known* are one over the variances of
    estimates; 0 for one that does not count.
    """
    above, weight = beyond_chance(own, known, np.full_like(own, common))
    among = max(float(above), 0.0) / max(float(weight), TINY)
    return np.asarray(among * known / (among * known + 1))


def day_freedom(single: Flags, baseline: int) -> Floats:
    """Return the degrees of freedom of the variance between days, by group."""
    freedom = np.full(len(single), float(max(baseline - 1, 1)))
    freedom[single] *= min(int(single.sum()), 1 + _SHARED_SERIES)
    return freedom


def shared_day_variance(level: Floats, variance: Floats) -> float:
    """Return the variance between days that series have together."""
    above, scale = _excess(level, variance)
    return max(float(above.sum()) / max(float(scale.sum()), TINY), 0.0)


def _excess(level: Floats, variance: Floats) -> tuple[Floats, Floats]:
    """Return the parts whose ratio is the variance between days."""
    precision = _inverse(variance, variance)
    mean = ratio((precision * level).sum(axis=1), precision.sum(axis=1))
    return beyond_chance(level, precision, mean[:, None], axis=1)


def beyond_chance(
    values: Floats, known: Floats, centre: Floats, axis: int = 0
) -> tuple[Floats, Floats]:
    """Return the parts whose ratio is by how much *values* vary, but for chance.

    It is the variance of DerSimonian and Laird (1986), which is none where it is negative.
    *known* are one over the variances of the values, 0 for one that does not count; *centre* is
    their mean.
    """
    number = np.maximum((known > 0).sum(axis=axis) - 1, 0)
    above = (known * (values - centre) ** 2).sum(axis=axis) - number
    whole = known.sum(axis=axis)
    return above, whole - ratio((known**2).sum(axis=axis), whole)


def _inverse(variance: Floats, known: Floats) -> Floats:
    return np.divide(1.0, variance, out=np.zeros_like(variance), where=known > 0)


def ratio(part: Floats, whole: Floats, least: float = 0.0) -> Floats:
    """Return quotients; 0 where the whole is no more than *least*."""
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > least)
