"""What a change goes with is asked of what was found, and held against what was planted."""

import pytest

from benchmarks.detectors.alert import Alert, Trial
from benchmarks.detectors.causes import NONE, Named, by_cause, name_cause
from benchmarks.detectors.fleet import told_beforehand
from benchmarks.detectors.planting import CAUSES
from benchmarks.detectors.scenario import CHANGED_ON, Kind, Scenario
from benchmarks.detectors.scoring import Part
from ett_service.core.regressions.finding import Series

SEED = 6


def _found(scenario: Scenario, day: int = CHANGED_ON + 10) -> Trial:
    """Return a trial in which exactly what was planted was found."""
    truth = told_beforehand(SEED, scenario)
    right = Alert(day, Series(truth.phases[0], truth.cohorts[0]), onset=CHANGED_ON)
    return Trial(scenario.name, SEED, {"ours": (right,)}, {})


@pytest.mark.parametrize("cause", CAUSES)
def test_the_planted_value_is_named_first(cause: str) -> None:
    scenario = Scenario(Kind.CELL, 300, 2.5, cause=cause)
    expected = Named(cause, (cause, str(CAUSES[cause])), right=True)
    assert name_cause(_found(scenario), scenario, "ours") == expected


def test_nothing_is_named_where_nothing_explains_it() -> None:
    scenario = Scenario(Kind.CELL, 300, 1.6, cause=NONE)
    assert name_cause(_found(scenario), scenario, "ours") == Named(NONE, None, right=True)


def test_what_was_not_found_in_time_is_not_asked_about() -> None:
    scenario = Scenario(Kind.CELL, 60, 2.5, cause="image")
    late = _found(scenario, day=CHANGED_ON + 14)
    assert name_cause(late, scenario, "ours") is None
    assert name_cause(late, scenario, "another") is None


def test_parts_are_by_cause() -> None:
    told = [Named("image", None, right=False), Named("image", ("image", "1"), right=True)]
    assert by_cause(told) == {"image": Part(1, 2)}
