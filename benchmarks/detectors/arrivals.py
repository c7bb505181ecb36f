"""Draws the jobs of a made-up fleet: when they are submitted, and in which shape.

Every kind of draw has a stream of its own, so that a fleet with something planted is the fleet of
the same seed without it in everything else.
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from benchmarks.detectors import makeup
from benchmarks.detectors.scenario import CHANGED_ON, DAYS, Kind, Scenario

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

RUN_IN = 4  #: days before the first, so that jobs are going on when it begins
ALL_DAYS = RUN_IN + DAYS
_FIRST = date(2026, 1, 1)
_PER_JOB = 1.0 / (1.0 - makeup.PREEMPTED - makeup.FAILED * makeup.RETRIED)


def stream(seed: int, name: str) -> np.random.Generator:
    """Return the draws of one kind; they depend on nothing but *seed* and *name*."""
    return np.random.default_rng([seed, *name.encode()])


@dataclass(frozen=True, slots=True)
class Calendar:
    """What the days of a fleet bring; the first of the arrays' is ``RUN_IN`` days before it."""

    first_us: int  #: the fleet's first midnight
    load: Floats  #: how many jobs are started, beside a mean day
    queueing: Floats  #: how long scheduling takes, beside a mean day


def calendar(seed: int) -> Calendar:
    """Return days that begin on any day of a year."""
    first = _FIRST + timedelta(days=int(stream(seed, "calendar").integers(365)))
    days = [first + timedelta(days=place - RUN_IN) for place in range(ALL_DAYS)]
    ends = np.array(
        [(day + timedelta(days=makeup.MONTH_END_DAYS)).month != day.month for day in days]
    )
    weekday = np.array([day.weekday() for day in days])
    since = datetime(first.year, first.month, first.day, tzinfo=UTC).timestamp()
    return Calendar(
        round(since) * 1_000_000,
        np.array(makeup.LOAD)[weekday] * np.where(ends, makeup.MONTH_END_LOAD, 1.0),
        np.array(makeup.QUEUEING)[weekday] * np.where(ends, makeup.MONTH_END_QUEUEING, 1.0),
    )


@dataclass(frozen=True, slots=True)
class Jobs:
    """Jobs, one a row."""

    cohort: Ints  #: a place in ``makeup.COHORTS``
    submitted: Floats  #: days since the fleet's first midnight
    gpus: Ints
    hardware: Ints  #: a place in ``makeup.HARDWARE``


def submit(seed: int, scenario: Scenario, load: Floats, grown: int) -> Jobs:
    """Draw the jobs; cohort *grown* starts twice as many once the mix has shifted."""
    mean = scenario.attempts_per_day / _PER_JOB * np.outer(makeup.WEIGHTS, load)
    cohort, day = _drawn(stream(seed, "jobs"), mean)
    if scenario.kind is Kind.MIX:
        more = np.zeros_like(mean)
        more[grown, RUN_IN + CHANGED_ON :] = mean[grown, RUN_IN + CHANGED_ON :]
        further = _drawn(stream(seed, "more"), more)
        cohort, day = np.append(cohort, further[0]), np.append(day, further[1])
    submitted = day + stream(seed, "times").random(len(day))
    return Jobs(cohort, submitted, *_shapes(seed, cohort))


def _drawn(draws: np.random.Generator, mean: Floats) -> tuple[Ints, Floats]:
    numbers = draws.poisson(mean).ravel()
    cohort, place = (np.repeat(where.ravel(), numbers) for where in np.indices(mean.shape))
    return cohort.astype(np.int64), place.astype(np.float64) - RUN_IN


def _shapes(seed: int, cohort: Ints) -> tuple[Ints, Ints]:
    main = stream(seed, "sizes").integers(len(makeup.SIZES), size=len(makeup.COHORTS))
    drawn = stream(seed, "shapes").random((len(cohort), 2))
    other = drawn[:, 0] >= makeup.MAIN_SIZE
    elsewhere = drawn[:, 1] < makeup.OTHER_HARDWARE
    own = np.array(makeup.CLUSTER_OF)[cohort]
    size = (main[cohort] + other) % len(makeup.SIZES)
    return np.array(makeup.SIZES)[size], (own + elsewhere) % len(makeup.HARDWARE)
