"""The series model: what every kind of values can be asked."""

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Protocol, Self

import numpy as np

from ett_service.core.regressions.finding import Side, Subject
from ett_service.detection import onset
from ett_service.detection.onset import Fewest, Starts
from ett_service.detection.options import Options
from ett_service.detection.panel import Cells, Groups, Panel, panel
from ett_service.detection.sample import Flags, Floats, Ints
from ett_service.detection.window import Window

SURE = 0.8416
"""Standard normal quantile of 0.8: what scores so much above a limit passes it 8 times in 10."""


@dataclass(frozen=True, slots=True)
class Change:
    """A group before and after a day."""

    before: Side
    after: Side
    ratio: float  #: after over before
    low: float
    high: float
    worse: float  #: the factor by which it is worse; under 1 it is better
    gpu_hours_per_week: float | None  #: that it costs more; None while accelerators are unknown
    part: float | None  #: of the project's, likewise, and by attempts where these are unknown


@dataclass(frozen=True, slots=True)
class Halves:
    """What is left of a change without some days."""

    score: float  #: standard normal without a change, positive for worse
    effect: float  #: in the logarithm, or in points


class SeriesModel(Protocol):
    """One subject of the sample in all groups of cohorts."""

    @property
    def subject(self) -> Subject:
        """What is watched."""
        ...

    @property
    def groups(self) -> Groups:
        """Where."""
        ...

    @property
    def days(self) -> int:
        """How many days the window has."""
        ...

    def fewest(self, options: Options) -> Fewest:
        """Return how many values a change needs."""
        ...

    def starts(self, options: Options) -> Starts:
        """Compare each group's last days, as many as are recent or fewer, with those before."""
        ...

    def values(self) -> tuple[Ints, Ints]:
        """Return each group's recent values, and those of its baseline."""
        ...

    def promise(self, factor: float) -> Floats:
        """Return the score of each group, were it worse by *factor* for the recent window."""
        ...

    def smallest(self, score: Floats, options: Options) -> Floats:
        """Return the factor, for worse, by which each group reaches a score; infinite: none."""
        ...

    def halves(self, group: int, late: Flags, early: Flags) -> Halves:
        """Compare some days of a group with some others."""
        ...

    def since(self, group: int, start: int) -> Halves:
        """Compare a group's days from *start* on with those before."""
        ...

    def rest(self, members: Floats, start: int) -> float:
        """Return the score of a change on day *start* in other cohorts: 1 for each that counts."""
        ...

    def counts(self, group: int) -> Ints:
        """Return a group's rows by day."""
        ...

    def change(self, group: int, start: int, stop: int) -> Change:
        """Compare a group's days from *start* to *stop* with those before *start*."""
        ...

    def shifted(self, group: int, start: int, stop: int) -> "SeriesModel":
        """Return the same without what is other in the group's cohorts on these days."""
        ...


DRAWS = 400  #: of the bootstrap
_MOST_VALUES = 200  #: a longer side is told by so many of its quantiles
_SIDES = (2.5, 97.5)  #: of a 95 % interval, in percent
_NORMAL = 1.959964


def shift(before: Floats, after: Floats) -> float:
    """Return the median of all differences between both sides (Hodges and Lehmann 1963)."""
    if not len(before) or not len(after):
        return 0.0
    return float(np.median(_told(after)[:, None] - _told(before)[None, :]))


def interval(level: Floats, precision: Floats, late: Flags) -> tuple[float, float]:
    """Return by how much the change of *level* may be under and over what it seems.

    Days are drawn anew with all that they hold, on both sides of the onset, since values of one
    day are not independent (block bootstrap). A few days are too alike to draw from, so it is
    never less than the standard errors say.
    """
    sides = [_drawn(level[days], precision[days]) for days in (late, ~late)]
    drawn = sides[0] - sides[1]
    error = np.sqrt(sum(1 / max(float(precision[days].sum()), 1e-12) for days in (late, ~late)))
    middle = _mean(level[late], precision[late]) - _mean(level[~late], precision[~late])
    low, high = np.percentile(drawn - middle, _SIDES)
    return min(float(low), -_NORMAL * float(error)), max(float(high), _NORMAL * float(error))


def _told(values: Floats) -> Floats:
    if len(values) <= _MOST_VALUES:
        return values
    places = (np.arange(_MOST_VALUES) + 0.5) / _MOST_VALUES
    return np.asarray(np.quantile(values, places))


def _drawn(level: Floats, precision: Floats) -> Floats:
    """Return the mean of *level* in each draw of its days."""
    some = precision > 0
    level, precision = level[some], precision[some]
    if not len(level):
        return np.zeros(DRAWS)
    times = _times(len(level))
    return np.asarray((times @ (precision * level)) / (times @ precision))


@lru_cache(maxsize=64)
def _times(days: int) -> Floats:
    """Return how often each of *days* is drawn, draw by draw; the same at every call."""
    draws = np.random.default_rng(days)
    return draws.multinomial(days, np.full(days, 1 / days), DRAWS).astype(np.float64)


def _mean(level: Floats, precision: Floats) -> float:
    whole = float(precision.sum())
    return float((precision * level).sum()) / whole if whole else 0.0


@dataclass(frozen=True)
class LevelModel:
    """Levels by cohort and day; see ``detection.watch.Watch``, which kinds of values complete."""

    subject: Subject
    groups: Groups
    window: Window
    cells: Cells
    moved: Floats  #: what was taken off the levels, by cohort and day

    @cached_property
    def panel(self) -> Panel:
        """The series of days of all groups."""
        return panel(self.cells, self.groups)

    @property
    def days(self) -> int:
        return self.window.days

    def fewest(self, options: Options) -> onset.Fewest:
        return onset.Fewest(options.fewest_recent, options.fewest_baseline)

    def starts(self, options: Options) -> onset.Starts:
        return onset.starts(self.panel, options.recent_days, self.fewest(options))

    def values(self) -> tuple[Ints, Ints]:
        count, early = self.panel.count, self.window.baseline
        return count[:, early:].sum(axis=1), count[:, :early].sum(axis=1)

    @cached_property
    def error(self) -> Floats:
        """Standard error of the change of each group's level, if it fills the recent window."""
        early = self.window.baseline
        sure = self.panel.precision
        before, after = sure[:, :early].sum(axis=1), sure[:, early:].sum(axis=1)
        both = np.divide(after * before, after + before, out=np.zeros_like(after), where=after > 0)
        endless = np.full_like(both, np.inf)
        return np.asarray(np.divide(1.0, np.sqrt(both), out=endless, where=both > 0))

    def smallest_level(self, score: Floats) -> Floats:
        """Return the change of each group's level that scores so much, if it fills the window."""
        return np.asarray(onset.as_student(score, self.panel.freedom) * self.error)

    def halves(self, group: int, late: Flags, early: Flags) -> Halves:
        return _halves(self.panel, group, late, early)

    def since(self, group: int, start: int) -> Halves:
        late = np.arange(self.days) >= start
        return self.halves(group, late, ~late)

    def rest(self, members: Floats, start: int) -> float:
        late = np.arange(self.days) >= start
        alone = panel(self.cells, Groups(((),), members[None, :], (False,)))
        return _halves(alone, 0, late, ~late).score

    def counts(self, group: int) -> Ints:
        return np.asarray(self.panel.count[group])

    def shifted(self, group: int, start: int, stop: int) -> Self:
        cells = self.cells.shifted(self.groups.members[group], start, stop)
        return replace(self, cells=cells, moved=self.moved + self.cells.level - cells.level)


def _halves(found: Panel, group: int, late: Flags, early: Flags) -> Halves:
    (after, sure_after), (before, sure_before) = (
        _weighted_mean(found.level[group, days], found.precision[group, days])
        for days in (late, early)
    )
    if not sure_after or not sure_before:
        return Halves(0.0, 0.0)
    raw = (after - before) / np.sqrt(1 / sure_after + 1 / sure_before)
    return Halves(float(onset.as_normal(raw, found.freedom[group])), after - before)


def _weighted_mean(level: Floats, precision: Floats) -> tuple[float, float]:
    sure = float(precision.sum())
    return (float(level @ precision) / sure if sure else 0.0), sure
