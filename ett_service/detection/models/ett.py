"""Levels of ETT%: a value a cohort and day, the share of accelerators' time that is not training.

Cohorts are pooled by their time, each about its own baseline, so another mix of jobs does not count
as a change of the project's ratio; ``detection.verdict`` names it as such.
"""

from dataclasses import dataclass

import numpy as np

from ett_service.core.intervals import HOUR_US
from ett_service.core.regressions.finding import Side, Subject
from ett_service.core.words import Category
from ett_service.detection.cells import Cells, centred, ratio
from ett_service.detection.models.form import CUT
from ett_service.detection.models.series_model import Change, LevelModel, interval, medians
from ett_service.detection.panel import Fewest
from ett_service.detection.ranks import MAD_TO_SIGMA
from ett_service.detection.sample import Flags, Floats, Memory, Options, Shares
from ett_service.detection.window import WEEK_DAYS, Groups, Window

_TINY = 1e-12

_LEAST_SPREAD = 0.002  #: points of ETT%, as a part of 1
_FEWEST_DAYS = 4
_MAX_WEIGHT = 3.0  #: of a day, beside a mean one of its cohort


@dataclass(frozen=True)
class EttModel(LevelModel):
    """The series model of ETT%; levels are lost shares of time."""

    lost: Floats  #: accelerators' time by cohort and day, microseconds
    held: Floats

    def fewest(self, options: Options) -> Fewest:
        return Fewest(_FEWEST_DAYS, options.fewest_baseline)

    def change(self, group: int, start: int, stop: int) -> Change:
        days = np.arange(self.days)
        members = self.groups.members[group]
        before = self._side(members, 0, start)
        late = (days >= start) & (days < stop)
        rise = self._rise(members, days < start, late)
        low, high = interval(
            self.panel.level[group], self.panel.precision[group] * (days < stop), days >= start
        )
        lost, usual = max(1 - before.median, _LEAST_SPREAD), max(before.median, _LEAST_SPREAD)
        held_us = float((members @ self.held)[late].sum()) * WEEK_DAYS / max(stop - start, 1)
        project_us = self.window.held_us_per_week
        return Change(
            before=before,
            after=self._side(members, start, stop),
            ratio=(before.median - rise) / usual,
            low=(before.median - rise - high) / usual,
            high=(before.median - rise - low) / usual,
            worse=max(lost + rise, 0.0) / lost,
            gpu_hours_per_week=rise * held_us / HOUR_US,
            part=rise * held_us / project_us if project_us else None,
        )

    def expected_score(self, factor: float) -> Floats:
        return np.asarray((factor - 1) * self._usual_loss() / self.error)

    def smallest_factor(self, score: Floats, options: Options) -> Floats:
        enough = self.starts(options).enough[:, -1]
        factor = 1 + self.smallest_level(score) / self._usual_loss()
        return np.where(enough, np.maximum(factor, options.effect_floor), np.inf)

    def _usual_loss(self) -> Floats:
        """Return what each group loses in its baseline, as a part of 1."""
        early = slice(0, self.window.baseline)
        lost, held = (
            (self.groups.members @ part)[:, early].sum(axis=1) for part in (self.lost, self.held)
        )
        return np.maximum(ratio(lost, held), _LEAST_SPREAD)

    def _rise(self, members: Floats, early: Flags, late: Flags) -> float:
        """Return by how much members lose more, each beside itself, weighed by their time."""
        before, lost, after, more = (
            part[:, days].sum(axis=1) for days in (early, late) for part in (self.held, self.lost)
        )
        weight = members * ratio(before * after, before + after)
        change = ratio(more, after) - ratio(lost, before)
        return float(weight @ change / max(float(weight.sum()), _TINY))

    def _side(self, members: Floats, start: int, stop: int) -> Side:
        held, lost = ((members @ part)[start:stop] for part in (self.held, self.lost))
        ett = 1 - float(lost.sum()) / float(held.sum()) if held.sum() else 0.0
        days = int((held > 0).sum())
        return Side(days, days, ett, None, self.window.at_us(start), self.window.at_us(stop))


def ett_model(subject: Subject, window: Window, groups: Groups, memory: Memory) -> EttModel:
    """Make the model of the window's sample, which must have shares of time."""
    assert window.sample.shares is not None
    counted = window.counted(subject, groups, memory)
    held, lost = times(window.sample.shares, window, counted)
    cells = _cells(held, lost, window)
    return EttModel(subject, groups, window, cells, np.zeros(held.shape), lost, held)


def times(shares: Shares, window: Window, counted: Floats) -> tuple[Floats, Floats]:
    """Return held and lost time, cohorts by days of the window, where *counted* is not 0."""
    used = window.rows_in(shares.day)
    place = shares.cohort[used].astype(np.intp) * window.days + window.place[shares.day[used]]
    held, effective = np.zeros(counted.size), np.zeros(counted.size)
    for category, time in shares.by_category.items():
        summed = np.bincount(place, time[used], counted.size)
        held += summed
        if category == Category.EFFECTIVE_TRAINING.value:
            effective += summed
    both = held.reshape(counted.shape) * counted, effective.reshape(counted.shape) * counted
    return both[0], both[0] - both[1]


def _cells(held: Floats, lost: Floats, window: Window) -> Cells:
    cohorts, days = held.shape
    level = ratio(lost, held)
    present = held > 0
    early = present & (np.arange(days) < window.baseline)
    cohort = np.repeat(np.arange(cohorts), days).reshape(held.shape)
    middle = np.nan_to_num(medians(level[early], cohort[early], cohorts))
    level = level - middle[:, None]
    deviation = medians(np.abs(level[early]), cohort[early], cohorts)
    spread = np.maximum(MAD_TO_SIGMA * np.nan_to_num(deviation), _LEAST_SPREAD)
    usual = ratio((held * early).sum(axis=1), early.sum(axis=1).astype(np.float64))
    unit = max(float(usual.max(initial=0.0)), _TINY)
    usual, part = usual / unit, held / unit
    weight = np.minimum(part, _MAX_WEIGHT * usual[:, None])
    limit = CUT * spread[:, None]
    return centred(
        Cells(
            level=np.clip(level, -limit, limit),
            weight=weight,
            effective=present.astype(np.float64),
            count=present.astype(np.int64),
            variance=spread**2 * usual,
            fitted=np.ones(cohorts),
            baseline=window.baseline,
            weekday=window.weekday,
        )
    )
