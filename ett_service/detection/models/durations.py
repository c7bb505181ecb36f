"""Durations: each attempt, save or recovery is a value, and cohorts are compared by logarithms."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ett_service.core.intervals import HOUR_US
from ett_service.core.regressions.finding import Side, Subject
from ett_service.detection.models.level_model import LevelModel, doubt, shift
from ett_service.detection.models.residuals import Residuals, residuals, uncut
from ett_service.detection.models.series_model import SURE, Change
from ett_service.detection.options import Memory, Options
from ett_service.detection.panel import Cells, Groups, centred
from ett_service.detection.sample import Durations, Flags, Floats
from ett_service.detection.window import Window, accelerators

_WEEK = 7
_TINY = 1e-12
_MOST = 20.0  #: of a logarithm that is told


@dataclass(frozen=True)
class DurationModel(LevelModel):
    """Durations of one subject; see ``detection.watch.Watch``."""

    rows: Durations  #: of the window's days that count; days are the window's
    log: NDArray[np.float32]  #: residual of each row
    spread: Floats  #: by cohort, standard deviation of residuals

    def change(self, group: int, start: int, stop: int) -> Change:
        inside = self.groups.members[group][self.rows.cohort] > 0
        early = inside & (self.rows.day < start)
        late = inside & (self.rows.day >= start) & (self.rows.day < stop)
        log_ratio = self._shift(group, early, late)
        days = np.arange(self.window.days)
        seen = self.panel.precision[group] * (days < stop)
        low, high = doubt(self.panel.level[group], seen, days >= start)
        ratio = float(np.exp(log_ratio))
        cost_us = self._cost_us_per_week(late, stop - start, ratio)
        held_us = self.window.held_us_per_week
        return Change(
            before=self._side(early, 0, start),
            after=self._side(late, start, stop),
            ratio=ratio,
            low=float(np.exp(max(log_ratio + low, -_MOST))),
            high=float(np.exp(min(log_ratio + high, _MOST))),
            worse=ratio,
            gpu_hours_per_week=None if np.isnan(self.rows.gpus).all() else cost_us / HOUR_US,
            part=cost_us / held_us if held_us else None,
        )

    def promise(self, factor: float) -> Floats:
        return np.asarray(np.log(factor) / self.error)

    def smallest(self, score: Floats, options: Options) -> Floats:
        members, weight = self.groups.members, self.cells.weight.sum(axis=1)
        total = members @ (weight * np.nan_to_num(self.spread))
        spread = np.maximum(total / np.maximum(members @ weight, _TINY), _TINY)
        enough = self.starts(options).enough[:, -1] & np.isfinite(self.error)
        level = np.where(enough, self.smallest_level(score), 0.0)
        shift = uncut(level / spread) * spread
        floor = np.log(options.effect_floor) + SURE * self.error
        return np.where(
            enough & (shift < _MOST), np.exp(np.minimum(np.maximum(shift, floor), _MOST)), np.inf
        )

    def _shift(self, group: int, early: Flags, late: Flags) -> float:
        """Return the shift of logarithms, without what is weather and what was taken off."""
        rows = self.rows
        rest = self.log - self.moved[rows.cohort, rows.day]
        rest = rest - self.panel.weather[group, rows.day]
        known = np.isfinite(rest)
        return shift(rest[known & early], rest[known & late])

    def _side(self, rows: Flags, start: int, end: int) -> Side:
        us = self.rows.us[rows]
        median, p90 = np.quantile(us, (0.5, 0.9)) if len(us) else (0.0, 0.0)
        days = len(np.unique(self.rows.day[rows]))
        between_us = self.window.at_us(start), self.window.at_us(end)
        return Side(len(us), days, float(median), float(p90), *between_us)

    def _cost_us_per_week(self, rows: Flags, days: int, ratio: float) -> float:
        """Return the accelerators' time that these rows took more than at the ratio of 1."""
        held = float((self.rows.us * accelerators(self.rows))[rows].sum())
        return held * (1 - 1 / ratio) * _WEEK / days


def duration_model(
    subject: Subject, window: Window, groups: Groups, memory: Memory
) -> DurationModel:
    """Make the watch of one subject of the window's sample."""
    counted = window.counted(subject, groups, memory)
    rows = _within(window.sample.durations[subject], window, counted)
    cohorts, days = counted.shape
    found = residuals(rows, cohorts, rows.day < window.baseline)
    cells = _cells(rows, found, window, cohorts)
    moved = np.zeros((cohorts, days))
    none = np.zeros(0, dtype=np.int32)
    rows = replace(rows, stratum=none, unit=none)  # many subjects are held at once
    log, spread = found.log.astype(np.float32), found.spread
    return DurationModel(subject, groups, window, cells, moved, rows, log, spread)


def _within(rows: Durations, window: Window, counted: Floats) -> Durations:
    """Return the rows of days that count, their days as places in the window."""
    used = np.flatnonzero((rows.day >= 0) & (rows.day < window.sample.days))
    used = used[window.place[rows.day[used]] >= 0]
    used = used[counted[rows.cohort[used], window.place[rows.day[used]]] > 0]
    return Durations(
        rows.us[used],
        window.place[rows.day[used]].astype(np.int32),
        rows.cohort[used],
        rows.stratum[used],
        rows.unit[used],
        rows.gpus[used],
    )


def _cells(rows: Durations, found: Residuals, window: Window, cohorts: int) -> Cells:
    """Sum the rows by cohort and day."""
    shape = (cohorts, window.days)
    known = np.flatnonzero(np.isfinite(found.cut))
    place = rows.cohort[known].astype(np.intp) * shape[1] + rows.day[known]
    size = shape[0] * shape[1]
    weight = np.bincount(place, found.weight[known], size).reshape(shape).astype(np.float64)
    total = np.bincount(place, found.weight[known] * found.cut[known], size).reshape(shape)
    return centred(
        Cells(
            level=np.divide(total, weight, out=np.zeros(shape), where=weight > 0),
            weight=weight,
            effective=weight,
            count=np.bincount(place, minlength=size).reshape(shape),
            variance=np.nan_to_num(found.of_cut) ** 2,
            baseline=window.baseline,
            weekday=window.of_sample % _WEEK,
        )
    )
