"""The panel: the level of each group of cohorts by day, and the scores of changes in it.

For every start the days from it on are compared with those before; the largest score is the onset.
The scores are correlated, so Efron's length heuristic (Biometrika 1997) bounds the chance of their
maximum: two neighbours whose correlation is ``cos a`` add ``phi(z) (2/z) (Phi(z a / 2) - 1/2)`` to
the chance of the first.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from ett_service.detection.sample import Flags, Floats, Ints
from ett_service.detection.window import (
    WEEK_DAYS,
    DayMemory,
    Evidence,
    Groups,
    UsualMemory,
    day_memory,
    kinds,
)

_PRIOR_SERIES = 2.0  #: the pooled variance of days counts as this many series
_PRIOR_OF_WEEKDAYS = 6.0  #: the pooled variance of weekdays, likewise
_LEAST_OTHERS = 0.1  #: share of the rows that other cohorts need to predict a group
_TINY = 1e-12
_LEAST_FREEDOM = 5.0
_MOST_SKEWNESS = 0.8  #: of a mean, and the score up to which it is corrected
_MOST_SCORE = 4.0
_YOUNG_PENALTY = 0.5  #: of the score of a start on the last days
_LEAST_INFORMATION = 1e-9  #: on either side, for a score


@dataclass(frozen=True, slots=True)
class Cells:
    """Cohorts by days; levels are 0 on average in the baseline, in units of a change of 1."""

    level: Floats  #: mean of the rows, 0 where there are none
    weight: Floats  #: of the rows together
    effective: Floats  #: the number of independent rows that weigh as much
    count: Ints  #: rows
    variance: Floats  #: of one row, by cohort
    baseline: int  #: the number of days of the baseline, which come first
    weekday: Ints  #: of each day, 0 to 6 from any
    skewness: float = 0.0  #: of one row

    def shifted(self, members: Floats, start: int, stop: int) -> "Cells":
        """Take each member's own change of these days off its level."""
        days = np.arange(self.level.shape[1])
        late = (days >= start) & (days < stop)
        change = _mean(self, late) - _mean(self, ~late)
        return replace(self, level=self.level - np.outer(members * change, late))


@dataclass(frozen=True, slots=True)
class Panel:
    """Groups by days."""

    level: Floats
    precision: Floats  #: one over the variance of the level; 0 where there is none
    background: Floats  #: taken off the level: what other cohorts and the day of the week predict
    count: Ints
    effective: Floats  #: the number of independent rows that weigh as much
    freedom: Floats  #: by group, degrees of freedom of its variance
    memory: DayMemory
    third: Floats  #: by group, third moment of one row
    evidence: Evidence  #: of the memory of days

    def of(self, group: int) -> "Panel":
        """Return the series of one group alone."""
        rows = slice(group, group + 1)
        return Panel(
            self.level[rows],
            self.precision[rows],
            self.background[rows],
            self.count[rows],
            self.effective[rows],
            self.freedom[rows],
            DayMemory(self.memory.covariance[rows], self.memory.decay[rows]),
            self.third[rows],
            self.evidence,
        )

    def error(self, late: Flags, early: Flags) -> Floats:
        """Return the standard error of changes by group; infinite where a side has no values.

        *late* and *early* are changes by days.
        """
        after, before = self.precision @ late.T, self.precision @ early.T
        both = (after > _LEAST_INFORMATION) & (before > _LEAST_INFORMATION)
        after, before = np.where(both, after, 1.0), np.where(both, before, 1.0)
        weights = self.precision[:, None, :] * (
            late / after[:, :, None] - early / before[:, :, None]
        )
        variance = 1 / after + 1 / before + self.memory.variance(weights)
        return np.where(both, np.sqrt(np.maximum(variance, _TINY)), np.inf)


def centred(cells: Cells) -> Cells:
    """Make the mean of each cohort's baseline 0; a cohort without a baseline weighs nothing."""
    early = np.arange(cells.level.shape[1]) < cells.baseline
    mean = _mean(cells, early)
    has_baseline = (cells.weight * early).sum(axis=1) > 0
    return replace(
        cells, level=cells.level - mean[:, None], weight=cells.weight * has_baseline[:, None]
    )


def panel(cells: Cells, groups: Groups, usual: UsualMemory | None = None) -> Panel:
    """Pool *cells* by group, and take off the background.

    The *usual* memory of days is that of other subjects.
    """
    pooled = cells.weight * _baseline_share(cells)[:, None]
    own = _Pooled.of(groups.members, pooled, cells)
    everywhere = _Pooled.of(np.ones((1, len(pooled))), pooled, cells)
    background = _background(own, everywhere, cells.baseline)
    of_weekday = _weekdays(own.level - background, own, cells)
    of_neighbours = _neighbours(own.level - of_weekday, background, own, cells, groups)
    background = background + of_weekday + of_neighbours
    level = np.where(own.weight > 0, own.level - background, 0.0)
    single, early = np.array(groups.single), slice(0, cells.baseline)
    days, freedom = _day_variance(level, own, cells.baseline, single)
    variance = own.variance + days[:, None]
    precision = np.divide(1.0, variance, out=np.zeros_like(level), where=own.weight > 0)
    count = np.rint(groups.members @ cells.count).astype(np.int64)
    effective = groups.members @ cells.effective
    of_day = effective[:, early].sum(axis=1) / max(cells.baseline, 1)
    kind = kinds(of_day, single)
    memory, evidence = day_memory(level[:, early], precision[:, early], kind, usual)
    freedom = np.maximum(freedom * memory.independence(precision[:, early]), _LEAST_FREEDOM)
    rows = groups.members @ cells.weight.sum(axis=1)
    of_row = ratio(groups.members @ (cells.weight.sum(axis=1) * cells.variance), rows)
    third = cells.skewness * of_row**1.5
    return Panel(level, precision, background, count, effective, freedom, memory, third, evidence)


@dataclass(frozen=True, slots=True)
class _Pooled:
    """Sums over the cohorts of each group, by day."""

    weight: Floats
    total: Floats
    square: Floats  #: sum of the squared weights times variances

    @classmethod
    def of(cls, members: Floats, pooled: Floats, cells: Cells) -> "_Pooled":
        noise = np.divide(pooled**2, cells.weight, out=np.zeros_like(pooled), where=pooled > 0)
        return cls(
            members @ pooled,
            members @ (pooled * cells.level),
            members @ (noise * cells.variance[:, None]),
        )

    @property
    def level(self) -> Floats:
        return ratio(self.total, self.weight)

    @property
    def variance(self) -> Floats:
        """Of the level, by the spread of rows alone."""
        return ratio(self.square, self.weight**2)


def _baseline_share(cells: Cells) -> Floats:
    """Return the weight of a cohort in van Elteren's sum: little where its baseline is small."""
    before = cells.weight[:, : cells.baseline].sum(axis=1)
    return ratio(before, cells.weight.sum(axis=1))


def _background(own: _Pooled, everywhere: _Pooled, baseline: int) -> Floats:
    """Predict each group's level from that of all cohorts outside it."""
    others = _Pooled(
        everywhere.weight - own.weight,
        everywhere.total - own.total,
        everywhere.square - own.square,
    )
    early = slice(0, baseline)
    shared = _of_days(everywhere.level[:, early], everywhere.variance[:, early])
    enough = others.weight > everywhere.weight * _LEAST_OTHERS
    variance = np.where(enough, shared + others.variance, 1.0)
    shrinkage = np.divide(shared, variance, out=np.zeros_like(variance), where=variance > 0)
    return np.where(enough, others.level * shrinkage, 0.0)


def _neighbours(
    level: Floats, background: Floats, own: _Pooled, cells: Cells, groups: Groups
) -> Floats:
    """Predict the level of each cohort from those of others with the same value of a dimension.

    Cohorts of one cluster share its storage and its network. How much they share is the mean
    product of their levels of a day, over all pairs (Robinson 1991: best linear prediction).
    Levels are beside the cohort's own *background*: those of others hold the cohort itself.
    """
    predicted = np.zeros_like(level)
    single, early = np.flatnonzero(groups.single), slice(0, cells.baseline)
    has_rows = own.weight[single] > 0
    share = np.maximum(groups.members[single] @ _baseline_share(cells), _TINY)[:, None]
    noise = np.where(has_rows, own.variance[single] / share, np.inf)
    for value in groups.by_dimension():
        of_single = value @ groups.members[single].T
        same = of_single.T @ of_single
        np.fill_diagonal(same, 0.0)
        left = np.where(has_rows, (level - predicted)[single], 0.0)
        rest = np.where(has_rows, left - background[single], 0.0)
        of_day = _of_days(rest[:, early], own.variance[single][:, early])
        sure = 1 / (noise[:, early] + of_day + _TINY)
        products = float((sure * rest[:, early] * (same @ (sure * rest[:, early]))).sum())
        shared = products / max(float((sure * (same @ sure)).sum()), _TINY)
        if shared > 0:
            precision = 1 / (noise + max(of_day - shared, 0.0) + _TINY)
            off = same @ (precision * left) - (same @ precision) * background[single]
            predicted[single] += off / (same @ precision + 1 / shared)
    return predicted


def _weekdays(level: Floats, own: _Pooled, cells: Cells) -> Floats:
    """Return the effect of the day of the week on a group, as far as its baseline shows it.

    The variance between weekdays is mostly that of all groups: seven means of few values differ
    by chance.
    """
    weeks = cells.baseline // WEEK_DAYS
    if weeks <= 1:
        return np.zeros_like(level)
    early = cells.weekday[:, None] == np.arange(WEEK_DAYS)
    early[cells.baseline :] = False
    weight = own.weight @ early
    mean = ratio((level * own.weight) @ early, weight)
    square = ratio((level**2 * own.weight) @ early, weight)
    within = ratio(((square - mean**2) * weight).sum(axis=1), weight.sum(axis=1))
    error = within[:, None] * ratio(own.weight**2 @ early, weight**2) * weeks / (weeks - 1)
    mean = mean - mean.mean(axis=1, keepdims=True)
    between = _between(mean, error)[:, None]
    return np.asarray((mean * ratio(between + 0 * error, between + error))[:, cells.weekday])


def _between(mean: Floats, error: Floats) -> Floats:
    """Return the variance between weekdays of each group, mixed with that of all."""
    excess = (mean**2).sum(axis=1) / (WEEK_DAYS - 1) - error.mean(axis=1)
    sure = ratio(np.ones(len(error)), error.mean(axis=1) ** 2)
    pooled = float((excess * sure).sum()) / max(float(sure.sum()), _TINY)
    mixed = (excess + _PRIOR_OF_WEEKDAYS * pooled) / (1 + _PRIOR_OF_WEEKDAYS)
    return np.asarray(np.maximum(mixed, 0.0))


def _day_variance(
    level: Floats, own: _Pooled, baseline: int, single: Flags
) -> tuple[Floats, Floats]:
    """Return the variance between days of each group's level, and its degrees of freedom.

    It is no less than that of all groups of the same kind together: too small a variance makes
    false alarms.
    """
    above, scale = _excess(level[:, :baseline], own.variance[:, :baseline])
    variance, freedom = np.zeros(len(level)), np.full(len(level), float(max(baseline - 1, 1)))
    for kind in (single, ~single):
        if kind.any():
            pooled = max(0.0, float(above[kind].sum()) / max(float(scale[kind].sum()), _TINY))
            mixed = (ratio(above, scale) + _PRIOR_SERIES * pooled) / (1 + _PRIOR_SERIES)
            variance = np.where(kind, np.maximum(mixed, pooled), variance)
    freedom[single] *= min(int(single.sum()), 1 + _PRIOR_SERIES)
    return variance, freedom


def _of_days(level: Floats, variance: Floats) -> float:
    """Return the variance between days that series have together."""
    above, scale = _excess(level, variance)
    return max(float(above.sum()) / max(float(scale.sum()), _TINY), 0.0)


def _excess(level: Floats, variance: Floats) -> tuple[Floats, Floats]:
    """Return the parts whose ratio is the variance between days (DerSimonian and Laird 1986)."""
    precision = np.divide(1.0, variance, out=np.zeros_like(level), where=variance > 0)
    whole = precision.sum(axis=1)
    mean = ratio((precision * level).sum(axis=1), whole)
    spread = (precision * (level - mean[:, None]) ** 2).sum(axis=1)
    above = spread - np.maximum((precision > 0).sum(axis=1) - 1, 0)
    return above, whole - ratio((precision**2).sum(axis=1), whole)


def _mean(cells: Cells, days: Flags) -> Floats:
    weight = cells.weight * days
    return ratio((weight * cells.level).sum(axis=1), weight.sum(axis=1))


class Fewest(NamedTuple):
    """The fewest values of a change on either side."""

    recent: int
    baseline: int


@dataclass(frozen=True, slots=True)
class Starts:
    """Groups by starts: start ``k`` compares the last ``k + 1`` days with the ones before."""

    score: Floats  #: standard normal without a change, positive for worse
    raw: Floats  #: standard errors of the change; the group with most shows it best
    share: Floats  #: of the information after the start, 0 to 1
    enough: Flags  #: whether both sides have enough values
    days: Ints  #: with rows after the start


@dataclass(frozen=True, slots=True)
class Peaks:
    """The largest score of each group, over the starts with enough values."""

    last: Ints  #: days since the start, at least 1; 0 where no start has enough values
    score: Floats
    p: Floats  #: one-sided; 1 without a start


def start_scores(panel: Panel, most: int, fewest: Fewest) -> Starts:
    """Compare the last 1 to *most* days of each group with its days before."""
    precision, weighted = panel.precision, panel.precision * panel.level
    after, before = tails(precision, most), heads(precision, most)
    change = _over(tails(weighted, most), after) - _over(heads(weighted, most), before)
    late = np.arange(panel.level.shape[1]) >= panel.level.shape[1] - np.arange(1, most + 1)[:, None]
    error = panel.error(late[: after.shape[1]], ~late[: after.shape[1]])
    rows, earlier = tails(panel.effective, most), heads(panel.effective, most)
    third = panel.third[:, None] * (
        _over(np.ones_like(rows), rows**2) - _over(np.ones_like(rows), earlier**2)
    )
    raw = unskewed(change / error, third / error**3)
    recent = np.rint(tails(panel.effective, most)) >= fewest.recent
    return Starts(
        score=as_normal(raw, panel.freedom[:, None]),
        raw=raw,
        share=_over(after, after + before),
        enough=recent & (np.rint(heads(panel.effective, most)) >= fewest.baseline),
        days=tails((panel.count > 0).astype(np.float64), most).astype(np.int64),
    )


def unskewed(score: Floats, skewness: Floats) -> Floats:
    """Return scores as rare as those of a skewed mean (Cornish and Fisher 1938)."""
    skewness = np.clip(skewness, -_MOST_SKEWNESS, _MOST_SKEWNESS)
    return np.asarray(score - skewness * (np.minimum(score**2, _MOST_SCORE**2) - 1) / 6)


def as_normal(score: Floats, freedom: Floats) -> Floats:
    """Return the normal score as rare as a Student's t of *freedom* (Wallace 1959)."""
    size = np.sqrt(freedom * np.log1p(score**2 / freedom))
    return np.sign(score) * size * (8 * freedom + 1) / (8 * freedom + 3)


def as_student(score: Floats, freedom: Floats) -> Floats:
    """Return the Student's t as rare as a normal score: the inverse of ``as_normal``."""
    size = np.abs(score) * (8 * freedom + 3) / (8 * freedom + 1)
    return np.sign(score) * np.sqrt(freedom * np.expm1(size**2 / freedom))


def peaks(starts: Starts, sign: int, fewest_days: int) -> Peaks:
    """Return the largest score of each group for a change in the direction of *sign*.

    Starts within the last *fewest_days* are penalised: noise that makes a change look younger
    than it is would delay its finding.
    """
    allowed = starts.enough
    score = np.where(allowed, sign * starts.score, -np.inf)
    place = (score - _YOUNG_PENALTY * (starts.days < fewest_days)).argmax(axis=1)
    best, some = score[np.arange(len(score)), place], allowed.any(axis=1)
    p = np.where(some, chance(best, starts.share, allowed), 1.0)
    return Peaks(np.where(some, place + 1, 0), np.where(some, best, 0.0), p)


def chance(score: Floats, share: Floats, allowed: Flags) -> Floats:
    """Return a bound of the chance of a maximum so large over the *allowed* starts."""
    z = np.maximum(np.where(np.isfinite(score), score, 0.0), 0.1)[:, None]
    odds = share / np.maximum(1 - share, _LEAST_INFORMATION)
    correlation = np.clip(odds[:, :-1] / np.maximum(odds[:, 1:], _LEAST_INFORMATION), 0.0, 1.0)
    angle = np.arccos(np.sqrt(correlation))
    step = np.where(allowed[:, 1:] & allowed[:, :-1], ndtr(z * angle / 2) - 0.5, 0.0)
    density = np.exp(-(z[:, 0] ** 2) / 2) / np.sqrt(2 * np.pi)
    bound = ndtr(-z[:, 0]) + density * (2 / z[:, 0]) * step.sum(axis=1)
    return np.asarray(np.clip(bound, 0.0, 1.0))


def tails(values: Floats, most: int) -> Floats:
    """Return sums over the last 1, 2, ... days."""
    return np.asarray(np.cumsum(values[:, ::-1], axis=1)[:, :most])


def heads(values: Floats, most: int) -> Floats:
    """Return sums over all days but the last 1, 2, ..."""
    return np.asarray(values.sum(axis=1, keepdims=True) - tails(values, most))


def _over(part: Floats, whole: Floats) -> Floats:
    return ratio(part, whole, least=_LEAST_INFORMATION)


def ratio(part: Floats, whole: Floats, least: float = 0.0) -> Floats:
    """Return quotients; 0 where the whole is no more than *least*."""
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > least)
