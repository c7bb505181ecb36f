"""The series model: what every kind of values can be asked."""

from dataclasses import dataclass
from typing import Protocol

from ett_service.core.regressions.finding import Side, Subject
from ett_service.detection.onset import Fewest, Starts
from ett_service.detection.options import Options
from ett_service.detection.panel import Groups
from ett_service.detection.sample import Flags, Floats, Ints

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
