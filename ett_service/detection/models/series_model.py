"""The series model of a subject in all groups of cohorts, and the base of models of levels."""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from ett_service.core.regressions.finding import (
    Finding,
    Gate,
    Impact,
    Series,
    Side,
    Subject,
    Verdict,
)
from ett_service.detection.cells import Cells
from ett_service.detection.day_memory import Evidence, UsualMemory, usual_memory
from ett_service.detection.panel import (
    Fewest,
    Panel,
    Starts,
    as_normal,
    as_student,
    panel,
    start_scores,
)
from ett_service.detection.sample import Flags, Floats, Ints, Options
from ett_service.detection.window import Groups, Window

Z_80 = 0.8416
"""Standard normal quantile of 0.8: what scores so much above a limit passes it 8 times in 10."""

Z_95 = 1.959964
_DRAWS = 400  #: of the bootstrap
_MOST_VALUES = 200  #: a longer side is represented by so many of its quantiles
_ZERO = 1e-4  #: what a duration of nothing counts as, in medians
_INTERVAL = (2.5, 97.5)  #: percentiles of a 95 % interval


@dataclass(frozen=True, slots=True)
class Change:
    """A group before and after a day."""

    before: Side
    after: Side
    ratio: float  #: after over before
    low: float
    high: float
    worse: float  #: the factor by which it is worse; under 1 it is better
    gpu_hours_per_week: float | None  #: its cost; None while accelerators are unknown
    part: float | None  #: its cost relative to the project's; by attempts if those are unknown
    mean_ratio: float | None = None  #: of durations, as of ``Finding``

    def finding(
        self,
        series: Series,
        verdict: Verdict,
        onset_us: int,
        *,
        gates: tuple[Gate, ...],
        p: float,
        q: float,
    ) -> Finding:
        """Return the finding of this change in a series."""
        return Finding(
            series=series,
            verdict=verdict,
            ratio=self.ratio,
            low=self.low,
            high=self.high,
            p=p,
            q=q,
            onset_us=onset_us,
            before=self.before,
            after=self.after,
            gates=gates,
            impact=Impact(self.gpu_hours_per_week),
            mean_ratio=self.mean_ratio,
        )


@dataclass(frozen=True, slots=True)
class Contrast:
    """Some days of a group against some others."""

    score: float  #: standard normal without a change, positive for worse
    effect: float  #: in the logarithm, or in points


class SeriesModel(Protocol):
    """One subject of the sample in all groups of cohorts."""

    @property
    def subject(self) -> Subject:
        """The subject."""
        ...

    @property
    def groups(self) -> Groups:
        """The groups of cohorts."""
        ...

    @property
    def days(self) -> int:
        """The number of days of the window."""
        ...

    def fewest(self, options: Options) -> Fewest:
        """Return the fewest values of a change."""
        ...

    def starts(self, options: Options) -> Starts:
        """Compare each group's last days, as many as are recent or fewer, with those before."""
        ...

    def num_values(self) -> tuple[Ints, Ints]:
        """Return the number of each group's recent values, and of those of its baseline."""
        ...

    def expected_score(self, factor: float) -> Floats:
        """Return the score of each group, were it worse by *factor* for the recent window."""
        ...

    def smallest_factor(self, score: Floats, options: Options) -> Floats:
        """Return the factor, for worse, at which each group reaches a score; infinite: none."""
        ...

    def contrast(self, group: int, late: Flags, early: Flags) -> Contrast:
        """Compare some days of a group with some others."""
        ...

    def since(self, group: int, start: int) -> Contrast:
        """Compare a group's days from *start* on with those before."""
        ...

    def size(self, group: int, start: int, stop: int) -> float:
        """Return how much worse days from *start* to *stop* are; half a change has half of it."""
        ...

    def score_of(self, members: Floats, start: int) -> float:
        """Return the score of a change on day *start* in any cohorts: 1 for each member."""
        ...

    def rows_by_day(self, group: int) -> Ints:
        """Return the number of a group's rows by day."""
        ...

    def change(self, group: int, start: int, stop: int) -> Change:
        """Compare a group's days from *start* to *stop* with those before *start*."""
        ...

    def without_change(self, group: int, start: int, stop: int) -> "SeriesModel":
        """Return the model with the change of the group's cohorts on these days taken off."""
        ...

    def all_levels(self) -> Iterator["SeriesModel"]:
        """Yield the models of the same values in which a change may show: this one comes first."""
        ...


class SpansOfDays(ABC):
    """What all models say of spans of days, by what they say of any days."""

    window: Window

    @property
    def days(self) -> int:
        return self.window.days

    @abstractmethod
    def contrast(self, group: int, late: Flags, early: Flags) -> Contrast:
        """Compare some days of a group with some others."""

    def since(self, group: int, start: int) -> Contrast:
        late = np.arange(self.days) >= start
        return self.contrast(group, late, ~late)

    def size(self, group: int, start: int, stop: int) -> float:
        days = np.arange(self.days)
        return self.contrast(group, (days >= start) & (days < stop), days < start).effect


class LevelSort(NamedTuple):
    """What levels are of: days share as much in all subjects of one sort."""

    model: type["LevelModel"]
    is_of_means: bool = False
    is_of_sums: bool = False  #: of phases, each of which has conditions of its own


@dataclass(frozen=True)
class LevelModel(SpansOfDays):
    """A series model of levels by cohort and day, which durations and ETT% complete."""

    subject: Subject
    groups: Groups
    window: Window
    cells: Cells
    removed: Floats  #: what was taken off the levels, by cohort and day
    usual: UsualMemory | None = field(default=None, kw_only=True)  #: of days, of other subjects

    @property
    def sort(self) -> LevelSort:
        return LevelSort(type(self))

    def all_levels(self) -> Iterator["LevelModel"]:
        yield self

    def with_usual(self, usual: Mapping[LevelSort, UsualMemory | None]) -> Self:
        """Return the model with the memory of days that is *usual* for each sort of its levels."""
        return replace(self, usual=usual.get(self.sort))

    @cached_property
    def panel(self) -> Panel:
        """The series of days of all groups."""
        return panel(self.cells, self.groups, self.usual)

    def fewest(self, options: Options) -> Fewest:
        return Fewest(options.fewest_recent, options.fewest_baseline)

    def starts(self, options: Options) -> Starts:
        return start_scores(self.panel, options.recent_days, self.fewest(options))

    def num_values(self) -> tuple[Ints, Ints]:
        count, early = self.panel.count, self.window.baseline
        return count[:, early:].sum(axis=1), count[:, :early].sum(axis=1)

    @cached_property
    def error(self) -> Floats:
        """Standard error of the change of each group's level, if it fills the recent window."""
        late = np.arange(self.days)[None, :] >= self.window.baseline
        return self.panel.error(late, ~late)[:, 0]

    def smallest_level(self, score: Floats) -> Floats:
        """Return the change of each group's level that reaches a score, if it fills the window."""
        return np.asarray(as_student(score, self.panel.freedom) * self.error)

    def contrast(self, group: int, late: Flags, early: Flags) -> Contrast:
        return _contrast(self.panel, group, late, early)

    def score_of(self, members: Floats, start: int) -> float:
        late = np.arange(self.days) >= start
        alone = panel(self.cells, Groups(((),), members[None, :], (False,)), self.usual)
        return _contrast(alone, 0, late, ~late).score

    def rows_by_day(self, group: int) -> Ints:
        return np.asarray(self.panel.count[group])

    def without_change(self, group: int, start: int, stop: int) -> Self:
        cells = self.cells.shifted(self.groups.members[group], start, stop)
        removed = self.removed + self.cells.level - cells.level
        return replace(self, cells=cells, removed=removed)


def with_usual_days(models: Iterable[SeriesModel]) -> Iterator[SeriesModel]:
    """Yield each model with the memory of days that is usual for levels of its sort.

    Conditions of a day move the logarithms of all phases alike, and hardly how many starts miss
    their cache.
    """
    evidence, unsure = defaultdict[LevelSort, list[Evidence]](list), list[SeriesModel]()
    for model in models:
        if isinstance(model, LevelModel):
            for levels in model.all_levels():
                evidence[levels.sort].append(levels.panel.evidence)
            unsure.append(model.with_usual({}))  # without the panels that it was read off
        else:
            unsure.append(model)
    usual = {sort: usual_memory(shown) for sort, shown in evidence.items()}
    for model in unsure:
        yield model.with_usual(usual) if isinstance(model, LevelModel) else model


def _contrast(panel: Panel, group: int, late: Flags, early: Flags) -> Contrast:
    error = float(panel.of(group).error(late[None, :], early[None, :])[0, 0])
    if not np.isfinite(error):
        return Contrast(0.0, 0.0)
    after, before = (
        _mean(panel.level[group, days], panel.precision[group, days]) for days in (late, early)
    )
    score = as_normal(np.array((after - before) / error), panel.freedom[group])
    return Contrast(float(score), after - before)


def shift(before: Floats, after: Floats) -> float:
    """Return the median of all differences between both sides (Hodges and Lehmann 1963)."""
    if not len(before) or not len(after):
        return 0.0
    return float(np.median(_thinned(after)[:, None] - _thinned(before)[None, :]))


def _thinned(values: Floats) -> Floats:
    if len(values) <= _MOST_VALUES:
        return values
    places = (np.arange(_MOST_VALUES) + 0.5) / _MOST_VALUES
    return np.asarray(np.quantile(values, places))


def interval(level: Floats, precision: Floats, late: Flags) -> tuple[float, float]:
    """Return the lower and upper error of the change of *level*.

    Days are resampled with all that they hold, on both sides of the onset, since values of one
    day are not independent (block bootstrap). A few days are too similar to resample, so it is
    never less than the standard errors.
    """
    sides = [_resampled(level[days], precision[days]) for days in (late, ~late)]
    drawn = sides[0] - sides[1]
    error = np.sqrt(sum(1 / max(float(precision[days].sum()), 1e-12) for days in (late, ~late)))
    middle = _mean(level[late], precision[late]) - _mean(level[~late], precision[~late])
    low, high = np.percentile(drawn - middle, _INTERVAL)
    return min(float(low), -Z_95 * float(error)), max(float(high), Z_95 * float(error))


def _resampled(level: Floats, precision: Floats) -> Floats:
    """Return the mean of *level* in each draw of its days."""
    present = precision > 0
    level, precision = level[present], precision[present]
    if not len(level):
        return np.zeros(_DRAWS)
    times = _times(len(level))
    return np.asarray((times @ (precision * level)) / (times @ precision))


@lru_cache(maxsize=64)
def _times(days: int) -> Floats:
    """Return how often each of *days* is drawn, draw by draw; the same at every call."""
    draws = np.random.default_rng(days)
    return draws.multinomial(days, np.full(days, 1 / days), _DRAWS).astype(np.float64)


def _mean(level: Floats, precision: Floats) -> float:
    whole = float(precision.sum())
    return float((precision * level).sum()) / whole if whole else 0.0


def medians(values: Floats, group: NDArray[np.intp], size: int) -> Floats:
    """Return the median of each of *size* groups; NaN for one without values."""
    medians = np.full(size, np.nan)
    if not len(values):
        return medians
    least = float(values.min())
    apart = float(values.max()) - least + 1.0  # groups one after the other, in one fast sort
    ordered = np.sort(values - least + group * apart)
    count = np.bincount(group, minlength=size)
    first = np.cumsum(count) - count
    some = np.flatnonzero(count)
    low, high = first[some] + (count[some] - 1) // 2, first[some] + count[some] // 2
    medians[some] = (ordered[low] + ordered[high]) / 2 - some * apart + least
    return medians


def log_with_zeros(us: NDArray[np.int64]) -> Floats:
    """Return logarithms; 0 counts as a fixed part of the median, so that units do not matter."""
    positive = us[us > 0]
    zero = float(np.median(positive)) * _ZERO if len(positive) else 1.0
    return np.log(np.where(us > 0, us, zero))
