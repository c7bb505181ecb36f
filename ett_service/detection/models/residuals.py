"""Residuals: the logarithm of each duration beside what the baseline expects of it.

The expectation is a median: of the cohort, then of the stratum over all cohorts, then of the
stratum in the cohort, as in a median polish (Tukey 1977). Strata count as far as they differ by
more than chance, and so do the spreads of cohorts: each value that is fitted makes the rest less
sure. What a residual says is its score by the form that residuals have, about the median of
its day: neither three in a hundred starts that take ten times as long nor the skew of durations say
much. Where residuals have two modes, medians would fall now into the one and now into the other;
there the expectation is the most likely place of each cohort's form.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ett_service.detection.cells import TINY, part_of_own, ratio
from ett_service.detection.models.form import Form, scale
from ett_service.detection.models.series_model import log_with_zeros, medians
from ett_service.detection.ranks import MAD_TO_SIGMA
from ett_service.detection.sample import Durations, Flags, Floats

RowNumbers = NDArray[np.intp]

_VARIANCE_OF_MEDIAN = np.pi / 2
"""Of normal values, over that of their mean (Hampel 1974)."""
_PRIOR_OF_DAY = 30.0  #: rows at which the median of a day counts half
_VARIANCE_OF_LOG = 5.44
"""Of the logarithm of a squared MAD of normal values, times their number (Hampel 1974)."""
_LEAST_SPREAD = 0.02  #: in the logarithm; less is the resolution of clocks
COHORT_PLACES, _STRATUM_PLACES = 1.0, 0.3
"""Largest usual standard deviations of places in the logarithm, where there are modes."""
_LAST_PART = 1 / 6  #: of the baseline, in which a change may have begun: a week of six
_LEAST_SHARE = 0.02  #: that is expected of a cache's misses or hits


@dataclass(frozen=True, slots=True)
class Residuals:
    """One row a duration; logarithms."""

    log: Floats  #: the residual
    cut: Floats  #: its score, which a shift moves as far on average
    weight: Floats  #: less than 1 where a job has many correlated rows
    spread: Floats  #: by cohort, standard deviation; NaN for one without baseline
    cut_spread: Floats  #: by cohort, standard deviation of future cut residuals
    fitted: Floats  #: by cohort, the part of their variance that rows of the baseline show
    skewness: float  #: of the cut residuals
    form: Form
    curvature: float = 0.0  #: as of ``detection.cells.Cells``


Expectation: TypeAlias = Callable[[Floats, Durations, int, Flags, Floats], tuple[Floats, Floats]]
"""Of logarithms, their rows, the number of cohorts, which rows are baseline, and the part of a job
that each is: the expectation of each row, and how many values were fitted for each cohort."""


def residuals(
    rows: Durations, cohorts: int, baseline: Flags, expectation: Expectation | None = None
) -> Residuals:
    """Compare *rows* with those of the *baseline*; cohorts without any have NaN.

    Without an *expectation* it is the one that the module describes.
    """
    logs = log_with_zeros(rows.us)
    cohort = rows.cohort.astype(np.intp)
    unit, size = _jobs(rows, baseline)
    jobs = baseline / size[unit]
    expected, fitted = (expectation or _expected)(logs, rows, cohorts, baseline, jobs)
    log = logs - expected
    day = rows.day.astype(np.intp)
    of_day = _day_median(log, day)
    left = _left(cohort, jobs, fitted)
    spread = _spreads((log - of_day)[baseline], cohort[baseline], left, jobs[baseline])
    form = Form.of(_finite(log - of_day, spread, cohort, _settled(baseline, day)))
    if form.has_modes and expectation is None:
        log, common, form, fitted = _placed(logs, rows, cohorts, baseline, jobs)
        spread = np.where(np.isfinite(spread), common, np.nan)
        left = _left(cohort, jobs, fitted)
        of_day = np.zeros(len(log))
    cut = form.score((log - of_day) / spread[cohort]) * spread[cohort]
    inflation = _inflation(left)
    weight = _weights(cut * inflation[cohort], baseline, unit, size, cut)
    cut_spread = _cut_spread(cut, cohort, spread * np.sqrt(left), baseline)
    skewness = _skewness((cut / cut_spread[cohort])[baseline])
    typical = spread[np.isfinite(spread)]
    curvature = form.curvature / float(np.median(typical)) if len(typical) else 0.0
    rise = form.rise_after_fit * spread * (inflation**2 - 1) / 2
    cut = cut + of_day - np.where(baseline, 0.0, rise[cohort])
    cut_spread = cut_spread * inflation
    return Residuals(log, cut, weight, spread, cut_spread, inflation**-2, skewness, form, curvature)


def share_residuals(rows: Durations, cohorts: int, baseline: Flags, counted: Flags) -> Residuals:
    """Compare how many rows are *counted* with those of the *baseline*; levels are shares."""
    cohort = rows.cohort.astype(np.intp)
    unit, size = _jobs(rows, baseline)
    jobs = baseline / size[unit]
    expected, fitted = _expected_share(counted, rows, cohorts, jobs)
    own = np.where(np.bincount(cohort, jobs, cohorts)[cohort] > 0, counted - expected, np.nan)
    variance = np.bincount(cohort, jobs * expected * (1 - expected), cohorts)
    weighed = np.bincount(cohort, jobs, cohorts)
    spread = np.sqrt(np.divide(variance, weighed, np.full(cohorts, np.nan), where=weighed > 0))
    inflation = _inflation(_left(cohort, jobs, fitted))
    weight = _weights(own * inflation[cohort], baseline, unit, size, own)
    form = Form.of(_finite(own, spread, cohort, baseline))
    skewness = _skewness((own / spread[cohort])[baseline])
    return Residuals(own, own, weight, spread, spread * inflation, inflation**-2, skewness, form)


def _expected_share(
    counted: Flags, rows: Durations, cohorts: int, jobs: Floats
) -> tuple[Floats, Floats]:
    """Return the share that is expected of each row, and how many were fitted for each cohort."""
    cohort, stratum = rows.cohort.astype(np.intp), rows.stratum.astype(np.intp)
    strata = int(stratum.max(initial=0)) + 1
    share = float((counted * jobs).sum()) / max(float(jobs.sum()), 1.0)
    own = counted - share
    both = (cohort * strata + stratum, cohorts * strata)
    left, part = own, np.zeros(0)
    for group, size in ((cohort, cohorts), (stratum, strata), both):
        count, total = (np.bincount(group, of, size) for of in (jobs, jobs * left))
        mean = ratio(total.astype(np.float64), count.astype(np.float64))
        part = part_of_own(mean, count / max(share * (1 - share), TINY), 0.0)
        left = left - (part * mean)[group]
    expected = np.clip(counted - left, _LEAST_SHARE, 1 - _LEAST_SHARE)
    return expected, 1 + part.reshape(cohorts, strata).sum(axis=1)


def _skewness(standard: Floats) -> float:
    finite = standard[np.isfinite(standard)]
    return float(np.mean((finite - finite.mean()) ** 3)) if len(finite) else 0.0


def _finite(own: Floats, spread: Floats, cohort: RowNumbers, rows: Flags) -> Floats:
    """Return residuals of *rows* over their spread, as far as both are known."""
    standard = own[rows] / spread[cohort[rows]]
    return standard[np.isfinite(standard)]


def _placed(
    log: Floats, rows: Durations, cohorts: int, baseline: Flags, jobs: Floats
) -> tuple[Floats, float, Form, Floats]:
    """Move cohorts, strata, and strata in cohorts to where their form is likeliest.

    Return their residuals there, with their spread, their form, and how many values were fitted for
    each cohort.
    """
    log = log - _of_cohort_and_stratum(log, rows, cohorts, baseline, jobs)
    cohort, stratum = rows.cohort.astype(np.intp), rows.stratum.astype(np.intp)
    strata = int(stratum.max(initial=0)) + 1
    used = baseline & np.isfinite(log)
    levels = ((cohort, cohorts, COHORT_PLACES), (stratum, strata, _STRATUM_PLACES))
    both = (cohort * strata + stratum, cohorts * strata, _STRATUM_PLACES)
    common, form, part = *_form(log[used]), np.ones(0)
    for group, size, deviation in (*levels, *levels, both):
        tightness = np.full(size, (common / deviation) ** 2)
        off = form.located(log[used] / common, group[used], size, tightness)
        count = np.bincount(group[used], jobs[used], size)
        part = part_of_own(off, np.asarray(count * form.information, dtype=np.float64), 0.0)
        log = log - (part * off * common)[group]
        common, form = _form(log[used])
    fitted = 1 + part.reshape(cohorts, strata).sum(axis=1)
    return log, common, form, fitted


def _settled(baseline: Flags, day: RowNumbers) -> Flags:
    """Return the rows of the baseline without its last days: what began there is no second mode."""
    days = int(day[baseline].max(initial=-1)) + 1
    return np.asarray(baseline & (day < days - int(_LAST_PART * days)))


def _form(log: Floats) -> tuple[float, Form]:
    """Return the spread of values that have modes, and their form."""
    common = max(scale(log), _LEAST_SPREAD)
    return common, Form.of(log / common)


def _day_median(log: Floats, day: RowNumbers) -> Floats:
    """Return the median of each row's day, over all cohorts, shrunk to 0 by how few rows it has.

    What is usual for a day is no tail of it.
    """
    finite = ~np.isnan(log)
    days = int(day.max(initial=-1)) + 1
    count = np.bincount(day[finite], minlength=days)
    median = (
        np.nan_to_num(medians(log[finite], day[finite], days)) * count / (count + _PRIOR_OF_DAY)
    )
    return np.asarray(median[day])


def _jobs(rows: Durations, baseline: Flags) -> tuple[RowNumbers, Floats]:
    """Return each row's job, in or after the baseline, and how many rows each of these has."""
    _, unit = np.unique(rows.unit.astype(np.int64) * 2 + baseline, return_inverse=True)
    return unit, np.bincount(unit).astype(np.float64)


def _expected(
    log: Floats, rows: Durations, cohorts: int, baseline: Flags, jobs: Floats
) -> tuple[Floats, Floats]:
    """Return the expectation of each row, and how many values were fitted for each cohort."""
    expected = _of_cohort_and_stratum(log, rows, cohorts, baseline, jobs)
    strata = int(rows.stratum.max(initial=0)) + 1
    if strata == 1:
        return expected, np.ones(cohorts)
    both = rows.cohort.astype(np.intp) * strata + rows.stratum
    more, part = _median_beyond(log - expected, both, cohorts * strata, baseline, jobs)
    return expected + more, 1 + part.reshape(cohorts, strata).sum(axis=1)


def _of_cohort_and_stratum(
    log: Floats, rows: Durations, cohorts: int, baseline: Flags, jobs: Floats
) -> Floats:
    """Return what is expected of each row by its cohort, and by its stratum in all of them."""
    cohort, stratum = rows.cohort.astype(np.intp), rows.stratum.astype(np.intp)
    expected = medians(log[baseline], cohort[baseline], cohorts)[cohort]
    strata = int(stratum.max(initial=0)) + 1
    return expected + _median_beyond(log - expected, stratum, strata, baseline, jobs)[0]


def _median_beyond(
    log: Floats, group: RowNumbers, size: int, baseline: Flags, jobs: Floats
) -> tuple[Floats, Floats]:
    """Return the median of each row's group, so far as groups differ, and that part by group."""
    used = baseline & ~np.isnan(log)
    count = np.bincount(group[used], jobs[used], minlength=size)
    median = np.nan_to_num(medians(log[used], group[used], size))
    spread = MAD_TO_SIGMA * float(np.median(np.abs(log[used]))) if used.any() else 0.0
    known = count / max(_VARIANCE_OF_MEDIAN * spread**2, TINY)
    part = part_of_own(median, known, 0.0)
    return (median * part)[group], part


def _left(cohort: RowNumbers, jobs: Floats, fitted: Floats) -> Floats:
    """Return the part of the variance of values that is left where they were fitted, by cohort."""
    count = np.bincount(cohort, jobs, minlength=len(fitted)) + 1
    return np.maximum(1 - fitted / count, 0.5)


def _inflation(left: Floats) -> Floats:
    """Return by how much future values spread more than fitted ones, of which some is *left*.

    It is the root of Akaike's final prediction error (1969), ``(n + k) / (n - k)``.
    """
    return np.sqrt((2 - left) / left)


def _spreads(log: Floats, cohort: RowNumbers, left: Floats, jobs: Floats) -> Floats:
    """Return robust standard deviations by cohort, nearer to that of all rows the less they differ.

    *jobs* is the part of a job that each row is.
    """
    cohorts, least = len(left), _LEAST_SPREAD / MAD_TO_SIGMA
    if not len(log):
        return np.full(cohorts, np.nan)
    deviation = np.abs(log) / np.sqrt(left[cohort])
    pooled = max(float(np.median(deviation)), least)
    own = np.maximum(np.nan_to_num(medians(deviation, cohort, cohorts)), least)
    differing = 2 * np.log(own / pooled)
    known = np.bincount(cohort, jobs, cohorts) / _VARIANCE_OF_LOG
    common = float(known @ differing / known.sum())
    nearer = common + part_of_own(differing, known, common) * (differing - common)
    return np.where(known > 0, MAD_TO_SIGMA * pooled * np.exp(nearer / 2), np.nan)


def _cut_spread(cut: Floats, cohort: RowNumbers, spread: Floats, baseline: Flags) -> Floats:
    """Return the standard deviation of cut residuals; their shape is that of all cohorts."""
    if not baseline.any():
        return spread
    relative = cut[baseline] / spread[cohort[baseline]]
    return np.asarray(spread * max(float(np.sqrt(np.mean(relative**2))), 0.5))


def _weights(
    inflated: Floats, baseline: Flags, unit: RowNumbers, size: Floats, cut: Floats
) -> Floats:
    """Return the weight of a row beside ``k - 1`` of the same job and window.

    It is the inverse of the design effect ``1 + (k - 1) rho`` (Kish 1965) with the correlation
    within jobs of the baseline. Fitting removes what jobs have in common, hence *inflated* values.
    """
    used = baseline & ~np.isnan(cut)
    total = np.bincount(unit[used], inflated[used], minlength=len(size))
    common = np.bincount(unit[used], inflated[used] ** 2, minlength=len(size))
    square = np.bincount(unit[used], cut[used] ** 2, minlength=len(size))
    count = np.bincount(unit[used], minlength=len(size))
    pairs = int((count * (count - 1)).sum())
    if not pairs or not square.sum():
        return np.ones(len(cut))
    covariance = float((total**2 - common).sum()) / pairs
    rho = min(max(covariance / (float(square.sum()) / int(used.sum())), 0.0), 1.0)
    return np.asarray(1.0 / (1.0 + (size - 1) * rho))[unit]
