"""Lets the jobs of a made-up fleet live: attempt after attempt, each phase as long as it takes."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import IntEnum, auto

import numpy as np

from benchmarks.detectors import makeup
from benchmarks.detectors.arrivals import ALL_DAYS, RUN_IN, Flags, Floats, Ints, Jobs, stream
from benchmarks.detectors.planting import LAST_RELEASE, Plan, plant
from benchmarks.detectors.scenario import CHANGED_ON, DAYS

DAY_S = 86_400.0
HUNG_S = DAY_S  #: until somebody kills what hangs
_MANY: Mapping[str, int] = {"image": 3, "host": 4, "source": 3}
_UPTAKE = 0.9  #: part of the jobs that run the newest release
_RELEASE_DAYS = 7


class Outcome(IntEnum):
    """How an attempt ends."""

    COMPLETED = 0
    INFRA = auto()
    USER = auto()
    PREEMPTED = auto()


@dataclass(frozen=True, slots=True)
class Attempts:
    """Attempts, one a row; a value is a number of its dimension's."""

    job: Ints
    number: Ints
    cohort: Ints
    start: Floats  #: days since the fleet's first midnight
    gpus: Ints
    hardware: Ints
    lengths: Floats  #: seconds by phase of ``makeup.PHASES``; of a save for ``SAVING``
    wobble: Floats  #: what the length of each save is multiplied by
    surplus: Floats  #: seconds of these that are planted
    run: Floats  #: seconds from its first batch to its shutdown, saves included
    outcome: Ints
    stuck: Ints  #: the phase that it never left; past the last for none
    waited: Floats  #: seconds since the attempt before; NaN for a first one
    values: Ints  #: by dimension of ``makeup.DIMENSIONS``

    @property
    def saves(self) -> Ints:
        """How often each of them saved."""
        return np.asarray(self.run // makeup.SAVE_EVERY_S, dtype=np.int64)

    @property
    def loop_at(self) -> Floats:
        """When each of them trained its first batch, in days."""
        return np.asarray(self.start + self.lengths[:, : makeup.STARTING].sum(axis=1) / DAY_S)

    @property
    def ended_at(self) -> Floats:
        """When each of them was over, in days."""
        whole = self.loop_at + (self.run + self.lengths[:, makeup.SHUTDOWN]) / DAY_S
        return np.where(self.stuck < len(makeup.PHASES), self.start + HUNG_S / DAY_S, whole)


def live(seed: int, jobs: Jobs, queueing: Floats, plan: Plan) -> Attempts:
    """Draw every attempt of *jobs* that starts before the fleet ends."""
    world = _World(seed, jobs, _medians(seed, queueing), plan)
    rows, start = np.arange(len(jobs.cohort)), jobs.submitted
    waited = np.full(len(rows), np.nan)
    turns: list[Attempts] = []
    for number in range(makeup.MOST_ATTEMPTS):
        turns.append(turn := world.attempt(number, rows, start, waited))
        goes_on = world.goes_on(turn)
        rows = rows[goes_on]
        waited = world.draws(f"waits/{number}").exponential(makeup.RESTART_WAIT_S, world.jobs)[rows]
        start = turn.ended_at[goes_on] + waited / DAY_S
        soon = start < DAYS
        rows, waited, start = rows[soon], waited[soon], start[soon]
    columns = (each.name for each in fields(Attempts))
    return Attempts(*(np.concatenate([getattr(turn, name) for turn in turns]) for name in columns))


def _medians(seed: int, queueing: Floats) -> Floats:
    """Return logarithms of seconds by cohort, day and phase, the shocks of the days in them."""
    shape = (len(makeup.COHORTS), ALL_DAYS, len(makeup.PHASES))
    of_fleet = stream(seed, "cohorts").normal(0, makeup.OF_FLEET, (shape[0], 1, shape[2]))
    of_cohort = stream(seed, "days of cohorts").normal(0, makeup.OF_COHORT, shape)
    of_cluster = stream(seed, "days of clusters").normal(
        0, makeup.OF_CLUSTER, (len(makeup.CLUSTERS), *shape[1:])
    )
    found = np.log([made.median_s for made in makeup.PHASES]) + of_fleet + of_cohort
    found += of_cluster[list(makeup.CLUSTER_OF)]
    found[:, :, makeup.SCHEDULING] += np.log(queueing)
    return np.asarray(found)


class _World:
    """What all attempts are drawn from; draws are by job, so that no attempt moves another's."""

    def __init__(self, seed: int, jobs: Jobs, medians: Floats, plan: Plan) -> None:
        self._seed = seed
        self._of = jobs
        self._medians = medians
        self._plan = plan
        self.jobs = len(jobs.cohort)
        self._of_job = self._normal("of jobs", makeup.OF_JOB)

    def draws(self, name: str) -> np.random.Generator:
        """Return a stream of draws."""
        return stream(self._seed, name)

    def attempt(self, number: int, rows: Ints, start: Floats, waited: Floats) -> Attempts:
        """Draw one attempt of each of the jobs *rows*."""
        cohort = self._of.cohort[rows]
        day = np.floor(start).astype(np.int64)
        values = self._values(number, rows, day)
        usual = np.exp(self._logs(number, rows, day, values))
        chance = self.draws(f"planted/{number}").random((self.jobs, 3))[rows]
        planted = plant(self._plan, usual, cohort, day, values, chance)
        run = self.draws(f"runs/{number}").normal(0, makeup.RUN_SPREAD, self.jobs)[rows]
        return Attempts(
            job=rows,
            number=np.full(len(rows), number),
            cohort=cohort,
            start=start,
            gpus=self._of.gpus[rows],
            hardware=self._of.hardware[rows],
            lengths=planted.lengths,
            wobble=self._wobble(number)[rows],
            surplus=planted.lengths - usual,
            run=np.minimum(makeup.RUN_S * np.exp(run), makeup.LONGEST_RUN_S),
            outcome=self._outcomes(number, rows, planted.failed),
            stuck=planted.stuck,
            waited=waited,
            values=values,
        )

    def goes_on(self, turn: Attempts) -> Flags:
        """Tell which jobs try again: the preempted, and most that failed."""
        retried = self.draws(f"retries/{turn.number.max(initial=0)}").random(self.jobs)[turn.job]
        failed = (turn.outcome == Outcome.INFRA) | (turn.outcome == Outcome.USER)
        over = turn.stuck < len(makeup.PHASES)
        return np.asarray(
            ~over & ((turn.outcome == Outcome.PREEMPTED) | failed & (retried < makeup.RETRIED))
        )

    def _logs(self, number: int, rows: Ints, day: Ints, values: Ints) -> Floats:
        cohort = self._of.cohort[rows]
        log = self._medians[cohort, day + RUN_IN] + self._of_job[rows]
        log += self._normal(f"lengths/{number}", [made.spread for made in makeup.PHASES])[rows]
        doublings = np.log2(self._of.gpus[rows] / makeup.SIZES[0])
        log += np.outer(doublings, [made.by_size for made in makeup.PHASES])
        own = np.array(makeup.CLUSTER_OF)[cohort] % len(makeup.HARDWARE)
        log += makeup.SLOWER_HARDWARE * (self._of.hardware[rows] != own)[:, None]
        log += np.array([made.restart for made in makeup.PHASES]) * (number > 0)
        warm = values[:, makeup.DIMENSIONS.index("cache")] == 0
        log[:, makeup.COMPILE] += np.log(1 - makeup.MEGACACHE_SAVES) * warm
        tail = self.draws(f"tails/{number}").random((self.jobs, len(makeup.PHASES), 2))[rows]
        least, most = np.log(makeup.TAIL_FACTORS)
        log += (tail[..., 0] < makeup.TAIL) * (least + tail[..., 1] * (most - least))
        return np.asarray(log)

    def _normal(self, name: str, spread: float | list[float]) -> Floats:
        drawn = self.draws(name).normal(size=(self.jobs, len(makeup.PHASES)))
        return np.asarray(drawn * np.asarray(spread))

    def _wobble(self, number: int) -> Floats:
        drawn = self.draws(f"saves/{number}").normal(size=(self.jobs, makeup.MOST_SAVES))
        return np.asarray(np.exp(makeup.OF_SAVE * drawn))

    def _values(self, number: int, rows: Ints, day: Ints) -> Ints:
        """Draw a value of each dimension; code is released weekly, until ``CHANGED_ON``."""
        late = self.draws("uptake").random(self.jobs)[rows] >= _UPTAKE
        drawn = self.draws(f"values/{number}").random((self.jobs, len(makeup.DIMENSIONS)))[rows]
        found = np.floor(drawn * [_MANY.get(name, 1) for name in makeup.DIMENSIONS]).astype(
            np.int64
        )
        release = (np.minimum(day, CHANGED_ON) - CHANGED_ON) // _RELEASE_DAYS + LAST_RELEASE
        found[:, makeup.DIMENSIONS.index("code_version")] = np.maximum(release - late, 0)
        cold = drawn[:, makeup.DIMENSIONS.index("cache")] >= makeup.WARM
        found[:, makeup.DIMENSIONS.index("cache")] = cold
        return found

    def _outcomes(self, number: int, rows: Ints, failed: Floats) -> Ints:
        """Draw how attempts end, of which the part *failed* fails."""
        drawn = self.draws(f"outcomes/{number}").random((self.jobs, 3))[rows]
        failure = np.where(drawn[:, 1] < makeup.INFRA, Outcome.INFRA, Outcome.USER)
        other = np.where(
            drawn[:, 2] < makeup.PREEMPTED / (1 - makeup.FAILED),
            Outcome.PREEMPTED,
            Outcome.COMPLETED,
        )
        return np.where(drawn[:, 0] < failed, failure, other)
