"""Holds what a change is said to go with against what was planted.

It is asked of what the detector found, with the onset that it found, on the day that it was told.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from ett_service.core.intervals import DAY_US
from ett_service.detection.attribution.suspects import suspects_of
from ett_service.trials import makeup
from ett_service.trials.alert import Trial
from ett_service.trials.fleet import SimulatedFleet, simulate
from ett_service.trials.scenario import Scenario
from ett_service.trials.scoring import Part, timely

NONE = "none"
EXPLAINED = 0.8  #: of the surplus, by the planted value; fleets with less are not counted
_BASELINE_DAYS = 28


@dataclass(frozen=True, slots=True)
class Named:
    """What was named first for one change, and whether that was planted."""

    cause: str  #: the dimension, or ``none``
    first: tuple[str, str] | None  #: dimension and value
    right: bool


def name_cause(trial: Trial, scenario: Scenario, engine: str) -> Named | None:
    """Return what is named for what *engine* found of a fleet.

    None where it did not find what was planted, or no value explains enough of that.
    """
    fleet = simulate(trial.seed, scenario)
    truth = fleet.truth
    found = timely(truth, trial.alerts.get(engine, ()))
    target = next((one for one in found if truth.is_target(one.series)), None)
    if target is None or target.onset is None:
        return None
    if scenario.cause != NONE and truth.explained < EXPLAINED:
        return None
    first = _first(fleet, target.onset, target.day)
    expected = None if scenario.cause == NONE else (scenario.cause, truth.value)
    return Named(scenario.cause, first, first == expected)


def by_cause(named: Iterable[Named]) -> Mapping[str, Part]:
    """Return how often the right one came first, or nothing where there was nothing to name."""
    found: dict[str, list[bool]] = {}
    for one in named:
        found.setdefault(one.cause, []).append(one.right)
    return {cause: Part(sum(right), len(right)) for cause, right in found.items()}


def _first(fleet: SimulatedFleet, onset: int, today: int) -> tuple[str, str] | None:
    (subject,), (cohort,) = fleet.truth.phases, fleet.truth.cohorts
    known = fleet.known[subject]
    rows = known.durations
    inside = rows.cohort == makeup.COHORTS.index(cohort)
    inside &= (rows.day >= onset - _BASELINE_DAYS) & (rows.day <= today)
    day = rows.day[inside].astype(np.int64)
    found = suspects_of(
        {
            name: known.values[inside, place].astype(str).tolist()
            for place, name in enumerate(makeup.DIMENSIONS)
        },
        np.log(rows.us[inside]),
        day >= onset,
        at_us=fleet.first_us + day * DAY_US,
        onset_us=fleet.first_us + onset * DAY_US,
        strata=rows.stratum[inside].astype(np.int64),
        units=rows.unit[inside].astype(np.int64),
    )
    return (found[0].dimension, found[0].value) if found else None
