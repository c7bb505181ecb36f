"""Compares the value that a change is associated with first to the value that was planted.

The suspects are those of a change that the detector found, with its onset, on the day of its alert.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from benchmarks.detectors.fleets import parameters
from benchmarks.detectors.fleets.fleet import SimulatedFleet, simulate
from benchmarks.detectors.fleets.scenario import NO_CAUSE, Scenario
from benchmarks.detectors.scoring import Proportion, in_time
from benchmarks.detectors.trials import Trial
from ett_service.core.intervals import DAY_US
from ett_service.detection.attribution.suspects import suspects_of

EXPLAINED = 0.8  #: of the surplus, by the planted value; fleets with less are not counted
_BASELINE_DAYS = 28


@dataclass(frozen=True, slots=True)
class NamedCause:
    """The first suspect of one change, and whether it is the planted one."""

    cause: str  #: the planted dimension, or ``NO_CAUSE``
    first: tuple[str, str] | None  #: dimension and value
    right: bool


def name_cause(trial: Trial, scenario: Scenario, engine: str) -> NamedCause | None:
    """Return the first suspect of the change that *engine* found in a fleet.

    None where it did not find the planted change, or no value explains enough of that.
    """
    fleet = simulate(trial.seed, scenario)
    truth = fleet.truth
    alerts = in_time(truth, trial.alerts.get(engine, ()))
    target = next((alert for alert in alerts if truth.is_target(alert.series)), None)
    if target is None or target.onset is None:
        return None
    if scenario.cause != NO_CAUSE and truth.explained < EXPLAINED:
        return None
    first = _first_suspect(fleet, target.onset, target.day)
    planted = None if scenario.cause == NO_CAUSE else (scenario.cause, truth.value)
    return NamedCause(scenario.cause, first, first == planted)


def by_cause(named: Iterable[NamedCause]) -> Mapping[str, Proportion]:
    """Return how often the planted value came first, or none where there was no cause."""
    right: dict[str, list[bool]] = {}
    for each in named:
        right.setdefault(each.cause, []).append(each.right)
    return {cause: Proportion(sum(hits), len(hits)) for cause, hits in right.items()}


def _first_suspect(fleet: SimulatedFleet, onset: int, today: int) -> tuple[str, str] | None:
    (subject,), (cohort,) = fleet.truth.phases, fleet.truth.cohorts
    every = fleet.durations[subject]
    rows = every.durations
    inside = rows.cohort == fleet.truth.scenario.shape.plan.cohorts.index(cohort)
    inside &= (rows.day >= onset - _BASELINE_DAYS) & (rows.day <= today)
    day = rows.day[inside].astype(np.int64)
    ranked = suspects_of(
        {
            name: every.values[inside, column].astype(str).tolist()
            for column, name in enumerate(parameters.DIMENSIONS)
        },
        np.log(rows.us[inside]),
        day >= onset,
        at_us=fleet.first_us + day * DAY_US,
        onset_us=fleet.first_us + onset * DAY_US,
        strata=rows.stratum[inside].astype(np.int64),
        units=rows.unit[inside].astype(np.int64),
    )
    return (ranked[0].dimension, ranked[0].value) if ranked else None
