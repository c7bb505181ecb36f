"""A simulated fleet: what a detector would have known of it at the end of each of its days.

It shares nothing with the detector but the columns that both read and write. See
``docs/design/0014-made-up-fleets.md`` for its parameters.
"""

from collections.abc import Mapping
from dataclasses import fields, replace
from functools import cached_property

import numpy as np

from benchmarks.detectors.fleets import observations, parameters
from benchmarks.detectors.fleets.attempts import DAY_S, SimulatedAttempts, simulate_attempts
from benchmarks.detectors.fleets.observations import SubjectDurations
from benchmarks.detectors.fleets.parameters import DAYS
from benchmarks.detectors.fleets.scenario import (
    CAUSES,
    Planting,
    Scenario,
    ScenarioKind,
    Truth,
    choose,
)
from benchmarks.detectors.fleets.submissions import calendar, submit
from ett_service.core.intervals import DAY_US
from ett_service.core.regressions.finding import Subject
from ett_service.detection.sample import Floats, Rates, Sample, Shares


class SimulatedFleet:
    """A fleet of ``DAYS`` days; :func:`simulate` makes one."""

    def __init__(self, first_us: int, attempts: SimulatedAttempts, truth: Truth) -> None:
        self.first_us = first_us  #: its first midnight
        self.truth = truth
        self.attempts = attempts
        cohorts = len(truth.scenario.shape.plan.cohorts)
        self._rates = observations.rates(attempts, cohorts)
        self._shares = observations.shares(attempts, cohorts)

    @cached_property
    def durations(self) -> Mapping[Subject, SubjectDurations]:
        """All durations."""
        durations = observations.durations(self.attempts, self.truth.scenario.shape.modes_are_known)
        scenario = self.truth.scenario
        if scenario.times_steps or scenario.kind is ScenarioKind.STEPS:
            durations[parameters.STEPS] = observations.step_times(self.attempts)
        return durations

    def sample(self, day: int) -> Sample:
        """Return what is known at the end of *day*, from 0; columns are views of the fleet's."""
        durations = {subject: every.by(day) for subject, every in self.durations.items()}
        return Sample(
            as_of_us=self.first_us + (day + 1) * DAY_US,
            days=day + 1,
            cohorts=self.truth.scenario.shape.plan.cohorts,
            durations={subject: rows for subject, rows in durations.items() if len(rows.us)},
            rates={subject: _rates_by(rates, day) for subject, rates in self._rates.items()},
            shares=_shares_by(self._shares, day),
        )


def simulate(seed: int, scenario: Scenario) -> SimulatedFleet:
    """Make the fleet of *seed* with the change that *scenario* plants; it is deterministic."""
    days = calendar(seed)
    planting = choose(seed, scenario)
    grown = planting.cohorts[0] if planting.cohorts else 0
    jobs = submit(seed, scenario, days, grown)
    attempts = simulate_attempts(seed, jobs, days.queueing, planting)
    return SimulatedFleet(days.first_us, attempts, _truth(seed, planting, attempts))


def planned_truth(seed: int, scenario: Scenario) -> Truth:
    """Return the truth without what needs the whole fleet: the impact and the explained share."""
    planting = choose(seed, scenario)
    if scenario.kind is ScenarioKind.NULL:
        return Truth(scenario, seed, None, None)
    phases = tuple(parameters.PHASES[index].subject for index in planting.phases)
    if scenario.kind is ScenarioKind.FAILURES:
        phases = (parameters.FAILURES, *parameters.FAILURES_BY_CAUSE)
    if scenario.kind is ScenarioKind.STEPS:
        phases = (parameters.STEPS,)
    derived = _derived(planting)
    if scenario.kind is ScenarioKind.HITS and scenario.shape.modes_are_known:
        phases, derived = tuple(map(parameters.MISSES.__getitem__, phases)), (*phases, *derived)
    cohorts = scenario.shape.plan.cohorts
    return Truth(
        scenario,
        seed,
        planting.from_day,
        planting.to_day if planting.to_day < DAYS else None,
        tuple(cohorts[index] for index in planting.cohorts),
        () if scenario.kind in {ScenarioKind.HANG, ScenarioKind.MIX} else phases,
        derived,
        earlier=tuple(cohorts[index] for index in planting.earlier),
    )


def _truth(seed: int, planting: Planting, attempts: SimulatedAttempts) -> Truth:
    planned = planned_truth(seed, planting.scenario)
    meanwhile = (attempts.start >= planting.from_day) & (attempts.start < planting.to_day)
    surplus = _surplus(attempts)
    if not meanwhile.any():
        return planned
    impact = float(surplus.sum() / _gpu_seconds(attempts)[meanwhile].sum())
    truth = replace(planned, impact=impact)
    cause = planting.scenario.cause
    if cause not in CAUSES or not surplus.any():
        return truth
    has_value = attempts.values[:, parameters.DIMENSIONS.index(cause)] == CAUSES[cause]
    explained = float(surplus[has_value].sum() / surplus.sum())
    return replace(truth, value=str(CAUSES[cause]), explained=explained)


def _derived(planting: Planting) -> tuple[Subject, ...]:
    """Return the subjects that the changed phases are part of.

    Slower steps are effective training, so ETT% stays as it was.
    """
    kind = planting.scenario.kind
    if kind in {ScenarioKind.MIX, ScenarioKind.RELABELLING, ScenarioKind.STEPS}:
        return ()
    if any(phase < parameters.START_PHASES for phase in planting.phases):
        return (parameters.TIME_TO_START, parameters.TIME_TO_RECOVER, parameters.ETT)
    return (parameters.ETT,)


def _surplus(attempts: SimulatedAttempts) -> Floats:
    """Return the accelerator-seconds of each attempt that are planted."""
    by_phase = attempts.surplus.copy()
    by_phase[:, parameters.SAVING] *= attempts.saves
    steps = attempts.run * (1 - 1 / attempts.step_factor)
    return np.asarray((by_phase.sum(axis=1) + steps) * attempts.gpus)


def _gpu_seconds(attempts: SimulatedAttempts) -> Floats:
    return np.asarray((attempts.ended_at - attempts.start) * DAY_S * attempts.gpus)


def _rates_by(rates: Rates, day: int) -> Rates:
    rows = slice(0, int(np.searchsorted(rates.day, day, side="right")))
    return Rates(*(getattr(rates, column.name)[rows] for column in fields(rates)))


def _shares_by(shares: Shares, day: int) -> Shares:
    rows = slice(0, int(np.searchsorted(shares.day, day, side="right")))
    by_category = {name: held[rows] for name, held in shares.by_category.items()}
    return Shares(shares.day[rows], shares.cohort[rows], by_category)
