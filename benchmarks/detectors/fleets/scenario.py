"""What is planted in a simulated fleet, and the truth that alerts are scored against."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum, auto

import numpy as np

from benchmarks.detectors.fleets import parameters
from benchmarks.detectors.fleets.parameters import CHANGED_ON, DAYS
from benchmarks.detectors.fleets.shape import (
    MISS_FACTOR,
    MISS_SHARE,
    PLAIN,
    WORSE_MISS_SHARE,
    Shape,
)
from ett_service.core.regressions.finding import Series, SeriesCohort, Subject
from ett_service.detection.sample import Flags, Floats, Ints

OUTAGE_ON = 50  #: the day on which an outage begins
SECOND_ON = CHANGED_ON + 5  #: the day of the second of two changes
RAMP_DAYS = 10  #: for which a ramp rises
LAST_RELEASE = 8  #: the code version that is released on ``CHANGED_ON``
CAUSES = {"code_version": LAST_RELEASE, "image": 1, "host": 2, "cache": 1, "source": 0}
"""The value of each dimension that can be slower; of code it is the last release."""
NO_CAUSE = "none"

_RELABELLED_SHARE = 0.4  #: of a phase that is counted as another's
_NO_PHASE = len(parameters.PHASES)
_ALL_PHASES = tuple(range(_NO_PHASE))


class ScenarioKind(StrEnum):
    """What is planted."""

    NULL = auto()  #: nothing
    MIX = auto()  #: one cohort starts twice as many jobs, and nothing else changes
    OUTAGE = auto()  #: for some days every phase of one cluster is slow, and more attempts fail
    CELL = auto()  #: one phase of one cohort is slower
    COHORT = auto()  #: every phase of one cohort is slower
    PHASE = auto()  #: one phase is slower in the whole fleet
    RELABELLING = auto()  #: time of one phase of a cohort is counted as another's
    IMPROVEMENT = auto()  #: one phase of one cohort is faster
    HANG = auto()  #: three in ten attempts of one cohort never leave one phase
    FAILURES = auto()  #: more attempts of one cohort fail
    STEPS = auto()  #: every step of one cohort is slower
    RAMP = auto()  #: one phase of one cohort becomes slower day by day
    SECOND = auto()  #: a phase of one cohort is slower, and some days later of another one
    HITS = auto()  #: one phase of one cohort misses its cache more often


@dataclass(frozen=True, slots=True)
class Scenario:
    """What is planted, how strongly, and in how large a fleet."""

    kind: ScenarioKind = ScenarioKind.NULL
    attempts_per_day: int = 60
    factor: float = 1.0  #: on durations, or on the odds of failing
    days: int = 1  #: of an outage
    cause: str = ""
    """The dimension of which one value is slower, or ``NO_CAUSE``: three in five attempts are
    slower, whatever their values. Where empty, all attempts are slower."""
    times_steps: bool = False  #: whether steps are reported; they always are where they change
    shape: Shape = PLAIN

    @property
    def name(self) -> str:
        """The name of its cell in the table: ``cell-1.6@60``."""
        parts = [str(self.kind)]
        if self.factor != 1.0:
            parts.append(f"{self.factor:g}")
        if self.kind is ScenarioKind.OUTAGE:
            parts.append(f"{self.days}d")
        if self.cause:
            parts.append(self.cause)
        if self.times_steps:
            parts.append("steps")
        if self.shape.name:
            parts.append(self.shape.name)
        return f"{'-'.join(parts)}@{self.attempts_per_day}"


@dataclass(frozen=True, slots=True)
class Truth:
    """What was planted."""

    scenario: Scenario
    seed: int
    from_day: int | None  #: None where nothing was planted
    to_day: int | None  #: the first day without it; None where it stays
    cohorts: tuple[SeriesCohort, ...] = ()
    phases: tuple[Subject, ...] = ()  #: what became slower or faster, or fails more
    derived: tuple[Subject, ...] = ()  #: what these are part of, so that it changes with them
    value: str = ""  #: of the scenario's ``cause``
    explained: float = 0.0  #: share of the surplus in attempts with that value
    impact: float = 0.0  #: its cost as a share of the fleet's GPU-hours from then on
    earlier: tuple[SeriesCohort, ...] = ()  #: where the same changed some days before

    def is_target(self, series: Series) -> bool:
        """Whether this is exactly the series that was changed."""
        return series.subject in self.phases and self.is_where(series.cohort)

    def is_where(self, cohort: SeriesCohort) -> bool:
        """Whether this is one of the changed cohorts, or all of them together."""
        every = self.scenario.shape.plan.cohorts
        inside = {member for member in every if set(cohort) <= set(member)}
        return cohort in self.cohorts or inside == set(self.cohorts)

    def is_touched(self, series: Series) -> bool:
        """Whether an alert on this series is no false one: it changed, or contains the change."""
        return series.subject in (*self.phases, *self.derived) and (
            not series.cohort
            or any(set(series.cohort) <= set(changed) for changed in (*self.cohorts, *self.earlier))
        )


def stream(seed: int, name: str) -> np.random.Generator:
    """Return the random numbers for one purpose; they depend on *seed* and *name* alone.

    With a stream for each purpose, a fleet with a planted change is otherwise the fleet of the
    same seed without it.
    """
    return np.random.default_rng([seed, *name.encode()])


@dataclass(frozen=True, slots=True)
class Planting:
    """A scenario, and where and when it is planted in the fleet of one seed."""

    scenario: Scenario
    cohorts: tuple[int, ...]  #: indices of the shape's cohorts
    phases: tuple[int, ...]  #: indices of ``parameters.PHASES``
    from_day: int
    to_day: int
    earlier: tuple[int, ...] = ()  #: cohorts in which the same changes on ``CHANGED_ON``


@dataclass(frozen=True, slots=True)
class PlantedAttempts:
    """Attempts after the change was planted in them."""

    lengths: Floats
    failure_chance: Floats
    stuck: Ints  #: the phase that it never leaves; ``len(parameters.PHASES)`` for none
    step_factor: Floats  #: on the time of its steps
    missed: Ints  #: by phase, 1 where it missed its cache


def choose(seed: int, scenario: Scenario) -> Planting:
    """Choose the cohort, the cluster and the phase that change."""
    draws = stream(seed, "chosen")
    eligible = scenario.shape.eligible(scenario.attempts_per_day)
    cohort = eligible[int(draws.integers(len(eligible)))]
    phase = int(draws.integers(len(parameters.PHASES)))
    kind = scenario.kind
    phases = {
        ScenarioKind.OUTAGE: _ALL_PHASES,
        ScenarioKind.COHORT: _ALL_PHASES,
        ScenarioKind.RELABELLING: (parameters.LAUNCHER, parameters.COMPILE),
        ScenarioKind.HANG: (phase % parameters.START_PHASES,),
        ScenarioKind.FAILURES: (),
        ScenarioKind.STEPS: (),
        ScenarioKind.MIX: (),
        ScenarioKind.NULL: (),
    }.get(kind, (phase,))
    if kind is ScenarioKind.OUTAGE:
        to_day = OUTAGE_ON + scenario.days
        cohorts = _cohorts_of_cluster(cohort, scenario.shape)
        return Planting(scenario, cohorts, phases, OUTAGE_ON, to_day)
    if kind is ScenarioKind.SECOND:
        other = eligible[(eligible.index(cohort) + 1) % len(eligible)]
        return Planting(scenario, (cohort,), phases, SECOND_ON, DAYS, (other,))
    all_cohorts = tuple(range(len(scenario.shape.plan.cohorts)))
    cohorts = {ScenarioKind.PHASE: all_cohorts, ScenarioKind.NULL: ()}.get(kind, (cohort,))
    return Planting(scenario, cohorts, phases, CHANGED_ON, DAYS)


def _cohorts_of_cluster(cohort: int, shape: Shape) -> tuple[int, ...]:
    """Return the cohorts that are in the same cluster as *cohort*."""
    cluster = shape.plan.cluster_of[cohort]
    return tuple(index for index, other in enumerate(shape.plan.cluster_of) if other == cluster)


@dataclass(frozen=True, slots=True)
class UsualAttempts:
    """Attempts before anything was planted in them."""

    lengths: Floats  #: by phase
    missed: Ints  #: by phase, 1 where it missed its cache
    cohort: Ints
    day: Ints
    values: Ints  #: by dimension


def plant(planting: Planting, usual: UsualAttempts, chance: Floats) -> PlantedAttempts:
    """Change *usual* attempts; *chance* holds three random numbers for each."""
    scenario, day, cohort = planting.scenario, usual.day, usual.cohort
    hit = np.isin(cohort, planting.cohorts) & (day >= planting.from_day) & (day < planting.to_day)
    hit |= np.isin(cohort, planting.earlier) & (day >= CHANGED_ON)
    hit &= _is_slower(scenario.cause, usual.values, chance[:, 0])
    planted = PlantedAttempts(
        usual.lengths.copy(),
        np.full(len(day), parameters.FAILED_SHARE),
        np.full(len(day), _NO_PHASE),
        np.ones(len(day)),
        usual.missed.copy(),
    )
    _CHANGES.get(scenario.kind, _slow_down)(planting, planted, day, hit, chance)
    return planted


def _relabel(planting: Planting, to: PlantedAttempts, _: Ints, hit: Flags, __: Floats) -> None:
    before, after = planting.phases
    moved = _RELABELLED_SHARE * to.lengths[hit, before]
    to.lengths[hit, before] -= moved
    to.lengths[hit, after] += moved


def _hang(planting: Planting, to: PlantedAttempts, _: Ints, hit: Flags, chance: Floats) -> None:
    to.stuck[hit & (chance[:, 1] < parameters.HANGING_SHARE)] = planting.phases[0]


def _fail(planting: Planting, to: PlantedAttempts, _: Ints, hit: Flags, __: Floats) -> None:
    odds = parameters.FAILED_SHARE / (1 - parameters.FAILED_SHARE) * planting.scenario.factor
    to.failure_chance[hit] = odds / (1 + odds)


def _slow_steps(planting: Planting, to: PlantedAttempts, _: Ints, hit: Flags, __: Floats) -> None:
    to.step_factor[hit] = planting.scenario.factor


def _ramp(planting: Planting, to: PlantedAttempts, day: Ints, hit: Flags, _: Floats) -> None:
    days = np.clip(day[hit] + 1 - planting.from_day, 0, RAMP_DAYS)
    to.lengths[hit, planting.phases[0]] *= planting.scenario.factor**days


def _miss(planting: Planting, to: PlantedAttempts, _: Ints, hit: Flags, chance: Floats) -> None:
    phase, more = planting.phases[0], 1 - (1 - WORSE_MISS_SHARE) / (1 - MISS_SHARE)
    lost = hit & (to.missed[:, phase] == 0) & (chance[:, 2] < more)
    to.lengths[lost, phase] *= MISS_FACTOR
    to.missed[lost, phase] = 1


def _slow_down(planting: Planting, to: PlantedAttempts, _: Ints, hit: Flags, __: Floats) -> None:
    phases = np.array(planting.phases, dtype=np.int64)
    to.lengths[np.ix_(hit, phases)] *= planting.scenario.factor


def _break_down(planting: Planting, to: PlantedAttempts, _: Ints, hit: Flags, __: Floats) -> None:
    to.lengths[np.ix_(hit, np.array(planting.phases))] *= parameters.OUTAGE_FACTOR
    to.failure_chance[hit] = parameters.OUTAGE_FAILED_SHARE
    to.step_factor[hit] = parameters.OUTAGE_STEP_FACTOR


def _start_more(*_: object) -> None:
    """Change nothing: only more jobs start."""


_CHANGES: Mapping[
    ScenarioKind, Callable[[Planting, PlantedAttempts, Ints, Flags, Floats], None]
] = {
    ScenarioKind.RELABELLING: _relabel,
    ScenarioKind.HANG: _hang,
    ScenarioKind.FAILURES: _fail,
    ScenarioKind.STEPS: _slow_steps,
    ScenarioKind.RAMP: _ramp,
    ScenarioKind.HITS: _miss,
    ScenarioKind.OUTAGE: _break_down,
    ScenarioKind.MIX: _start_more,
}


def _is_slower(cause: str, values: Ints, chance: Floats) -> Flags:
    """Return which attempts can be slower, given the planted cause."""
    if not cause:
        return np.ones(len(values), dtype=np.bool_)
    if cause == NO_CAUSE:
        return np.asarray(chance < parameters.SLOW_WITHOUT_CAUSE)
    has_value = values[:, parameters.DIMENSIONS.index(cause)] == CAUSES[cause]
    return np.asarray(has_value | (chance < parameters.SLOW_WITHOUT_VALUE))
