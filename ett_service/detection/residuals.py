"""Log-durations beside what the baseline expects of their cohort and stratum, cut at the tails.

The expectation is a median: of the cohort, then of the stratum over all cohorts, then of the
stratum in the cohort, each drawn to the coarser one by how few rows it has, as in a median polish
(Tukey 1977). Residuals are cut at two robust standard deviations (Huber 1964), so that neither
three in a hundred starts that take ten times as long nor the skew of durations say much.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ett_service.detection.sample import Durations, Floats

Places = NDArray[np.intp]
Flags = NDArray[np.bool_]

CUT = 2.0  #: standard deviations at which a residual is cut
_PRIOR_ROWS = 4.0  #: a stratum's own median counts half at so many rows
_PRIOR_SPREAD = 20.0  #: a cohort's own spread counts half at so many rows
_LEAST_SPREAD = 0.02  #: in the logarithm; less is how clocks tick
_MAD = 1.4826  #: standard deviations to the median absolute deviation of a normal distribution
_ZERO = 1e-4  #: what a duration of nothing counts as, in medians


@dataclass(frozen=True, slots=True)
class Residuals:
    """One row a duration; logarithms."""

    log: Floats  #: the residual
    cut: Floats  #: the same, cut at the tails
    weight: Floats  #: less than 1 where a job has many rows that are alike
    spread: Floats  #: by cohort, standard deviation of what is cut; NaN for one without baseline


def residuals(rows: Durations, cohorts: int, baseline: Flags) -> Residuals:
    """Compare *rows* with those of them that *baseline* marks; cohorts without any have NaN."""
    log = _logarithms(rows.us)
    cohort = rows.cohort.astype(np.intp)
    log = log - _expected(log, rows, cohorts, baseline)
    spread = _spreads(log[baseline], cohort[baseline], cohorts)
    limit = CUT * spread[cohort]
    cut = np.clip(log, -limit, limit)
    weight = _weights(rows, cut, baseline, cohort)
    return Residuals(log, cut, weight, _spread_of_cut(cut, cohort, spread, baseline))


def medians(values: Floats, group: Places, size: int) -> Floats:
    """Return the median of each of *size* groups; NaN for one without values."""
    found = np.full(size, np.nan)
    if not len(values):
        return found
    ordered = values[np.lexsort((values, group))]
    count = np.bincount(group, minlength=size)
    first = np.cumsum(count) - count
    some = count > 0
    low, high = first + (count - 1) // 2, first + count // 2
    found[some] = (ordered[low[some]] + ordered[high[some]]) / 2
    return found


def _logarithms(us: NDArray[np.int64]) -> Floats:
    """Return logarithms; nothing is a fixed part of the median, so that units do not matter."""
    some = us[us > 0]
    nothing = float(np.median(some)) * _ZERO if len(some) else 1.0
    return np.log(np.where(us > 0, us, nothing))


def _expected(log: Floats, rows: Durations, cohorts: int, baseline: Flags) -> Floats:
    cohort = rows.cohort.astype(np.intp)
    expected = medians(log[baseline], cohort[baseline], cohorts)[cohort]
    strata = int(rows.stratum.max(initial=0)) + 1
    if strata > 1:
        stratum = rows.stratum.astype(np.intp)
        expected = expected + _drawn(log - expected, stratum, strata, baseline)
        both = cohort * strata + stratum
        expected = expected + _drawn(log - expected, both, cohorts * strata, baseline)
    return expected


def _drawn(log: Floats, group: Places, size: int, baseline: Flags) -> Floats:
    """Return the median of each row's group, drawn to 0 by how few rows are in the baseline."""
    used = baseline & ~np.isnan(log)
    count = np.bincount(group[used], minlength=size)
    found = np.nan_to_num(medians(log[used], group[used], size))
    return np.asarray((found * count / (count + _PRIOR_ROWS))[group])


def _spreads(log: Floats, cohort: Places, cohorts: int) -> Floats:
    """Return robust standard deviations by cohort, drawn to that of all rows."""
    if not len(log):
        return np.full(cohorts, np.nan)
    centred = np.abs(log)
    pooled = _MAD * float(np.median(centred))
    count = np.bincount(cohort, minlength=cohorts)
    own = _MAD * np.nan_to_num(medians(centred, cohort, cohorts))
    square = (count * own**2 + _PRIOR_SPREAD * pooled**2) / (count + _PRIOR_SPREAD)
    return np.where(count > 0, np.maximum(np.sqrt(square), _LEAST_SPREAD), np.nan)


def _spread_of_cut(cut: Floats, cohort: Places, spread: Floats, baseline: Flags) -> Floats:
    """Return the standard deviation of cut residuals; their shape is that of all cohorts."""
    if not baseline.any():
        return spread
    relative = cut[baseline] / spread[cohort[baseline]]
    return np.asarray(spread * max(float(np.sqrt(np.mean(relative**2))), 0.5))


def _weights(rows: Durations, cut: Floats, baseline: Flags, cohort: Places) -> Floats:
    """Return what a row counts for beside ``k - 1`` of the same job and window.

    It is the inverse of the design effect ``1 + (k - 1) rho`` (Kish 1965) with the correlation
    within jobs of the baseline.
    """
    if not len(cut):
        return np.ones(0)
    _, unit = np.unique(rows.unit.astype(np.int64) * 2 + baseline, return_inverse=True)
    size = np.bincount(unit)
    used = baseline & ~np.isnan(cut)
    total = np.bincount(unit[used], cut[used], minlength=len(size))
    square = np.bincount(unit[used], cut[used] ** 2, minlength=len(size))
    count = np.bincount(unit[used], minlength=len(size))
    pairs = int((count * (count - 1)).sum())
    if not pairs or not square.sum():
        return np.ones(len(cut))
    alike = float((total**2 - square).sum()) / pairs
    rho = min(max(alike / (float(square.sum()) / int(used.sum())), 0.0), 1.0)
    return np.asarray(1.0 / (1.0 + (size - 1) * rho))[unit]
