"""What watches of levels have in common: durations, and ETT%."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from ett_service.core.regression import Subject
from ett_service.detection import onset
from ett_service.detection.margins import Groups
from ett_service.detection.options import Options
from ett_service.detection.panel import Cells, Flags, Panel, panel
from ett_service.detection.sample import Floats, Ints
from ett_service.detection.watch import Halves
from ett_service.detection.window import Window


@dataclass(frozen=True)
class LevelWatch:
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
        _mean(found.level[group, days], found.precision[group, days]) for days in (late, early)
    )
    if not sure_after or not sure_before:
        return Halves(0.0, 0.0)
    raw = (after - before) / np.sqrt(1 / sure_after + 1 / sure_before)
    return Halves(float(onset.as_normal(raw, found.freedom[group])), after - before)


def _mean(level: Floats, precision: Floats) -> tuple[float, float]:
    sure = float(precision.sum())
    return (float(level @ precision) / sure if sure else 0.0), sure
