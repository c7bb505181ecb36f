"""Totals: sums of microseconds and counts over jobs and time, and what they say once divided.

Nothing is averaged: totals are added, then divided, once, here. A store keeps ``MEASURES`` as
columns; every one is an integer that adds up over cohorts and over time.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from ett_service.core.fleet.distribution import RATIO_PLACES, Tally, summed
from ett_service.core.intervals import DAY_US, HOUR_US
from ett_service.core.words import Category, Period


@dataclass(frozen=True, slots=True)
class Names:
    """What the measures of one weight are called."""

    categories: Mapping[Category, str]
    periods: Mapping[Period, str]
    wasted: str


def _names(weight: str) -> Names:
    return Names(
        {category: f"{category}{weight}_us" for category in Category},
        {period: f"{period}_period{weight}_us" for period in Period},
        f"wasted{weight}_us",
    )


PLAIN = _names("")
WEIGHTED = _names("_weighted")

MEASURES: tuple[str, ...] = (
    *PLAIN.categories.values(),
    *WEIGHTED.categories.values(),
    "restart_wait_gpu_us",
    *PLAIN.periods.values(),
    *WEIGHTED.periods.values(),
    PLAIN.wasted,
    WEIGHTED.wasted,
    "unweighted_us",
    "queue_wait_us",
    "unsaved_us",
    "unsaved_weighted_us",
    "failures",
    "infra_failures",
    "preemptions",
    "attempts",
    "jobs_hour",
    "jobs_day",
    "jobs_started",
    "jobs_ended",
    "jobs_ended_unweighted",
    "jobs_left_out",
    "samples",
    "samples_known",
    "samples_us",
    "samples_weighted_us",
    "tokens",
    "tokens_known",
    "tokens_us",
    "tokens_weighted_us",
    "tokens_gpu_us",
    "teraflops",
    "teraflops_weighted_us",
    "cells",
)
"""What is summed.

``<category>_us`` and ``<period>_period_us`` are wall time, ``_weighted_us`` the same times
accelerators; ``restart_wait_gpu_us`` is the part of the waits in which they were held, see
:meth:`Totals.category_gpu_us`. ``wasted`` is the wasted categories' time inside ``training``,
``unweighted_us`` the time of attempts whose accelerators are unknown. Jobs count in
``jobs_hour`` once in every hour in which they live, in ``jobs_day`` in the first such hour of a
day, in ``jobs_started`` in the first of all: how many jobs a window knew is the first bucket's
``jobs_hour`` (or ``jobs_day``) and the later buckets' ``jobs_started``. ``jobs_ended`` is where a
job's time ends. ``samples``, ``tokens`` and ``teraflops`` (10^12 operations) are what jobs
report; beside them stands the effective time of the jobs that do, and ``tokens_gpu_us``, all GPU
time of those that report tokens. ``samples_known``, ``tokens_known`` and ``teraflops`` go with
weighted time and leave out jobs whose accelerators are unknown. ``cells`` counts what was summed.
"""

JOB_ETT = "job_ett"
"""The tally of jobs by their own ETT%, in places of ``distribution.ratio_place``."""

PHASE = "phase:"
"""What the tallies of phases begin with, of attempts that have left them: ``phase:shutdown``."""

FAILURE = "failure:"
"""What the tallies of failures begin with: ``failure:infra/network``."""


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums by measure, absent where 0, and tallies by name."""

    ZERO: ClassVar["Totals"]

    sums: Mapping[str, int] = field(default_factory=dict)
    tallies: Mapping[str, Tally] = field(default_factory=dict)

    def __getitem__(self, measure: str) -> int:
        """Return one sum."""
        return self.sums.get(measure, 0)

    def __add__(self, other: "Totals") -> "Totals":
        """Put both together."""
        names = self.tallies.keys() | other.tallies.keys()
        return Totals(
            summed(self.sums, other.sums, 1),
            {name: self.tally(name) + other.tally(name) for name in names},
        )

    def __sub__(self, other: "Totals") -> "Totals":
        """Take the other out again."""
        names = self.tallies.keys() | other.tallies.keys()
        return Totals(
            summed(self.sums, other.sums, -1),
            {name: self.tally(name) - other.tally(name) for name in names},
        )

    def tally(self, name: str) -> Tally:
        """Return one distribution; an empty one where nothing was counted."""
        return self.tallies.get(name, Tally())

    def category_us(self, category: Category) -> int:
        """Return its wall time."""
        return self[PLAIN.categories[category]]

    def category_weighted_us(self, category: Category) -> int:
        """Return its time times accelerators."""
        return self[WEIGHTED.categories[category]]

    def category_gpu_us(self, category: Category) -> int:
        """Return the part of its weighted time in which accelerators were held."""
        if category is Category.SCHEDULING:
            return 0
        if category is Category.RESTART_WAIT:
            return self["restart_wait_gpu_us"]
        return self.category_weighted_us(category)

    def period_us(self, period: Period) -> int:
        """Return its wall time."""
        return self[PLAIN.periods[period]]

    @property
    def e2e_us(self) -> int:
        """Wall time in all."""
        return sum(map(self.category_us, Category))

    @property
    def weighted_us(self) -> int:
        """Time times accelerators in all: the weight of the headline."""
        return sum(map(self.category_weighted_us, Category))

    @property
    def gpu_us(self) -> int:
        """Accelerators' time that was held, and is paid for."""
        return sum(map(self.category_gpu_us, Category))

    @property
    def effective_us(self) -> int:
        """Wall time of effective training."""
        return self.category_us(Category.EFFECTIVE_TRAINING)

    @property
    def effective_weighted_us(self) -> int:
        """Effective training times accelerators."""
        return self.category_weighted_us(Category.EFFECTIVE_TRAINING)

    @property
    def lost_weighted_us(self) -> int:
        """Time times accelerators that was not effective."""
        return self.weighted_us - self.effective_weighted_us

    @property
    def ett_ratio(self) -> float:
        """ETT%, weighted by accelerators; 0 for no time at all."""
        return ratio(self.effective_weighted_us, self.weighted_us)

    @property
    def ett_ratio_wall(self) -> float:
        """ETT% by wall time, every job's second alike; 0 for no time at all."""
        return ratio(self.effective_us, self.e2e_us)

    @property
    def ett_ratio_median_job(self) -> float | None:
        """The median of the ETT% of the jobs that ended, to 0.0005; None without any."""
        bucket = self.tally(JOB_ETT).quantile_place(0.5)
        return None if bucket is None else min(1.0, (2 * bucket + 1) / (2 * RATIO_PLACES))

    @property
    def wasted_ratio(self) -> float:
        """WTT% by wall time: wasted in the period ``training``; 0 where nothing trained."""
        return ratio(self["wasted_us"], self.period_us(Period.TRAINING))

    @property
    def preemption_ratio(self) -> float | None:
        """Attempts that made room, over those that began; None where none began."""
        return _rate(self["preemptions"], self["attempts"])

    @property
    def failures_per_1000_gpu_hours(self) -> float | None:
        """Failures in so many hours of held accelerators; None where none were held."""
        return _rate(1_000 * HOUR_US * self["failures"], self.gpu_us)

    def failures_per_1000_node_days(self, accelerators_per_node: int) -> float | None:
        """Failures in so many days of held nodes; None where none were held."""
        return _rate(1_000 * DAY_US * accelerators_per_node * self["failures"], self.gpu_us)


Totals.ZERO = Totals()

GPU_MEASURES = tuple(name for name in MEASURES if Totals({name: 1}).gpu_us)
"""What :attr:`Totals.gpu_us` is the sum of, for what sums elsewhere."""


def ratio(part: int, whole: int) -> float:
    """Divide, once and last; 0 for an empty whole."""
    return part / whole if whole else 0.0


def _rate(part: int, whole: int) -> float | None:
    return part / whole if whole else None
