"""Levels of durations: those of cohorts are compared by logarithms.

``detection.models.residuals`` computes what a value means for its cohort.

Of step times, the first day of a job in its setting is a value. The days of one job repeat its own
level, so a few long jobs with other parameters would look like a change that lasts. A job that
becomes slower midway shows in its own speed.

A setting is the accelerators, the tokens a step, and what else tells strata apart. Twice the tokens
take twice the time, so nothing is borrowed from another setting, unlike in other durations: without
a baseline of its own a setting is left out. The medians of a finding are of its cohort's usual
level: values of other settings are moved there by the settings' distance in the baseline.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ett_service.core.intervals import HOUR_US
from ett_service.core.regressions.finding import Metric, Side, Subject
from ett_service.detection.cells import Cells, centred
from ett_service.detection.day_memory import UsualMemory
from ett_service.detection.models.form import Form
from ett_service.detection.models.residuals import (
    COHORT_PLACES,
    Residuals,
    residuals,
    share_residuals,
)
from ett_service.detection.models.series_model import (
    Z_80,
    Z_95,
    Change,
    LevelModel,
    LevelSort,
    interval,
    log_with_zeros,
    medians,
    shift,
)
from ett_service.detection.sample import Durations, Flags, Floats, Ints, Memory, Options
from ett_service.detection.window import WEEK_DAYS, Groups, Window, accelerators

_TINY = 1e-12
_MAX_LOG = 20.0  #: of a logarithm that is reported

_FEWEST_OF_SETTING = 3  #: values of a setting in the baseline


@dataclass(frozen=True)
class DurationModel(LevelModel):
    """The series model of one subject's durations."""

    rows: Durations  #: of the window's days that count; days are the window's
    log: NDArray[np.float32]  #: residual of each row
    spread: Floats  #: by cohort, standard deviation of residuals
    form: Form
    is_of_means: bool = False  #: whether a change is that of the mean: of how many rows are long
    modes: "DurationModel | None" = None  #: the same rows by how many of them are slow, if known

    @property
    def sort(self) -> LevelSort:
        is_of_sums = self.subject.metric is Metric.TIME_TO_START_SECONDS
        return LevelSort(type(self), self.is_of_means, is_of_sums)

    def all_levels(self) -> Iterator[LevelModel]:
        yield self
        if self.modes is not None:
            yield self.modes

    def with_usual(self, usual: Mapping[LevelSort, UsualMemory | None]) -> Self:
        modes = self.modes and self.modes.with_usual(usual)
        return replace(super().with_usual(usual), modes=modes)

    def change(self, group: int, start: int, stop: int) -> Change:
        early, late = self._sides(group, start, stop)
        log_ratio, low, high = self._shift_of_means(group, early, late)
        mean_ratio = float(np.exp(log_ratio))
        if not self.is_of_means:
            log_ratio = self._shift(group, early, late)
            days = np.arange(self.window.days)
            precision = self.panel.precision[group] * (days < stop)
            low, high = interval(self.panel.level[group], precision, days >= start)
        ratio = float(np.exp(log_ratio))
        cost_us = cost_us_per_week(self.rows, late, stop - start, ratio)
        held_us = self.window.held_us_per_week
        return Change(
            before=self._side(early, 0, start),
            after=self._side(late, start, stop),
            ratio=ratio,
            low=float(np.exp(max(log_ratio + low, -_MAX_LOG))),
            high=float(np.exp(min(log_ratio + high, _MAX_LOG))),
            worse=ratio,
            gpu_hours_per_week=None if np.isnan(self.rows.gpus).all() else cost_us / HOUR_US,
            part=cost_us / held_us if held_us else None,
            mean_ratio=mean_ratio,
        )

    def expected_score(self, factor: float) -> Floats:
        return np.asarray(np.log(factor) / self.error)

    def smallest_factor(self, score: Floats, options: Options) -> Floats:
        members, weight = self.groups.members, self.cells.weight.sum(axis=1)
        total = members @ (weight * np.nan_to_num(self.spread))
        spread = np.maximum(total / np.maximum(members @ weight, _TINY), _TINY)
        enough = self.starts(options).enough[:, -1] & np.isfinite(self.error)
        level = np.where(enough, self.smallest_level(score), 0.0)
        shift = self.form.shift_of(level / spread) * spread
        floor = np.log(options.effect_floor) + Z_80 * self.error
        log_factor = np.minimum(np.maximum(shift, floor), _MAX_LOG)
        return np.where(enough & (shift < _MAX_LOG), np.exp(log_factor), np.inf)

    def size(self, group: int, start: int, stop: int) -> float:
        """Return the shift of logarithms: levels rise no further than scores are cut."""
        if self.is_of_means:
            return super().size(group, start, stop)
        return self._shift(group, *self._sides(group, start, stop))

    def _shift(self, group: int, early: Flags, late: Flags) -> float:
        """Return the shift of logarithms, without the background and what was taken off.

        Where there are modes it is the likeliest shift of both: the middle of few values lies now
        in one mode and now in the other.
        """
        residual = self._residual(group)
        finite = np.isfinite(residual)
        if not self.form.has_modes:
            return shift(residual[finite & early], residual[finite & late])
        common = float(np.nanmax(self.spread))
        before, after = (residual[finite & side] / common for side in (early, late))
        return self.form.shift_between(before, after, COHORT_PLACES / common) * common

    def _shift_of_means(self, group: int, early: Flags, late: Flags) -> tuple[float, float, float]:
        """Return the logarithm of the ratio of means, and its lower and upper error."""
        residual = self._residual(group)
        finite = np.isfinite(residual)
        sides = [np.exp(np.minimum(residual[finite & side], _MAX_LOG)) for side in (late, early)]
        if not all(len(side) for side in sides):
            return 0.0, 0.0, 0.0
        after, before = (float(np.mean(side)) for side in sides)
        parts = (np.var(side) / (len(side) * np.mean(side) ** 2) for side in sides)
        error = Z_95 * float(np.sqrt(sum(parts)))
        return float(np.log(after / before)), -error, error

    def _sides(self, group: int, start: int, stop: int) -> tuple[Flags, Flags]:
        """Return the rows of a group before *start*, and from there to *stop*."""
        inside = self.groups.members[group][self.rows.cohort] > 0
        early = inside & (self.rows.day < start)
        return early, inside & (self.rows.day >= start) & (self.rows.day < stop)

    def _residual(self, group: int) -> Floats:
        rows = self.rows
        residual = self.log - self.removed[rows.cohort, rows.day]
        return np.asarray(residual - self.panel.background[group, rows.day])

    def _side(self, rows: Flags, start: int, end: int) -> Side:
        us = self.rows.us[rows]
        median, p90 = np.quantile(us, (0.5, 0.9)) if len(us) else (0.0, 0.0)
        days = len(np.unique(self.rows.day[rows]))
        span = self.window.at_us(start), self.window.at_us(end)
        return Side(len(us), days, float(median), float(p90), *span)


def cost_us_per_week(rows: Durations, chosen: Flags, days: int, ratio: float) -> float:
    """Return the accelerators' time that *chosen* rows took more than at the ratio of 1."""
    held = float((rows.spent_us * accelerators(rows))[chosen].sum())
    return held * (1 - 1 / ratio) * WEEK_DAYS / days


def duration_model(
    subject: Subject, window: Window, groups: Groups, memory: Memory
) -> DurationModel:
    """Make the model of one subject of the window's sample."""
    counted = window.counted(subject, groups, memory)
    rows = counted_rows(window.sample.durations[subject], window, counted)
    early = rows.day < window.baseline
    residual = residuals(rows, len(counted), early)
    model = model_of(subject, window, groups, rows, residual)
    of_modes = mode_residuals(rows, len(counted), early, residual)
    if of_modes is None:
        return model
    modes = model_of(subject, window, groups, rows, of_modes)
    return replace(model, modes=replace(modes, is_of_means=True))


def mode_residuals(
    rows: Durations, cohorts: int, baseline: Flags, residual: Residuals
) -> Residuals | None:
    """Compare how many rows are of the slower mode; None where durations have one mode.

    Levels are in the logarithm: a row of the slower mode counts as far as the modes are apart.
    """
    is_finite = np.isfinite(residual.log)
    common = float(np.nanmax(residual.spread)) if is_finite.any() else 1.0
    slow = residual.log > residual.form.boundary * common
    if not residual.form.has_modes or not (slow & baseline).any():
        return None
    apart = float(
        np.median(residual.log[slow & baseline]) - np.median(residual.log[~slow & is_finite])
    )
    shares = share_residuals(rows, cohorts, baseline, slow)
    return replace(
        residual,
        cut=shares.cut * apart,
        weight=shares.weight,
        cut_spread=shares.cut_spread * apart,
        fitted=shares.fitted,
        skewness=shares.skewness,
        curvature=shares.curvature,
    )


def model_of(
    subject: Subject, window: Window, groups: Groups, rows: Durations, residual: Residuals
) -> DurationModel:
    """Make the model of rows of the window, with their residuals."""
    shape = (len(residual.spread), window.days)
    cells = cells_of(rows, residual, window, shape[0])
    none = np.zeros(0, dtype=np.int32)
    rows = replace(rows, stratum=none, unit=none)  # many subjects are held at once
    log, spread = residual.log.astype(np.float32), residual.spread
    return DurationModel(
        subject, groups, window, cells, np.zeros(shape), rows, log, spread, residual.form
    )


def counted_rows(rows: Durations, window: Window, counted: Floats) -> Durations:
    """Return the rows of days that count, their days as places in the window."""
    used = window.rows_in(rows.day)
    used = used[counted[rows.cohort[used], window.place[rows.day[used]]] > 0]
    chosen = rows.chosen(used)
    return replace(chosen, day=window.place[chosen.day].astype(np.int32))


def cells_of(rows: Durations, residual: Residuals, window: Window, cohorts: int) -> Cells:
    """Sum the rows by cohort and day."""
    shape = (cohorts, window.days)
    finite = np.flatnonzero(np.isfinite(residual.cut))
    place = rows.cohort[finite].astype(np.intp) * shape[1] + rows.day[finite]
    size = shape[0] * shape[1]
    weight = np.bincount(place, residual.weight[finite], size).reshape(shape).astype(np.float64)
    weighted = residual.weight[finite] * residual.cut[finite]
    total = np.bincount(place, weighted, size).reshape(shape)
    return centred(
        Cells(
            level=np.divide(total, weight, out=np.zeros(shape), where=weight > 0),
            weight=weight,
            effective=weight,
            count=np.bincount(place, minlength=size).reshape(shape),
            variance=np.nan_to_num(residual.cut_spread) ** 2,
            fitted=residual.fitted,
            baseline=window.baseline,
            weekday=window.weekday,
            skewness=residual.skewness,
            curvature=residual.curvature,
        )
    )


def step_model(subject: Subject, window: Window, groups: Groups, memory: Memory) -> DurationModel:
    """Make the model of the step times of the window's sample."""
    counted = window.counted(subject, groups, memory)
    rows = _first_days(counted_rows(window.sample.durations[subject], window, counted))
    rows = _comparable(rows, rows.day < window.baseline)
    early = rows.day < window.baseline
    residual = residuals(rows, len(counted), early, _of_setting)
    cohort = rows.cohort.astype(np.intp)
    usual = medians(log_with_zeros(rows.us)[early], cohort[early], len(counted))
    rows = replace(rows, us=np.rint(np.exp(residual.log + usual[cohort])).astype(np.int64))
    return model_of(subject, window, groups, rows, residual)


def _first_days(rows: Durations) -> Durations:
    """Return a row for each job and setting: its first, with the time that all of them took."""
    order = np.lexsort((rows.day, rows.stratum, rows.unit))
    rows = rows.chosen(order)
    begins = np.flatnonzero(
        (np.diff(rows.unit, prepend=-1) != 0) | (np.diff(rows.stratum, prepend=-1) != 0)
    )
    if not len(begins):
        return rows
    spent_us = np.add.reduceat(rows.spent_us, begins)
    return replace(rows.chosen(begins), spent_us=spent_us)


def _comparable(rows: Durations, baseline: Flags) -> Durations:
    """Return the rows whose setting has a baseline in their cohort; strata are places of these."""
    pairs = rows.cohort.astype(np.int64) * (int(rows.stratum.max(initial=0)) + 1) + rows.stratum
    _, setting = np.unique(pairs, return_inverse=True)
    values = np.bincount(setting[baseline], minlength=int(setting.max(initial=-1)) + 1)
    rows = replace(rows, stratum=setting.astype(np.int32))
    return rows.chosen(np.flatnonzero(values[setting] >= _FEWEST_OF_SETTING))


def _of_setting(
    log: Floats, rows: Durations, cohorts: int, baseline: Flags, _jobs: Floats
) -> tuple[Floats, Floats]:
    """Expect the median of the baseline of each row's setting."""
    setting, cohort = rows.stratum.astype(np.intp), _cohort_of_setting(rows)
    expected = medians(log[baseline], setting[baseline], len(cohort))
    return expected[setting], np.bincount(cohort[cohort >= 0], minlength=cohorts).astype(np.float64)


def _cohort_of_setting(rows: Durations) -> Ints:
    """Return the cohort of each setting; -1 for one without rows."""
    cohort = np.full(int(rows.stratum.max(initial=-1)) + 1, -1, dtype=np.int64)
    cohort[rows.stratum] = rows.cohort
    return cohort
