"""Residuals: the logarithm of each duration beside what the baseline expects of it.

The expectation is a median: of the cohort, then of the stratum over all cohorts, then of the
stratum in the cohort, each shrunk to the coarser one by how few rows it has, as in a median polish
(Tukey 1977). What a residual says is its score by the form that residuals have, about the median of
its day: neither three in a hundred starts that take ten times as long nor the skew of durations say
much. Where residuals have two modes, medians would fall now into the one and now into the other;
there the expectation is the most likely place of each cohort's form.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ett_service.detection.models.series_model import log_with_zeros, medians
from ett_service.detection.ranks import MAD_TO_SIGMA
from ett_service.detection.sample import Durations, Flags, Floats

RowNumbers = NDArray[np.intp]

_PRIOR_JOBS = 8.0  #: a stratum's own median counts half at so many jobs
_PRIOR_OF_DAY = 30.0  #: rows at which the median of a day counts half
_PRIOR_SPREAD = 20.0  #: a cohort's own spread counts half at so many rows
_LEAST_SPREAD = 0.02  #: in the logarithm; less is the resolution of clocks
_COHORT_PLACES, _STRATUM_PLACES, _PLACES_IN_COHORT = 1.0, 0.3, 0.1
"""Standard deviations of places in the logarithm, where there are modes."""
_LEAST_SHARE = 0.02  #: that is expected of a cache's misses or hits

CUT = 2.0  #: standard deviations at which scores are cut

_STEP = 0.05
_REACH = 9.0  #: of the grid, in spreads
_GRID = np.arange(-_REACH, _REACH + _STEP / 2, _STEP)
_SHIFT = 0.75  #: in spreads, that values are scored for
_FAR_SHIFT = 1.6  #: beside it, where there are modes: it must not be taken for another mode
_BANDWIDTH = 0.9  #: times the spread by the fifth root of the number (Silverman 1986)
_LEAST_BANDWIDTH = 0.15
_TAIL = 0.02  #: weight of a broad density, in which tails lie
_PRIOR_VALUES = 200.0  #: at so many values the estimated score counts half
_FEWEST_VALUES = 100  #: to tell modes
_VALLEY = 0.6  #: a dip to less than this part of the lower of two peaks parts two modes
_LEAST_MODE = 0.08  #: share of the values
_HALF = 0.5  #: of the values, in the interval whose length is the scale


@dataclass(frozen=True)
class Form:
    """The distribution of residuals of a subject, in spreads, whatever it is.

    Where durations have two modes, those of starts that hit a cache and of those that missed it,
    most of the variance lies between the modes, and a shift of each shows only within them. The
    score of a value is therefore read off the density of all residuals of the baseline: the
    logarithm of how much likelier it is after a shift than before (Neyman and Pearson 1933). Of
    normal values it is a straight line. Far out it is flat (Huber 1964). How many values are of the
    slower mode is scored apart.
    """

    density: Floats  #: by place of the grid
    values: int

    @classmethod
    def of(cls, standard: Floats) -> "Form":
        """Estimate the form of *standard*, residuals over their spread."""
        counted = np.bincount(bins(standard), minlength=len(_GRID)).astype(np.float64)
        values = len(standard)
        width = max(_BANDWIDTH * max(values, 1) ** -0.2, _LEAST_BANDWIDTH) / 2
        share = _smoothed(counted / values, width) if values else _broad()
        return cls((1 - _TAIL) * share + _TAIL * _broad(), values)

    @cached_property
    def has_modes(self) -> bool:
        """Whether values fall into two modes, with a valley between them."""
        return self.values >= _FEWEST_VALUES and self._valley is not None

    @property
    def boundary(self) -> float:
        """Where the slower mode begins; infinite where there is one mode."""
        return float(_GRID[self._valley]) if self._valley is not None else np.inf

    @cached_property
    def _valley(self) -> int | None:
        below = np.cumsum(self.density)
        left = np.maximum.accumulate(self.density)
        right = np.maximum.accumulate(self.density[::-1])[::-1]
        depth = self.density / np.minimum(left, right)
        depth[(below < _LEAST_MODE) | (below > 1 - _LEAST_MODE)] = 1.0
        place = int(depth.argmin())
        return place if depth[place] < _VALLEY else None

    @cached_property
    def _score(self) -> Floats:
        """The score by place of the grid; a small shift of the values moves its mean as far."""
        if self.has_modes:
            return self._scaled(_standard(self._likelier(_SHIFT, _FAR_SHIFT), self.density))
        straight = _standard(np.clip(_GRID, -CUT, CUT), self.density)
        part = self.values / (self.values + _PRIOR_VALUES)
        likelier = _standard(self._likelier(_SHIFT), self.density)
        return self._scaled(part * likelier + (1 - part) * straight)

    def _likelier(self, *shifts: float) -> Floats:
        """Return how much likelier values are after one of *shifts* than before."""
        after = sum(np.interp(_GRID - shift, _GRID, self.density) for shift in shifts)
        return self._with_tails(np.log(after) - np.log(self.density))

    def _with_tails(self, score: Floats) -> Floats:
        """Let scores fall no more above all modes, and rise no more below them."""
        peak = int(self.density.argmax())
        low = high = peak
        if self._valley is not None:
            low = int(self.density[: self._valley].argmax())
            high = self._valley + int(self.density[self._valley :].argmax())
        score = score.copy()
        score[: low + 1] = np.minimum.accumulate(score[: low + 1][::-1])[::-1]
        score[high:] = np.maximum.accumulate(score[high:])
        return score

    def _scaled(self, score: Floats) -> Floats:
        half = _SHIFT / 2
        up, down = (self._mean(score, shift) for shift in (half, -half))
        return np.asarray((score - self._mean(score, 0.0)) / max((up - down) / _SHIFT, 0.1))

    def _mean(self, score: Floats, shift: float) -> float:
        return float(np.interp(_GRID + shift, _GRID, score) @ self.density)

    def score(self, standard: Floats) -> Floats:
        """Return the scores of residuals over their spread."""
        return np.interp(standard, _GRID, self._score)

    def shift_of(self, moved: Floats) -> Floats:
        """Return the shift that moves the mean score so far; infinite where none does."""
        shifts = np.linspace(0.0, 4 * CUT, 100)
        means = np.maximum.accumulate([self._mean(self._score, shift) for shift in shifts])
        rising = np.flatnonzero(np.diff(means, prepend=-1.0) > 0)
        return np.asarray(np.interp(moved, means[rising], shifts[rising], right=np.inf))

    def located(self, standard: Floats, group: RowNumbers, size: int, tightness: Floats) -> Floats:
        """Return by how much each group's residuals lie off, as is most likely.

        *tightness* is one over the variance that such places have, in spreads, by group.
        """
        places = np.arange(-len(_GRID) // 3, len(_GRID) // 3 + 1, 2)
        counted = np.zeros((size, len(_GRID)), dtype=np.float32)
        np.add.at(counted, (group, bins(standard)), 1.0)
        log = np.log(self.density)
        shifted = np.stack([np.interp(_GRID - at * _STEP, _GRID, log) for at in places], axis=1)
        prior = 0.5 * np.outer(tightness, (places * _STEP) ** 2)
        best = (counted @ shifted.astype(np.float32) - prior).argmax(axis=1)
        return np.asarray(places[best] * _STEP)


def bins(standard: Floats) -> NDArray[np.intp]:
    """Return the places of the grid."""
    inside = np.clip(np.nan_to_num(standard), -_REACH, _REACH)
    return np.asarray(np.rint((inside + _REACH) / _STEP), dtype=np.intp)


def scale(values: Floats) -> float:
    """Return the standard deviation of the larger mode: by the shortest half (Rousseeuw 1984)."""
    ordered, half = np.sort(values), int(len(values) * _HALF)
    if not half:
        return 0.0
    return float((ordered[half:] - ordered[:-half]).min()) / 1.349


def _smoothed(counted: Floats, width: float) -> Floats:
    reach = int(4 * width / _STEP)
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) * _STEP / width) ** 2)
    return np.convolve(counted, kernel / kernel.sum(), mode="same")


def _broad() -> Floats:
    broad = 1 / (1 + (_GRID / 2) ** 2)
    return np.asarray(broad / broad.sum())


def _standard(score: Floats, density: Floats) -> Floats:
    """Give *score* a mean of 0 and a variance of 1, and cut it."""
    for _ in range(2):
        centred = score - score @ density
        score = centred / max(float(np.sqrt(centred**2 @ density)), 1e-9)
        score = np.clip(score, -CUT, CUT)
    return score


@dataclass(frozen=True, slots=True)
class Residuals:
    """One row a duration; logarithms."""

    log: Floats  #: the residual
    cut: Floats  #: its score, which a shift moves as far on average
    weight: Floats  #: less than 1 where a job has many correlated rows
    spread: Floats  #: by cohort, standard deviation; NaN for one without baseline
    cut_spread: Floats  #: by cohort, standard deviation of the cut residuals
    skewness: float  #: of the cut residuals
    form: Form


Expectation: TypeAlias = Callable[[Floats, Durations, int, Flags, Floats], tuple[Floats, Floats]]
"""Of logarithms, their rows, the number of cohorts, which rows are baseline, and the part of a job
that each is: the expectation of each row, and how many values were fitted for each cohort."""


def residuals(
    rows: Durations, cohorts: int, baseline: Flags, expectation: Expectation | None = None
) -> Residuals:
    """Compare *rows* with those of the *baseline*; cohorts without any have NaN.

    Without an *expectation* it is the one that the module describes.
    """
    log = log_with_zeros(rows.us)
    cohort = rows.cohort.astype(np.intp)
    unit, size = _jobs(rows, baseline)
    jobs = baseline / size[unit]
    expected, fitted = (expectation or _expected)(log, rows, cohorts, baseline, jobs)
    log = log - expected
    day = rows.day.astype(np.intp)
    of_day = _day_median(log, day)
    spread = _spreads((log - of_day)[baseline], cohort[baseline], cohorts)
    form = Form.of(_finite(log - of_day, spread, cohort, baseline))
    if form.has_modes and expectation is None:
        log, spread, form = _placed(log, rows, cohorts, baseline, spread)
        of_day = np.zeros(len(log))
    cut = form.score((log - of_day) / spread[cohort]) * spread[cohort]
    inflation = _inflation(cohort, jobs, fitted)
    weight = _weights(cut * inflation[cohort], baseline, unit, size, cut)
    cut_spread = _cut_spread(cut, cohort, spread, baseline)
    skewness = _skewness((cut / cut_spread[cohort])[baseline])
    return Residuals(log, cut + of_day, weight, spread, cut_spread * inflation, skewness, form)


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
    inflation = _inflation(cohort, jobs, fitted)
    weight = _weights(own * inflation[cohort], baseline, unit, size, own)
    form = Form.of(_finite(own, spread, cohort, baseline))
    skewness = _skewness((own / spread[cohort])[baseline])
    return Residuals(own, own, weight, spread, spread * inflation, skewness, form)


def _expected_share(
    counted: Flags, rows: Durations, cohorts: int, jobs: Floats
) -> tuple[Floats, Floats]:
    """Return the share that is expected of each row, and how many were fitted for each cohort."""
    cohort, stratum = rows.cohort.astype(np.intp), rows.stratum.astype(np.intp)
    strata = int(stratum.max(initial=0)) + 1
    own = counted - float((counted * jobs).sum()) / max(float(jobs.sum()), 1.0)
    both = (cohort * strata + stratum, cohorts * strata)
    left, shrinkage = own, np.zeros(0)
    for group, size in ((cohort, cohorts), (stratum, strata), both):
        count, total = np.bincount(group, jobs, size), np.bincount(group, jobs * left, size)
        left = left - (total / (count + _PRIOR_JOBS))[group]
        shrinkage = count / (count + _PRIOR_JOBS)
    expected = np.clip(counted - left, _LEAST_SHARE, 1 - _LEAST_SHARE)
    return expected, 1 + shrinkage.reshape(cohorts, strata).sum(axis=1)


def _skewness(standard: Floats) -> float:
    finite = standard[np.isfinite(standard)]
    return float(np.mean((finite - finite.mean()) ** 3)) if len(finite) else 0.0


def _finite(own: Floats, spread: Floats, cohort: RowNumbers, rows: Flags) -> Floats:
    """Return residuals of *rows* over their spread, as far as both are known."""
    standard = own[rows] / spread[cohort[rows]]
    return standard[np.isfinite(standard)]


def _placed(
    log: Floats, rows: Durations, cohorts: int, baseline: Flags, spread: Floats
) -> tuple[Floats, Floats, Form]:
    """Move cohorts, strata, and strata in cohorts to where their form is likeliest.

    Return their residuals there, with the spread by cohort, and the form that these have.
    """
    cohort, stratum = rows.cohort.astype(np.intp), rows.stratum.astype(np.intp)
    strata = int(stratum.max(initial=0)) + 1
    used = baseline & np.isfinite(log)
    common = max(scale(log[used]), _LEAST_SPREAD)
    form = Form.of(log[used] / common)
    levels = ((cohort, cohorts, _COHORT_PLACES), (stratum, strata, _STRATUM_PLACES))
    both = (cohort * strata + stratum, cohorts * strata, _PLACES_IN_COHORT)
    for group, size, deviation in (*levels, *levels, both):
        tightness = np.full(size, (common / deviation) ** 2)
        off = form.located(log[used] / common, group[used], size, tightness) * common
        log = log - off[group]
        common = max(scale(log[used]), _LEAST_SPREAD)
        form = Form.of(log[used] / common)
    return log, np.where(np.isfinite(spread), common, np.nan), form


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
    cohort = rows.cohort.astype(np.intp)
    expected = medians(log[baseline], cohort[baseline], cohorts)[cohort]
    fitted = np.ones(cohorts)
    strata = int(rows.stratum.max(initial=0)) + 1
    if strata > 1:
        stratum = rows.stratum.astype(np.intp)
        expected = expected + _shrunk_median(log - expected, stratum, strata, baseline, jobs)[0]
        both = cohort * strata + stratum
        more, shrinkage = _shrunk_median(log - expected, both, cohorts * strata, baseline, jobs)
        expected = expected + more
        fitted = fitted + shrinkage.reshape(cohorts, strata).sum(axis=1)
    return expected, fitted


def _shrunk_median(
    log: Floats, group: RowNumbers, size: int, baseline: Flags, jobs: Floats
) -> tuple[Floats, Floats]:
    """Return the median of each row's group, shrunk to 0 by how few jobs it has, and how far."""
    used = baseline & ~np.isnan(log)
    count = np.bincount(group[used], jobs[used], minlength=size)
    shrinkage = count / (count + _PRIOR_JOBS)
    median = np.nan_to_num(medians(log[used], group[used], size))
    return (median * shrinkage)[group], shrinkage


def _inflation(cohort: RowNumbers, jobs: Floats, fitted: Floats) -> Floats:
    """Return by how much future values spread more than fitted ones, by cohort.

    It is the root of Akaike's final prediction error (1969), ``(n + k) / (n - k)``.
    """
    count = np.bincount(cohort, jobs, minlength=len(fitted)) + 1
    return np.sqrt((count + fitted) / np.maximum(count - fitted, count / 2))


def _spreads(log: Floats, cohort: RowNumbers, cohorts: int) -> Floats:
    """Return robust standard deviations by cohort, shrunk to that of all rows."""
    if not len(log):
        return np.full(cohorts, np.nan)
    deviation = np.abs(log)
    pooled = MAD_TO_SIGMA * float(np.median(deviation))
    count = np.bincount(cohort, minlength=cohorts)
    own = MAD_TO_SIGMA * np.nan_to_num(medians(deviation, cohort, cohorts))
    square = (count * own**2 + _PRIOR_SPREAD * pooled**2) / (count + _PRIOR_SPREAD)
    return np.where(count > 0, np.maximum(np.sqrt(square), _LEAST_SPREAD), np.nan)


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
