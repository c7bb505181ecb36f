"""Simulates the attempts of each job: how long every phase takes, and how they end."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import IntEnum, auto

import numpy as np

from benchmarks.detectors.fleets import parameters
from benchmarks.detectors.fleets.parameters import CHANGED_ON, DAYS
from benchmarks.detectors.fleets.scenario import (
    LAST_RELEASE,
    Planting,
    UsualAttempts,
    plant,
    stream,
)
from benchmarks.detectors.fleets.shape import MISS_FACTOR, MISS_SHARE, Shape
from benchmarks.detectors.fleets.submissions import ALL_DAYS, RUN_IN, SubmittedJobs
from ett_service.detection.sample import Flags, Floats, Ints

DAY_S = 86_400.0
HUNG_S = DAY_S  #: until somebody kills an attempt that hangs
_NUM_VALUES: Mapping[str, int] = {"image": 3, "host": 4, "source": 3}
_UPTAKE = 0.9  #: share of the jobs that run the newest release
_RELEASE_DAYS = 7


class AttemptOutcome(IntEnum):
    """How an attempt ends."""

    COMPLETED = 0
    INFRA = auto()
    USER = auto()
    PREEMPTED = auto()


@dataclass(frozen=True, slots=True)
class SimulatedAttempts:
    """Attempts, one a row."""

    job: Ints
    number: Ints
    cohort: Ints
    start: Floats  #: days since the fleet's first midnight
    gpus: Ints
    hardware: Ints
    lengths: Floats  #: seconds by phase of ``parameters.PHASES``; of one save for ``SAVING``
    save_factors: Floats  #: on the length of each save
    surplus: Floats  #: seconds of ``lengths`` that are planted
    run: Floats  #: seconds from its first batch to its shutdown, saves included
    outcome: Ints
    stuck: Ints  #: the phase that it never left; past the last for none
    waited: Floats  #: seconds since the previous attempt; NaN for the first of a job
    values: Ints  #: by dimension of ``parameters.DIMENSIONS``
    step_s: Floats  #: mean seconds of its steps
    step_factor: Floats  #: the part of it that is planted
    large_batch: Flags  #: whether its steps take twice the tokens
    missed: Ints  #: by phase, 1 where it missed its cache

    @property
    def saves(self) -> Ints:
        """How many checkpoints each of them saved."""
        return np.asarray(self.run // parameters.SAVE_EVERY_S, dtype=np.int64)

    @property
    def loop_at(self) -> Floats:
        """When each of them trained its first batch, in days."""
        start_s = self.lengths[:, : parameters.START_PHASES].sum(axis=1)
        return np.asarray(self.start + start_s / DAY_S)

    @property
    def ended_at(self) -> Floats:
        """When each of them was over, in days."""
        ended = self.loop_at + (self.run + self.lengths[:, parameters.SHUTDOWN]) / DAY_S
        return np.where(self.stuck < len(parameters.PHASES), self.start + HUNG_S / DAY_S, ended)


def simulate_attempts(
    seed: int, jobs: SubmittedJobs, queueing: Floats, planting: Planting
) -> SimulatedAttempts:
    """Draw every attempt of *jobs* that starts before the fleet ends."""
    draws = _AttemptDraws(
        seed, jobs, _median_logs(seed, queueing, planting.scenario.shape), planting
    )
    rows, start = np.arange(len(jobs.cohort)), jobs.submitted
    waited = np.full(len(rows), np.nan)
    rounds: list[SimulatedAttempts] = []
    for number in range(parameters.MOST_ATTEMPTS):
        attempts = draws.attempt(number, rows, start, waited)
        rounds.append(attempts)
        retried = draws.retried(attempts)
        rows = rows[retried]
        waits = draws.stream(f"waits/{number}").exponential(parameters.RESTART_WAIT_S, draws.jobs)
        waited = waits[rows]
        start = attempts.ended_at[retried] + waited / DAY_S
        in_time = start < DAYS
        rows, waited, start = rows[in_time], waited[in_time], start[in_time]
    names = (column.name for column in fields(SimulatedAttempts))
    return SimulatedAttempts(
        *(np.concatenate([getattr(attempts, name) for attempts in rounds]) for name in names)
    )


def _median_logs(seed: int, queueing: Floats, shape: Shape) -> Floats:
    """Return the logarithm of the median seconds by cohort, day and phase."""
    size = (len(shape.plan.cohorts), ALL_DAYS, len(parameters.PHASES))
    of_cohort = stream(seed, "cohorts").normal(
        0, parameters.COHORT_MEDIAN_SPREAD, (size[0], 1, size[2])
    )
    of_cohort_day = stream(seed, "days of cohorts").normal(0, parameters.COHORT_DAY_SPREAD, size)
    of_cluster_day = stream(seed, "days of clusters").normal(
        0, parameters.CLUSTER_DAY_SPREAD, (len(parameters.CLUSTERS), *size[1:])
    )
    logs = np.log([phase.median_s for phase in parameters.PHASES]) + of_cohort
    logs = logs + shape.remembered(of_cohort_day)
    logs += shape.remembered(of_cluster_day)[list(shape.plan.cluster_of)]
    logs[:, :, parameters.SCHEDULING] += np.log(queueing)
    return np.asarray(logs)


class _AttemptDraws:
    """The random numbers of attempts. They are drawn by job: no attempt changes another's."""

    def __init__(
        self, seed: int, jobs: SubmittedJobs, median_logs: Floats, planting: Planting
    ) -> None:
        self._seed = seed
        self._submitted = jobs
        self._median_logs = median_logs
        self._planting = planting
        self._shape = planting.scenario.shape
        self.jobs = len(jobs.cohort)
        self._of_job = self._normal("of jobs", parameters.JOB_SPREAD)
        batches = self.stream("batches").random(self.jobs)
        self._large_batch = batches < parameters.LARGE_BATCH_SHARE

    def stream(self, name: str) -> np.random.Generator:
        """Return the random numbers for one purpose."""
        return stream(self._seed, name)

    def attempt(self, number: int, rows: Ints, start: Floats, waited: Floats) -> SimulatedAttempts:
        """Draw one attempt of each of the jobs *rows*."""
        cohort = self._submitted.cohort[rows]
        day = np.floor(start).astype(np.int64)
        values = self._values(number, rows, day)
        missed = self._missed(number)[rows]
        usual = np.exp(self._logs(number, rows, day, values)) * MISS_FACTOR**missed
        chance = self.stream(f"planted/{number}").random((self.jobs, 3))[rows]
        planted = plant(self._planting, UsualAttempts(usual, missed, cohort, day, values), chance)
        run_log = self.stream(f"runs/{number}").normal(0, parameters.RUN_SPREAD, self.jobs)[rows]
        return SimulatedAttempts(
            job=rows,
            number=np.full(len(rows), number),
            cohort=cohort,
            start=start,
            gpus=self._submitted.gpus[rows],
            hardware=self._submitted.hardware[rows],
            lengths=planted.lengths,
            save_factors=self._save_factors(number)[rows],
            surplus=planted.lengths - usual,
            run=np.minimum(parameters.RUN_S * np.exp(run_log), parameters.LONGEST_RUN_S),
            outcome=self._outcomes(number, rows, planted.failure_chance),
            stuck=planted.stuck,
            waited=waited,
            values=values,
            step_s=self._step_seconds(number, rows, day) * planted.step_factor,
            step_factor=planted.step_factor,
            large_batch=self._large_batch[rows],
            missed=planted.missed,
        )

    def retried(self, attempts: SimulatedAttempts) -> Flags:
        """Return which jobs go on: the preempted, and most that failed."""
        number = attempts.number.max(initial=0)
        chance = self.stream(f"retries/{number}").random(self.jobs)[attempts.job]
        failed = np.isin(attempts.outcome, (AttemptOutcome.INFRA, AttemptOutcome.USER))
        goes_on = attempts.outcome == AttemptOutcome.PREEMPTED
        goes_on |= failed & (chance < parameters.RETRIED_SHARE)
        return np.asarray(goes_on & (attempts.stuck == len(parameters.PHASES)))

    def _logs(self, number: int, rows: Ints, day: Ints, values: Ints) -> Floats:
        """Return the logarithm of the seconds by attempt and phase, without the change."""
        phases, cohort = parameters.PHASES, self._submitted.cohort[rows]
        log = self._median_logs[cohort, day + RUN_IN] + self._of_job[rows]
        normal = self._normal(f"lengths/{number}", 1.0)[rows]
        log += self._shape.logs(normal, np.array([phase.spread for phase in phases]))
        doublings = np.log2(self._submitted.gpus[rows] / parameters.SIZES[0])
        log += np.outer(doublings, [phase.by_size for phase in phases])
        own = np.array(self._shape.plan.cluster_of)[cohort] % len(parameters.HARDWARE)
        log += parameters.SLOWER_HARDWARE * (self._submitted.hardware[rows] != own)[:, None]
        log += np.array([phase.restart for phase in phases]) * (number > 0)
        warm = values[:, parameters.DIMENSIONS.index("cache")] == 0
        log[:, parameters.COMPILE] += np.log(1 - parameters.WARM_CACHE_SAVES) * warm
        tail = self.stream(f"tails/{number}").random((self.jobs, len(phases), 2))[rows]
        least, most = np.log(parameters.TAIL_FACTORS)
        log += (tail[..., 0] < parameters.TAIL_SHARE) * (least + tail[..., 1] * (most - least))
        return np.asarray(log)

    def _step_seconds(self, number: int, rows: Ints, day: Ints) -> Floats:
        """Return the mean seconds of the steps of each attempt, without the change."""
        cohort = self._submitted.cohort[rows]
        of_model = self.stream("steps of models").normal(size=len(self._shape.plan.cohorts))
        of_job = self.stream("steps of jobs").normal(size=self.jobs)
        of_day = self.stream("steps of days").normal(size=(len(parameters.CLUSTERS), ALL_DAYS))
        drawn = self.stream(f"steps/{number}")
        of_attempt, slow_host = drawn.normal(size=self.jobs), drawn.random((self.jobs, 2))[rows]
        log = parameters.STEP_MODEL_SPREAD * of_model[cohort] + np.log(parameters.STEP_S)
        log += parameters.STEP_JOB_SPREAD * of_job[rows]
        log += parameters.STEP_ATTEMPT_SPREAD * of_attempt[rows]
        cluster = np.array(self._shape.plan.cluster_of)[cohort]
        log += parameters.STEP_DAY_SPREAD * of_day[cluster, day + RUN_IN]
        log += np.log(2) * self._large_batch[rows]
        least, most = np.log(parameters.STEP_TAIL_FACTORS)
        tail = slow_host[:, 0] < parameters.STEP_TAIL_SHARE
        return np.asarray(np.exp(log + tail * (least + slow_host[:, 1] * (most - least))))

    def _missed(self, number: int) -> Ints:
        """Return which phases miss their cache, by job."""
        chance = self.stream(f"modes/{number}").random((self.jobs, len(parameters.PHASES)))
        return np.asarray(chance < MISS_SHARE * self._shape.has_modes, dtype=np.int64)

    def _normal(self, name: str, spread: float) -> Floats:
        drawn = self.stream(name).normal(size=(self.jobs, len(parameters.PHASES)))
        return np.asarray(drawn * spread)

    def _save_factors(self, number: int) -> Floats:
        drawn = self.stream(f"saves/{number}").normal(size=(self.jobs, parameters.MOST_SAVES))
        return np.asarray(np.exp(parameters.SAVE_SPREAD * drawn))

    def _values(self, number: int, rows: Ints, day: Ints) -> Ints:
        """Draw a value of each dimension; code is released weekly, until ``CHANGED_ON``."""
        dimensions = parameters.DIMENSIONS
        late = self.stream("uptake").random(self.jobs)[rows] >= _UPTAKE
        chance = self.stream(f"values/{number}").random((self.jobs, len(dimensions)))[rows]
        num_values = [_NUM_VALUES.get(name, 1) for name in dimensions]
        values = np.floor(chance * num_values).astype(np.int64)
        release = (np.minimum(day, CHANGED_ON) - CHANGED_ON) // _RELEASE_DAYS + LAST_RELEASE
        values[:, dimensions.index("code_version")] = np.maximum(release - late, 0)
        cold = chance[:, dimensions.index("cache")] >= parameters.WARM_CACHE_SHARE
        values[:, dimensions.index("cache")] = cold
        return values

    def _outcomes(self, number: int, rows: Ints, failure_chance: Floats) -> Ints:
        """Draw how attempts end."""
        chance = self.stream(f"outcomes/{number}").random((self.jobs, 3))[rows]
        infra = chance[:, 1] < parameters.INFRA_SHARE
        preempted = chance[:, 2] < parameters.PREEMPTED_SHARE / (1 - parameters.FAILED_SHARE)
        failure = np.where(infra, AttemptOutcome.INFRA, AttemptOutcome.USER)
        other = np.where(preempted, AttemptOutcome.PREEMPTED, AttemptOutcome.COMPLETED)
        return np.where(chance[:, 0] < failure_chance, failure, other)
