"""Compares the value that a change is associated with first to the value that was planted.

The suspects are those of a change that the detector found, with its onset: on the day of its alert,
when few attempts have the value, and on the last day of the time in which it is to be found.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from benchmarks.detectors.fleets import parameters
from benchmarks.detectors.fleets.fleet import SimulatedFleet, simulate
from benchmarks.detectors.fleets.scenario import NO_CAUSE, Scenario
from benchmarks.detectors.scoring import WITHIN_DAYS, Proportion, in_time
from benchmarks.detectors.trials import Trial
from ett_service.core.intervals import DAY_US
from ett_service.detection.attribution.suspects import suspects_of

EXPLAINED = 0.8  #: of the surplus, by the planted value; fleets with less are not counted
_BASELINE_DAYS = 28


Cause: TypeAlias = tuple[str, str]
"""A dimension and its value."""


@dataclass(frozen=True, slots=True)
class NamedCause:
    """The first suspects of one change, each a dimension and a value."""

    cause: str  #: the planted dimension, or ``NO_CAUSE``
    planted: Cause | None
    at_alert: Cause | None
    in_time: Cause | None  #: on the last day in time


class CauseScore(NamedTuple):
    """How often the first suspect was the planted one, or none where there was no cause."""

    at_alert: Proportion
    in_time: Proportion


def name_cause(trial: Trial, scenario: Scenario, engine: str) -> NamedCause | None:
    """Return the first suspects of the change that *engine* found in a fleet.

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
    assert truth.from_day is not None
    last_day = truth.from_day + WITHIN_DAYS - 1
    return NamedCause(
        cause=scenario.cause,
        planted=None if scenario.cause == NO_CAUSE else (scenario.cause, truth.value),
        at_alert=_first_suspect(fleet, target.onset, target.day),
        in_time=_first_suspect(fleet, target.onset, last_day),
    )


def by_cause(named: Iterable[NamedCause]) -> Mapping[str, CauseScore]:
    """Return the scores by planted dimension."""
    of_cause: dict[str, list[NamedCause]] = {}
    for each in named:
        of_cause.setdefault(each.cause, []).append(each)
    return {
        cause: CauseScore(
            Proportion(sum(each.at_alert == each.planted for each in changes), len(changes)),
            Proportion(sum(each.in_time == each.planted for each in changes), len(changes)),
        )
        for cause, changes in of_cause.items()
    }


def _first_suspect(fleet: SimulatedFleet, onset: int, today: int) -> Cause | None:
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
