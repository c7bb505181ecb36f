"""Step times: the first day of a job in its setting is a value, and counts in that setting alone.

The days of one job repeat its own level, so a few long jobs with other parameters would look like a
change that lasts. A job that becomes slower midway shows in its own speed.

A setting is the accelerators, the tokens a step, and what else tells strata apart. Twice the tokens
take twice the time, so nothing is borrowed from another setting, unlike in other durations: without
a baseline of its own a setting is left out. The medians of a finding are of its cohort's usual
level: values of other settings are moved there by the settings' distance in the baseline.
"""

from dataclasses import replace

import numpy as np

from ett_service.core.regressions.finding import Subject
from ett_service.detection.models.durations import (
    DurationModel,
    counted_rows,
    model_of,
)
from ett_service.detection.models.residuals import logarithms, residuals
from ett_service.detection.models.series_model import medians
from ett_service.detection.observed.sample import Durations, Flags, Floats, Ints
from ett_service.detection.options import Memory
from ett_service.detection.window import Groups, Window

_FEWEST_OF_SETTING = 3  #: values of a setting in the baseline


def step_model(subject: Subject, window: Window, groups: Groups, memory: Memory) -> DurationModel:
    """Make the model of the step times of the window's sample."""
    counted = window.counted(subject, groups, memory)
    rows = _first_days(counted_rows(window.sample.durations[subject], window, counted))
    rows = _comparable(rows, rows.day < window.baseline)
    early = rows.day < window.baseline
    residual = residuals(rows, len(counted), early, _of_setting)
    cohort = rows.cohort.astype(np.intp)
    usual = medians(logarithms(rows.us)[early], cohort[early], len(counted))
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
