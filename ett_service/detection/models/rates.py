"""Failures over GPU-hours, and misses of a cache among the starts that asked it.

Failures are counts, compared by their shares on both sides of an onset. Given their sum, the
failures after the onset are binomial, with the share of failures expected after it (Przyborowski
and Wilenski 1940); the middle of both one-sided p-values counts (Lancaster 1961). What is expected
is the own rate of each cohort and size of attempts times its GPU-hours, so another mix of jobs
changes nothing: twice the accelerators fail half as often an hour of each. Failures come
in bursts: both counts are divided by the overdispersion of their days and weeks in the baseline
(McCullagh and Nelder 1989, 6.2).

A start counts 1 if it missed and 0 if it hit, beside the share that is usual for its cohort, its
stratum, and both, each shrunk to the coarser one. The ratio of a change is that of the mean time of
the phase, as far as it follows from the misses: a start that misses takes as long as such starts
of the cohort do.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, ndtri

from ett_service.core.intervals import HOUR_US
from ett_service.core.regressions.finding import Side, Subject
from ett_service.detection.cells import ratio
from ett_service.detection.models.levels import cells_of, cost_us_per_week, counted_rows
from ett_service.detection.models.residuals import Residuals, share_residuals
from ett_service.detection.models.series_model import (
    Change,
    Contrast,
    LevelModel,
    SpansOfDays,
    interval,
)
from ett_service.detection.panel import Fewest, Starts, heads, tails
from ett_service.detection.sample import Durations, Flags, Floats, Ints, Memory, Options
from ett_service.detection.window import WEEK_DAYS, Groups, Window

FEWEST_EVENTS = 5
_HALF = 0.5  #: added to counts, so that no rate is 0
_Z_95 = 1.959964
_LEAST_CHANCE = 1e-300
_TINY = 1e-9
_FACTORS = 1.05 ** np.arange(1, 80)  #: to try; the last is about 47

_PRIOR_EVENTS = 4.0  #: at which the own rate of a size, in all cohorts or in one, counts half
_PRIOR_STARTS = 4.0  #: at so many starts of a kind their own mean time counts half
_LEAST_FACTOR = 0.05


@dataclass(frozen=True)
class RateModel(SpansOfDays):
    """The series model of failures of one cause, or of all; cohorts by days."""

    subject: Subject
    groups: Groups
    window: Window
    events: Floats
    expected: Floats  #: events at the baseline rate of the cohort
    exposure: Floats  #: GPU-hours
    dispersion: Floats  #: by group, 1 for a Poisson variance

    def fewest(self, options: Options) -> Fewest:
        del options
        return Fewest(FEWEST_EVENTS, FEWEST_EVENTS)

    def starts(self, options: Options) -> Starts:
        members, most = self.groups.members, options.recent_days
        events, expected = members @ self.events, members @ self.expected
        has_exposure = members @ self.exposure > 0
        after, before = tails(events, most), heads(events, most)
        expected_after, expected_before = tails(expected, most), heads(expected, most)
        score = _score(after, before, expected_after, expected_before, self.dispersion[:, None])
        return Starts(
            score=score,
            raw=score,
            share=ratio(expected_after, expected_after + expected_before),
            enough=(np.maximum(after, expected_after) >= FEWEST_EVENTS)
            & (np.minimum(expected_after, expected_before) >= FEWEST_EVENTS / 2),
            days=np.rint(tails(has_exposure.astype(np.float64), most)).astype(np.int64),
        )

    def num_values(self) -> tuple[Ints, Ints]:
        events = np.rint(self.groups.members @ self.events).astype(np.int64)
        early = self.window.baseline
        return events[:, early:].sum(axis=1), events[:, :early].sum(axis=1)

    def expected_score(self, factor: float) -> Floats:
        return self._expected_scores(np.array([factor], dtype=np.float64))[:, 0]

    def smallest_factor(self, score: Floats, options: Options) -> Floats:
        reached = self._expected_scores(_FACTORS) >= score[:, None]
        reached &= self._expected_counts()[1][:, None] * _FACTORS >= FEWEST_EVENTS
        first = np.where(reached.any(axis=1), _FACTORS[reached.argmax(axis=1)], np.inf)
        return np.maximum(first, options.effect_floor)

    def _expected_scores(self, factors: NDArray[np.floating]) -> Floats:
        """Return groups by factors: the score of a change that fills the recent window."""
        before, after = (
            np.outer(count, np.ones(len(factors))) for count in self._expected_counts()
        )
        return _score(after * factors, before, after, before, self.dispersion[:, None])

    def _expected_counts(self) -> tuple[Floats, Floats]:
        expected, early = self.groups.members @ self.expected, self.window.baseline
        return expected[:, :early].sum(axis=1), expected[:, early:].sum(axis=1)

    def contrast(self, group: int, late: Flags, early: Flags) -> Contrast:
        return self._between(self.groups.members[group], self.dispersion[group], late, early)

    def score_of(self, members: Floats, start: int) -> float:
        late = np.arange(self.days) >= start
        return self._between(members, float(self.dispersion.max()), late, ~late).score

    def rows_by_day(self, group: int) -> Ints:
        return np.asarray(self.groups.members[group] @ self.exposure > 0, dtype=np.int64)

    def without_change(self, group: int, start: int, stop: int) -> "RateModel":
        days = np.arange(self.days)
        late = (days >= start) & (days < stop)
        factor = np.exp(self.size(group, start, stop))
        changed = np.outer(self.groups.members[group] > 0, late)
        return replace(self, expected=np.where(changed, self.expected * factor, self.expected))

    def all_levels(self) -> Iterator["RateModel"]:
        yield self

    def change(self, group: int, start: int, stop: int) -> Change:
        before, after = self._side(group, 0, start), self._side(group, start, stop)
        log_ratio = self.size(group, start, stop)
        error = float(
            np.sqrt(self.dispersion[group] * (1 / (before.n + _HALF) + 1 / (after.n + _HALF)))
        )
        factor = float(np.exp(log_ratio))
        return Change(
            before=before,
            after=after,
            ratio=factor,
            low=float(np.exp(log_ratio - _Z_95 * error)),
            high=float(np.exp(log_ratio + _Z_95 * error)),
            worse=factor,
            gpu_hours_per_week=None,
            part=None,
        )

    def _side(self, group: int, start: int, stop: int) -> Side:
        members = self.groups.members[group]
        events, exposure = (
            (members @ counts)[start:stop] for counts in (self.events, self.exposure)
        )
        hours = float(exposure.sum())
        rate = float(events.sum()) / hours if hours else 0.0
        span = self.window.at_us(start), self.window.at_us(stop)
        return Side(round(float(events.sum())), int((exposure > 0).sum()), rate, None, *span)

    def _between(self, members: Floats, dispersion: float, late: Flags, early: Flags) -> Contrast:
        events, expected = members @ self.events, members @ self.expected
        after, before = (float(events[days].sum()) for days in (late, early))
        expected_after, expected_before = (float(expected[days].sum()) for days in (late, early))
        if not expected_after or not expected_before:
            return Contrast(0.0, 0.0)
        late_, early_, expected_late, expected_early = (
            np.array([part]) for part in (after, before, expected_after, expected_before)
        )
        score = _score(late_, early_, expected_late, expected_early, np.array([dispersion]))
        effect = np.log((after + _HALF) / expected_after) - np.log(
            (before + _HALF) / expected_before
        )
        return Contrast(float(score[0]), float(effect))


def rate_model(subject: Subject, window: Window, groups: Groups, memory: Memory) -> RateModel:
    """Make the model of one subject of the window's sample."""
    counted = window.counted(subject, groups, memory)
    rates = window.sample.rates[subject]
    used = window.rows_in(rates.day)
    cohort, day = rates.cohort[used].astype(np.intp), window.place[rates.day[used]]
    failed, hours = rates.events[used] * counted[cohort, day], rates.exposure[used]
    hours = hours * counted[cohort, day]
    as_usual = _expected(failed, hours, cohort, rates.gpus[used], day < window.baseline)
    place = cohort * window.days + day

    def by_day(part: Floats) -> Floats:
        return np.bincount(place, part, counted.size).astype(np.float64).reshape(counted.shape)

    events, exposure, expected = by_day(failed), by_day(hours), by_day(as_usual)
    dispersion = _dispersion(groups, events, expected, window.baseline)
    return RateModel(subject, groups, window, events, expected, exposure, dispersion)


def _expected(
    events: Floats, hours: Floats, cohort: NDArray[np.intp], gpus: Floats, early: Flags
) -> Floats:
    """Return the events that are usual for the size, the cohort and the size in it, by row.

    Each rate is that of *early* rows, shrunk to the one before it.
    """
    total = float(hours[early].sum())
    expected = hours * (float(events[early].sum()) / total if total else 0.0)
    size = np.unique(gpus, return_inverse=True)[1].astype(np.intp)
    sizes = int(size.max(initial=0)) + 1
    for group, prior in (
        (size, _PRIOR_EVENTS),
        (cohort, 1),
        (cohort * sizes + size, _PRIOR_EVENTS),
    ):
        seen, usual = (np.bincount(group[early], part[early]) for part in (events, expected))
        rate = np.ones(int(group.max(initial=0)) + 1)
        rate[: len(seen)] = (seen + prior) / (usual + prior)
        expected = expected * rate[group]
    return np.asarray(expected)


def _dispersion(groups: Groups, events: Floats, expected: Floats, baseline: int) -> Floats:
    """Return variance over mean by group, of days or of weeks, whichever is more; at least 1."""
    single = np.array(groups.single)
    dispersion = np.ones(len(single))
    for length in (1, WEEK_DAYS):
        whole = baseline - baseline % length
        if whole < 2 * length:
            continue
        events_by, expected_by = (
            (groups.members @ part)[:, :whole].reshape(len(single), -1, length).sum(axis=2)
            for part in (events, expected)
        )
        square = ((events_by - expected_by) ** 2).sum(axis=1)
        mean = expected_by.sum(axis=1)
        parts = whole // length
        own = ratio(square, mean) * parts / (parts - 1)
        pooled = float(square[single].sum()) / max(float(mean[single].sum()), _HALF)
        pooled *= parts / (parts - 1)
        dispersion = np.maximum(dispersion, np.maximum(pooled, np.where(single, 1.0, own)))
    return dispersion


def _score(
    after: Floats,
    before: Floats,
    expected_after: Floats,
    expected_before: Floats,
    dispersion: Floats,
) -> Floats:
    """Return the normal score of so many events *after*; positive for more than expected."""
    share = np.clip(ratio(expected_after, expected_after + expected_before), 1e-9, 1 - 1e-9)
    late, early = after / dispersion, before / dispersion
    at_least = np.where(late > 0, betainc(np.maximum(late, _TINY), early + 1, share), 1.0)
    more = np.where(early > 0, betainc(late + 1, np.maximum(early, _TINY), share), 0.0)
    middle = np.clip((at_least + more) / 2, _LEAST_CHANCE, 1 - 1e-16)
    return np.where((expected_after > 0) & (expected_before > 0), -ndtri(middle), 0.0)


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
