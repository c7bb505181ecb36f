"""What is taken off the levels of a group on a day: what others, and the day of the week, predict.

All three are best linear predictions (Robinson 1991): they shrink by how little is known. What is
fitted to the baseline takes a part of its noise, too, and adds as much to later days; the weekdays
say how much they took.
"""

from typing import NamedTuple

import numpy as np

from ett_service.detection.cells import (
    TINY,
    Cells,
    Pooled,
    baseline_share,
    day_variance,
    ratio,
    shared_day_variance,
)
from ett_service.detection.sample import Flags, Floats
from ett_service.detection.window import WEEK_DAYS, Groups

_PRIOR_OF_WEEKDAYS = 6.0  #: the pooled variance of weekdays counts as this many series
_LEAST_OTHERS = 0.1  #: share of the rows that other cohorts need to predict a group
_ROUNDS = 2  #: of weekdays and the variance between days, each beside the other


class Background(NamedTuple):
    """What is taken off, and what that takes of the variance between days."""

    level: Floats  #: groups by days
    widening: Floats  #: by group: the variance between future days over that of the baseline's


def background(own: Pooled, cells: Cells, groups: Groups) -> Background:
    """Predict the levels of all *groups*, of which *own* are the sums."""
    everywhere = Pooled.of(np.ones((1, len(cells.level))), cells)
    of_others = _others(own, everywhere, cells.baseline)
    of_weekday = _weekdays(own.level - of_others, own, cells, np.array(groups.single))
    of_neighbours = _neighbours(own.level - of_weekday.level, of_others, own, cells, groups)
    return Background(of_others + of_weekday.level + of_neighbours, of_weekday.widening)


def _others(own: Pooled, everywhere: Pooled, baseline: int) -> Floats:
    """Predict each group's level from that of all cohorts outside it."""
    others = everywhere.without(own)
    early = slice(0, baseline)
    shared = shared_day_variance(everywhere.level[:, early], everywhere.fitted_variance[:, early])
    enough = others.weight > everywhere.weight * _LEAST_OTHERS
    variance = np.where(enough, shared + others.variance, 1.0)
    shrinkage = np.divide(shared, variance, out=np.zeros_like(variance), where=variance > 0)
    return np.where(enough, others.level * shrinkage, 0.0)


def _neighbours(
    level: Floats, of_others: Floats, own: Pooled, cells: Cells, groups: Groups
) -> Floats:
    """Predict the level of each cohort from those of others with the same value of a dimension.

    Cohorts of one cluster share its storage and its network. How much they share is the mean
    product of their levels of a day, over all pairs. Levels are beside what is predicted
    *of_others*: those of others hold the cohort itself.
    """
    predicted = np.zeros_like(level)
    single, early = np.flatnonzero(groups.single), slice(0, cells.baseline)
    has_rows = own.weight[single] > 0
    share = np.maximum(groups.members[single] @ baseline_share(cells), TINY)[:, None]
    noise = np.where(has_rows, own.variance[single] / share, np.inf)
    for value in groups.by_dimension():
        of_single = value @ groups.members[single].T
        same = of_single.T @ of_single
        np.fill_diagonal(same, 0.0)
        left = np.where(has_rows, (level - predicted)[single], 0.0)
        rest = np.where(has_rows, left - of_others[single], 0.0)
        of_day = shared_day_variance(rest[:, early], own.fitted_variance[single][:, early])
        sure = 1 / (noise[:, early] + of_day + TINY)
        products = float((sure * rest[:, early] * (same @ (sure * rest[:, early]))).sum())
        shared = products / max(float((sure * (same @ sure)).sum()), TINY)
        if shared > 0:
            precision = 1 / (noise + max(of_day - shared, 0.0) + TINY)
            off = same @ (precision * left) - (same @ precision) * of_others[single]
            predicted[single] += off / (same @ precision + 1 / shared)
    return predicted


def _weekdays(level: Floats, own: Pooled, cells: Cells, single: Flags) -> Background:
    """Return the effect of the day of the week on a group, as far as its baseline shows it.

    The variance between weekdays is mostly that of all groups: seven means of few values differ
    by chance. Days weigh by their precision, as weekends may be quiet.
    """
    effect, widening = np.zeros_like(level), np.ones(len(level))
    if cells.baseline < 2 * WEEK_DAYS:
        return Background(effect, widening)
    of_weekday = cells.weekday[:, None] == np.arange(WEEK_DAYS)
    of_weekday[cells.baseline :] = False
    for _ in range(_ROUNDS):
        days = widening * day_variance(level - effect, own, cells.baseline, single)
        precision = own.fitted_precision(days)
        known = precision @ of_weekday
        whole = known.sum(axis=1, keepdims=True)
        mean = ratio((level * precision) @ of_weekday, known)
        mean = np.where(known > 0, mean - ratio((mean * known).sum(axis=1)[:, None], whole), 0.0)
        between = _between(mean, known)[:, None]
        shrinkage = between * known / (between * known + 1)
        effect = (mean * shrinkage)[:, cells.weekday]
        widening = _widening(shrinkage.sum(axis=1), cells.baseline)
    return Background(effect, widening)


def _between(mean: Floats, known: Floats) -> Floats:
    """Return the variance between weekdays of each group, mixed with that of all.

    *known* is the precision of each mean, which is beside that of all weekdays.
    """
    whole = known.sum(axis=1)
    by_chance = known - ratio(known**2, whole[:, None])
    above = ((known * mean) ** 2 - by_chance).sum(axis=1)
    sure = (known**2).sum(axis=1)
    pooled = float(above.sum()) / max(float(sure.sum()), TINY)
    mixed = (ratio(above, sure) + _PRIOR_OF_WEEKDAYS * pooled) / (1 + _PRIOR_OF_WEEKDAYS)
    return np.maximum(mixed, 0.0)


def _widening(fitted: Floats, days: int) -> Floats:
    """Return how much more future days spread than those that *fitted* values were fitted to.

    It is Akaike's final prediction error (1969).
    """
    fitted = np.minimum(fitted, WEEK_DAYS - 1)
    return np.asarray((days + fitted) / (days - fitted))
