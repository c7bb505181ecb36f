"""What every kind of values can be asked: where a change may lie, and what it amounts to."""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ett_service.core.regression import Side, Subject
from ett_service.detection.margins import Groups
from ett_service.detection.onset import Starts, as_normal
from ett_service.detection.panel import Flags, Panel
from ett_service.detection.sample import Floats, Ints


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


class Watch(Protocol):
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

    def starts(self, most: int) -> Starts:
        """Compare the last 1 to *most* days of each group with those before."""
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

    def shifted(self, group: int, start: int, stop: int) -> "Watch":
        """Return the same without what is other in the group's cohorts on these days."""
        ...


def between(found: Panel, group: int, late: Flags, early: Flags) -> Halves:
    """Compare the levels of a group's *late* days with those of its *early* ones."""
    (after, sure_after), (before, sure_before) = (
        _mean(found.level[group, days], found.precision[group, days]) for days in (late, early)
    )
    if not sure_after or not sure_before:
        return Halves(0.0, 0.0)
    raw = (after - before) / math.sqrt(1 / sure_after + 1 / sure_before)
    score = as_normal(np.array([raw]), found.freedom[group : group + 1])
    return Halves(float(score[0]), after - before)


def _mean(level: Floats, precision: Floats) -> tuple[float, float]:
    sure = float(precision.sum())
    return (float(level @ precision) / sure if sure else 0.0), sure
