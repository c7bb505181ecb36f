"""The shapes of simulated fleets: laws of durations, days with memory, and how cohorts differ.

The plain fleet is that of ``parameters``. All others have twelve cohorts whose sizes follow Zipf's
law, and one or several peculiarities.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum, auto
from functools import cached_property
from typing import Final

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaincinv, ndtr, polygamma, stdtrit

from benchmarks.detectors.fleets import parameters
from benchmarks.detectors.fleets.parameters import CHANGED_ON, DAYS
from ett_service.core.regressions.finding import SeriesCohort
from ett_service.detection.sample import Floats, Ints

MISS_SHARE: Final = 0.3  #: of the lengths of a fleet in which each phase has a cache
MISS_FACTOR: Final = 8.0
WORSE_MISS_SHARE: Final = 0.7  #: once the hits fall
ZIPF_COHORTS: Final = 12
QUIET_WEEKEND_LOAD: Final = 0.25
DAY_MEMORY: Final = 0.6  #: correlation of a day's conditions with those of the day before
ROUGH_DAYS: Final = 2.0  #: how much more such conditions spread where they have memory
SIZES_SHIFT_ON: Final = CHANGED_ON + 2
_HEAVY_FREEDOM = 3.0  #: degrees of freedom of a Student's t


class Law(StrEnum):
    """The distribution of a duration; the spread of its logarithm is that of ``parameters``."""

    LOG_NORMAL = auto()
    GAMMA = auto()
    WEIBULL = auto()
    HEAVY = auto()  #: the logarithm has Student's t with three degrees of freedom
    LAPLACE = auto()  #: the logarithm is Laplace's
    UNIFORM = auto()  #: the logarithm is uniform


@dataclass(frozen=True, slots=True)
class CohortPlan:
    """The cohorts of a fleet."""

    cohorts: tuple[SeriesCohort, ...]
    shares: tuple[float, ...]  #: of the jobs that each starts
    cluster_of: tuple[int, ...]  #: indices of ``parameters.CLUSTERS``


@dataclass(frozen=True)
class Shape:
    """What a fleet is like before anything is planted."""

    name: str = ""  #: in the name of a cell; empty for the plain one
    law: Law = Law.LOG_NORMAL
    has_modes: bool = False  #: whether every phase hits or misses a cache
    modes_are_known: bool = False  #: whether the state of that cache is in the stratum
    day_memory: float = 0.0  #: correlation of a day's conditions with those of the day before
    day_spread: float = 1.0  #: of a day's conditions, relative to that of ``parameters``
    quiet_weekends: bool = False
    come_and_go: bool = False  #: whether the four smallest cohorts do
    sizes_shift: bool = False  #: whether other sizes prevail in every second cohort, from a day on

    @cached_property
    def plan(self) -> CohortPlan:
        """The cohorts of such a fleet."""
        return _ZIPF if self.name else _PLAIN

    def load(self, weekday: Ints) -> Floats:
        """Return cohorts by days: jobs that are started, relative to the mean; 0 is Monday."""
        days = np.arange(len(weekday)) + DAYS - len(weekday)
        load = np.ones((len(self.plan.cohorts), len(weekday)))
        if self.quiet_weekends:
            load[:, weekday >= parameters.SATURDAY] *= QUIET_WEEKEND_LOAD
        if self.come_and_go:
            for cohort, (begin, end) in zip(range(-len(_LIVES), 0), _LIVES, strict=True):
                load[cohort] *= (days >= begin) & (days < end)
        return load

    def eligible(self, attempts_per_day: int) -> list[int]:
        """Return the cohorts in which a change may be planted: those of an attempt a day or more.

        Those of the plain fleet all are.
        """
        lasting = len(self.plan.cohorts) - (len(_LIVES) if self.come_and_go else 0)
        return [
            cohort
            for cohort, share in enumerate(self.plan.shares[:lasting])
            if not self.name or share * attempts_per_day >= 1
        ]

    def remembered(self, normal: Floats) -> Floats:
        """Give independent conditions their spread, and memory along the second axis: days."""
        remembered = normal * self.day_spread
        if not self.day_memory:
            return remembered
        fresh, normal = np.sqrt(1 - self.day_memory**2), remembered.copy()
        for day in range(1, normal.shape[1]):
            remembered[:, day] = self.day_memory * remembered[:, day - 1] + fresh * normal[:, day]
        return remembered

    def logs(self, normal: Floats, spread: Floats) -> Floats:
        """Return logarithms of the law, as rare as *normal* ones, with a median of 0."""
        below = np.clip(ndtr(normal), 1e-12, 1 - 1e-12)
        return normal * spread if self.law is Law.LOG_NORMAL else _LOGS[self.law](below, spread)


def _weibull_logs(below: Floats, spread: Floats) -> Floats:
    log = np.log(-np.log1p(-below)) - np.log(np.log(2))
    return np.asarray(log * spread * np.sqrt(6) / np.pi)


def _heavy_logs(below: Floats, spread: Floats) -> Floats:
    return np.asarray(stdtrit(_HEAVY_FREEDOM, below) * spread / np.sqrt(_HEAVY_FREEDOM))


def _laplace_logs(below: Floats, spread: Floats) -> Floats:
    side = np.sign(below - 0.5)
    return np.asarray(-side * np.log1p(-np.abs(2 * below - 1)) * spread / np.sqrt(2))


def _uniform_logs(below: Floats, spread: Floats) -> Floats:
    return np.asarray((below - 0.5) * spread * np.sqrt(12))


def _gamma_logs(below: Floats, spread: Floats) -> Floats:
    """Return logarithms of gamma variables whose logarithms spread so much, column by column."""
    columns = []
    for column, of_column in zip(below.T, np.broadcast_to(spread, below.shape[1]), strict=True):
        form = brentq(lambda k, own=of_column: polygamma(1, k) - own**2, 1e-2, 1e6)
        columns.append(np.log(gammaincinv(form, column) / gammaincinv(form, 0.5)))
    return np.stack(columns, axis=1)


_LOGS: Mapping[Law, Callable[[Floats, Floats], Floats]] = {
    Law.GAMMA: _gamma_logs,
    Law.WEIBULL: _weibull_logs,
    Law.HEAVY: _heavy_logs,
    Law.LAPLACE: _laplace_logs,
    Law.UNIFORM: _uniform_logs,
}


def _zipf() -> CohortPlan:
    ranks = np.arange(1, ZIPF_COHORTS + 1)
    shares = 1 / ranks / (1 / ranks).sum()
    cluster_of = tuple(int(rank) % len(parameters.CLUSTERS) for rank in ranks)
    cohorts = tuple(
        (("cluster", parameters.CLUSTERS[cluster]), ("model", f"model-{rank}"))
        for rank, cluster in zip(ranks.tolist(), cluster_of, strict=True)
    )
    return CohortPlan(cohorts, tuple(shares.tolist()), cluster_of)


_PLAIN = CohortPlan(parameters.COHORTS, parameters.COHORT_SHARES, parameters.CLUSTER_OF)
_ZIPF = _zipf()
_LIVES = ((0, 40), (20, 50), (30, DAYS), (44, DAYS))
"""First and last day of the four smallest cohorts, where cohorts come and go."""

PLAIN = Shape()
SHAPES: Mapping[str, Shape] = {
    shape.name: shape
    for shape in (
        PLAIN,
        Shape("zipf"),
        Shape("gamma", Law.GAMMA),
        Shape("weibull", Law.WEIBULL),
        Shape("heavy", Law.HEAVY),
        Shape("laplace", Law.LAPLACE),
        Shape("uniform", Law.UNIFORM),
        Shape("bimodal", has_modes=True),
        Shape("known", has_modes=True, modes_are_known=True),
        Shape("ar1", day_memory=DAY_MEMORY, day_spread=ROUGH_DAYS),
        Shape("weekends", quiet_weekends=True),
        Shape("churn", come_and_go=True),
        Shape("sizes", sizes_shift=True),
        Shape(
            "wild",
            Law.GAMMA,
            has_modes=True,
            day_memory=DAY_MEMORY,
            day_spread=ROUGH_DAYS,
            quiet_weekends=True,
            come_and_go=True,
            sizes_shift=True,
        ),
    )
}
"""By name. ``uniform`` is kept for checks: nothing was tuned on it."""
