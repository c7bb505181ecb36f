"""Draws the jobs of a simulated fleet: when they are submitted, and their size and hardware."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

import numpy as np

from benchmarks.detectors.fleets import parameters
from benchmarks.detectors.fleets.parameters import CHANGED_ON, DAYS
from benchmarks.detectors.fleets.scenario import Scenario, ScenarioKind, stream
from benchmarks.detectors.fleets.shape import SIZES_SHIFT_ON, Shape
from ett_service.detection.sample import Floats, Ints

RUN_IN = 4  #: days before the first, so that jobs are running when the fleet begins
ALL_DAYS = RUN_IN + DAYS

_FIRST = date(2026, 1, 1)
_ATTEMPTS_PER_JOB = 1.0 / (
    1.0 - parameters.PREEMPTED_SHARE - parameters.FAILED_SHARE * parameters.RETRIED_SHARE
)


@dataclass(frozen=True, slots=True)
class FleetCalendar:
    """What depends on the day; arrays begin ``RUN_IN`` days before the fleet's first."""

    first_us: int  #: the fleet's first midnight
    load: Floats  #: jobs that are submitted, relative to a mean day
    weekday: Ints  #: 0 is Monday
    queueing: Floats  #: length of scheduling, relative to a mean day


def calendar(seed: int) -> FleetCalendar:
    """Return a calendar that begins on any day of a year."""
    first = _FIRST + timedelta(days=int(stream(seed, "calendar").integers(365)))
    days = [first + timedelta(days=index - RUN_IN) for index in range(ALL_DAYS)]
    month_ends = np.array(
        [(day + timedelta(days=parameters.MONTH_END_DAYS)).month != day.month for day in days]
    )
    weekday = np.array([day.weekday() for day in days])
    first_s = datetime(first.year, first.month, first.day, tzinfo=UTC).timestamp()
    load = np.array(parameters.WEEKDAY_LOAD)[weekday]
    queueing = np.array(parameters.WEEKDAY_QUEUEING)[weekday]
    return FleetCalendar(
        round(first_s) * 1_000_000,
        load * np.where(month_ends, parameters.MONTH_END_LOAD, 1.0),
        weekday,
        queueing * np.where(month_ends, parameters.MONTH_END_QUEUEING, 1.0),
    )


@dataclass(frozen=True, slots=True)
class SubmittedJobs:
    """Jobs, one a row."""

    cohort: Ints  #: an index of its shape's cohorts
    submitted: Floats  #: days since the fleet's first midnight
    gpus: Ints
    hardware: Ints  #: an index of ``parameters.HARDWARE``


def submit(seed: int, scenario: Scenario, days: FleetCalendar, grown: int) -> SubmittedJobs:
    """Draw the jobs; cohort *grown* starts twice as many once the mix has shifted."""
    jobs_per_day = scenario.attempts_per_day / _ATTEMPTS_PER_JOB
    shape = scenario.shape
    mean = jobs_per_day * np.outer(shape.plan.shares, days.load) * shape.load(days.weekday)
    cohort, day = _poisson(stream(seed, "jobs"), mean)
    if scenario.kind is ScenarioKind.MIX:
        more = np.zeros_like(mean)
        more[grown, RUN_IN + CHANGED_ON :] = mean[grown, RUN_IN + CHANGED_ON :]
        more_cohort, more_day = _poisson(stream(seed, "more"), more)
        cohort, day = np.append(cohort, more_cohort), np.append(day, more_day)
    submitted = day + stream(seed, "times").random(len(day))
    return SubmittedJobs(cohort, submitted, *_machines(seed, shape, cohort, day))


def _poisson(draws: np.random.Generator, mean: Floats) -> tuple[Ints, Floats]:
    """Return cohort and day of each job, of which *mean* are expected by cohort and day."""
    counts = draws.poisson(mean).ravel()
    cohort, day = (np.repeat(index.ravel(), counts) for index in np.indices(mean.shape))
    return cohort.astype(np.int64), day.astype(np.float64) - RUN_IN


def _machines(seed: int, shape: Shape, cohort: Ints, day: Floats) -> tuple[Ints, Ints]:
    """Return the accelerators and the hardware of each job."""
    sizes = len(parameters.SIZES)
    main_size = stream(seed, "sizes").integers(sizes, size=len(shape.plan.cohorts))
    chance = stream(seed, "shapes").random((len(cohort), 2))
    other_size = chance[:, 0] >= parameters.MAIN_SIZE_SHARE
    if shape.sizes_shift:
        other_size ^= (day >= SIZES_SHIFT_ON) & (cohort % 2 == 0)
    other_hardware = chance[:, 1] < parameters.OTHER_HARDWARE_SHARE
    own_hardware = np.array(shape.plan.cluster_of)[cohort]
    size = (main_size[cohort] + other_size) % sizes
    hardware = (own_hardware + other_hardware) % len(parameters.HARDWARE)
    return np.array(parameters.SIZES)[size], hardware
