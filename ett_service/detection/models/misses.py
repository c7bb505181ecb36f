"""Misses of a cache: their share among the starts that asked it, and what they cost.

A start counts 1 if it missed and 0 if it hit, beside the share that is usual for its cohort, its
stratum, and both, each shrunk to the coarser one. The ratio of a change is that of the mean time of
the phase, as far as it follows from the misses: a start that misses takes as long as such starts
of the cohort do.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ett_service.core.intervals import HOUR_US
from ett_service.core.regressions.finding import Side, Subject
from ett_service.detection.models.durations import cells_of, cost_us_per_week, counted_rows
from ett_service.detection.models.residuals import Residuals, share_residuals
from ett_service.detection.models.series_model import Change, LevelModel, interval
from ett_service.detection.observed.sample import Durations, Flags, Floats, Ints
from ett_service.detection.options import Memory, Options
from ett_service.detection.panel import ratio
from ett_service.detection.window import Groups, Window

_PRIOR_STARTS = 4.0  #: at so many starts of a kind their own mean time counts half
_LEAST_FACTOR = 0.05
_TINY = 1e-9


@dataclass(frozen=True)
class MissModel(LevelModel):
    """The series model of the misses of one phase's cache; levels are their share."""

    rows: Durations  #: of the window's days that count; ``us`` is 1 for a miss, else 0
    above: Floats  #: by row, the miss beside the share that is usual

    def change(self, group: int, start: int, stop: int) -> Change:
        inside = self.groups.members[group][self.rows.cohort] > 0
        early = inside & (self.rows.day < start)
        late = inside & (self.rows.day >= start) & (self.rows.day < stop)
        days = np.arange(self.days)
        precision = self.panel.precision[group] * (days < stop)
        low, high = interval(self.panel.level[group], precision, days >= start)
        before, rise = self._side(early, 0, start), self._rise(group, early, late)
        slowdown = float(self.slowdown[group])
        slower, least, most = (
            _ratio_of_means(slowdown, before.median, before.median + each)
            for each in (rise, rise + low, rise + high)
        )
        cost_us = cost_us_per_week(self.rows, late, stop - start, slower)
        held_us = self.window.held_us_per_week
        return Change(
            before=before,
            after=self._side(late, start, stop),
            ratio=slower,
            low=least,
            high=most,
            worse=slower,
            gpu_hours_per_week=None if np.isnan(self.rows.gpus).all() else cost_us / HOUR_US,
            part=cost_us / held_us if held_us else None,
            mean_ratio=slower,
        )

    def expected_score(self, factor: float) -> Floats:
        return np.asarray((factor - 1) / self._factor_of_a_miss() / self.error)

    def smallest_factor(self, score: Floats, options: Options) -> Floats:
        enough = self.starts(options).enough[:, -1]
        level = np.where(enough & np.isfinite(self.error), self.smallest_level(score), np.inf)
        reached = level <= 1 - self._usual
        factor = 1 + np.where(reached, level, 0.0) * self._factor_of_a_miss()
        return np.where(reached, np.maximum(factor, options.effect_floor), np.inf)

    @cached_property
    def _usual(self) -> Floats:
        """Share of misses in the baseline of each group."""
        early, members = self.rows.day < self.window.baseline, self.groups.members
        missed = members @ self._by_cohort(early & (self.rows.us > 0))
        return ratio(missed, members @ self._by_cohort(early))

    @cached_property
    def slowdown(self) -> Floats:
        """How many times as long as one that hits a start takes that misses, by group."""
        missed, spent_us, members = self.rows.us > 0, self.rows.spent_us, self.groups.members
        hits, misses = self._by_cohort(~missed), self._by_cohort(missed)
        hit_us = ratio(self._by_cohort(~missed, spent_us), hits)
        taken_us = self._by_cohort(missed, spent_us) * (hits > 0)
        as_hits_us = misses * hit_us
        usual = max(float(taken_us.sum()) / max(float(as_hits_us.sum()), _TINY), 1.0)
        prior_us = _PRIOR_STARTS * ratio(members @ hit_us, members @ (hits > 0)) + _TINY
        own = members @ taken_us + usual * prior_us
        return np.maximum(own / (members @ as_hits_us + prior_us), 1.0)

    def _by_cohort(self, rows: Flags, values: Ints | None = None) -> Floats:
        """Sum values of the rows, or count them."""
        weight = None if values is None else values[rows].astype(np.float64)
        size = self.groups.members.shape[1]
        return np.bincount(self.rows.cohort[rows], weight, size).astype(np.float64)

    def _factor_of_a_miss(self) -> Floats:
        """Return by which part of the mean time each group is slower for each miss a start."""
        more = self.slowdown - 1
        return np.asarray(np.maximum(more / (1 + self._usual * more), _LEAST_FACTOR))

    def _rise(self, group: int, early: Flags, late: Flags) -> float:
        rows = self.rows
        above = self.above - self.removed[rows.cohort, rows.day]
        above = above - self.panel.background[group, rows.day]
        finite = np.isfinite(above)
        return _mean(above[finite & late]) - _mean(above[finite & early])

    def _side(self, rows: Flags, start: int, end: int) -> Side:
        days = len(np.unique(self.rows.day[rows]))
        span = self.window.at_us(start), self.window.at_us(end)
        return Side(int(rows.sum()), days, _mean(self.rows.us[rows]), None, *span)


def miss_model(subject: Subject, window: Window, groups: Groups, memory: Memory) -> MissModel:
    """Make the model of one subject of the window's sample."""
    counted = window.counted(subject, groups, memory)
    rows = counted_rows(window.sample.durations[subject], window, counted)
    residual = share_residuals(rows, len(counted), rows.day < window.baseline, rows.us > 0)
    return _model_of(subject, window, groups, rows, residual)


def _model_of(
    subject: Subject, window: Window, groups: Groups, rows: Durations, residual: Residuals
) -> MissModel:
    cells = cells_of(rows, residual, window, len(residual.spread))
    removed = np.zeros(cells.level.shape)
    return MissModel(subject, groups, window, cells, removed, rows, residual.log)


def _ratio_of_means(slowdown: float, before: float, after: float) -> float:
    """Return the mean time after over that before, for both shares of misses."""
    after = min(max(after, 0.0), 1.0)
    return (1 + after * (slowdown - 1)) / (1 + before * (slowdown - 1))


def _mean(values: Floats | Ints) -> float:
    return float(np.mean(values)) if len(values) else 0.0
