"""The panel: the level of each group of cohorts by day, and the scores of changes in it.

For every start the days from it on are compared with those before; the largest score is the onset.
The scores are correlated, so Efron's length heuristic (Biometrika 1997) bounds the chance of their
maximum: two neighbours whose correlation is ``cos a`` add ``phi(z) (2/z) (Phi(z a / 2) - 1/2)`` to
the chance of the first. Young starts look like a change by chance more often than old ones, and
seldom show one of a usual size, so they get a small part of the chance (Roeder and Wasserman 2009).
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from ett_service.detection.background import background
from ett_service.detection.cells import TINY, Cells, Pooled, day_freedom, day_variance, ratio
from ett_service.detection.day_memory import (
    DayMemory,
    Evidence,
    Kinds,
    UsualMemory,
    day_memory,
    kinds,
)
from ett_service.detection.sample import Flags, Floats, Ints
from ett_service.detection.window import Groups

_LEAST_FREEDOM = 5.0
_MOST_SKEWNESS = 0.8  #: of a mean, and the score up to which it is corrected
_MOST_SCORE = 4.0
_YOUNG_PENALTY = 0.5  #: of the score of a start on the last days
_YOUNG = 0.6  #: of the recent days: the later starts, in which only a large change shows
_LEAST_INFORMATION = 1e-9  #: on either side, for a score

CHANCE_OF_YOUNG = 0.2
"""The part of the chance of a false finding that young starts have; old ones have the rest."""


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
    days: Floats  #: by group, variance between days
    third: Floats  #: by group, third moment of one row
    curvature: float  #: as of ``Cells``
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
            self.days[rows],
            self.third[rows],
            self.curvature,
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
        return np.where(both, np.sqrt(np.maximum(variance, TINY)), np.inf)

    def third_of_days(self, late: Flags) -> Floats:
        """Return the third moment that conditions of days give to changes by group.

        Conditions ``b`` move a level by ``b + c b**2``, where ``c`` is the curvature. A side whose
        mean has a variance ``v`` of them, as days hang together, has a third moment of
        ``6 c v**2``; the change has the difference of both sides. *late* are changes by days.
        """
        if not self.curvature:
            return np.zeros((len(self.level), len(late)))
        after, before = (self._of_conditions(side) for side in (late, ~late))
        return 6 * self.curvature * (after**2 - before**2)

    def _of_conditions(self, side: Flags) -> Floats:
        """Return the variance of the mean of a side that comes from the conditions of its days."""
        weights = self.precision[:, None, :] * side
        weights /= np.maximum(weights.sum(axis=2, keepdims=True), _LEAST_INFORMATION)
        of_days = self.days[:, None] * (weights**2).sum(axis=2)
        return np.asarray(of_days + self.memory.variance(weights))


def panel(cells: Cells, groups: Groups, usual: UsualMemory | None = None) -> Panel:
    """Pool *cells* by group, and take off the background.

    The *usual* memory of days is that of other subjects.
    """
    own = Pooled.of(groups.members, cells)
    taken = background(own, cells, groups)
    level = np.where(own.weight > 0, own.level - taken.level, 0.0)
    single, early = np.array(groups.single), slice(0, cells.baseline)
    days = taken.widening * day_variance(level, own, cells.baseline, single)
    effective = groups.members @ cells.effective
    kind = kinds(effective[:, early].sum(axis=1) / max(cells.baseline, 1), single)
    precision = own.precision(_mean_of_kind(days, kind))
    memory, _ = day_memory(level[:, early], precision[:, early], kind, usual)
    # Fitting a mean took a part of what days share; memory weighs days by all that they vary.
    days = days + memory.of_mean(precision[:, early])
    precision = own.precision(_mean_of_kind(days, kind))
    memory, evidence = day_memory(level[:, early], precision[:, early], kind, usual)
    precision = own.precision(days)
    freedom = day_freedom(single, cells.baseline) * memory.independence(precision[:, early])
    rows = groups.members @ cells.weight.sum(axis=1)
    of_row = ratio(groups.members @ (cells.weight.sum(axis=1) * cells.variance), rows)
    return Panel(
        level=level,
        precision=precision,
        background=taken.level,
        count=np.rint(groups.members @ cells.count).astype(np.int64),
        effective=effective,
        freedom=np.maximum(freedom, _LEAST_FREEDOM),
        memory=memory,
        days=days,
        third=cells.skewness * of_row**1.5,
        curvature=cells.curvature,
        evidence=evidence,
    )


def _mean_of_kind(days: Floats, kind: Kinds) -> Floats:
    """Return the mean variance between days of each group's kind.

    By its own, a group whose days vary little would count most in what days share, and say that it
    is little.
    """
    return np.asarray(np.bincount(kind, days) / np.maximum(np.bincount(kind), 1))[kind]


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

    @property
    def num_young(self) -> int:
        """The number of starts that are young; they come first."""
        return num_young(self.score.shape[1])

    def chance_of_old(self, score: Floats) -> Floats:
        """Return a bound of the chance that an old start scores so much; by group."""
        return self._chance(score, slice(self.num_young, None), 1 - CHANCE_OF_YOUNG)

    def chance_of_young(self, score: Floats) -> Floats:
        """Return the same of young starts."""
        return self._chance(score, slice(self.num_young), CHANCE_OF_YOUNG)

    def _chance(self, score: Floats, starts: slice, part: float) -> Floats:
        """Return the chance in some *starts*, over the *part* of all chance that they have."""
        by_chance = chance(score, self.share[:, starts], self.enough[:, starts])
        return np.minimum(by_chance / part, 1.0)


@dataclass(frozen=True, slots=True)
class Peaks:
    """The largest score of each group, over the starts with enough values."""

    last: Ints  #: days since the start, at least 1; 0 where no start has enough values
    score: Floats
    p: Floats  #: one-sided; 1 without a start


def num_young(starts: int) -> int:
    """Return how many of the starts of as many recent days are young."""
    return int(_YOUNG * starts)


def start_scores(panel: Panel, most: int, fewest: Fewest) -> Starts:
    """Compare the last 1 to *most* days of each group with its days before."""
    precision, weighted = panel.precision, panel.precision * panel.level
    after, before = tails(precision, most), heads(precision, most)
    change = _over(tails(weighted, most), after) - _over(heads(weighted, most), before)
    late = np.arange(panel.level.shape[1]) >= panel.level.shape[1] - np.arange(1, most + 1)[:, None]
    late = late[: after.shape[1]]
    error = panel.error(late, ~late)
    rows, earlier = tails(panel.effective, most), heads(panel.effective, most)
    third = panel.third_of_days(late) + panel.third[:, None] * (
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
    score = np.where(starts.enough, sign * starts.score, -np.inf)
    place = (score - _YOUNG_PENALTY * (starts.days < fewest_days)).argmax(axis=1)
    best, some = score[np.arange(len(score)), place], starts.enough.any(axis=1)
    of_young = score[:, : starts.num_young].max(axis=1, initial=-np.inf)
    of_old = score[:, starts.num_young :].max(axis=1)
    p = np.minimum(starts.chance_of_young(of_young), starts.chance_of_old(of_old))
    return Peaks(np.where(some, place + 1, 0), np.where(some, best, 0.0), np.where(some, p, 1.0))


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
