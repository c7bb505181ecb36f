"""The first suspect of a change that was found is compared with the planted cause."""

import pytest

from benchmarks.detectors.causes import CauseScore, NamedCause, by_cause, name_cause
from benchmarks.detectors.fleets.fleet import planned_truth
from benchmarks.detectors.fleets.parameters import CHANGED_ON
from benchmarks.detectors.fleets.scenario import CAUSES, NO_CAUSE, Scenario, ScenarioKind
from benchmarks.detectors.scoring import Proportion
from benchmarks.detectors.trials import DetectorAlert, Trial
from ett_service.core.regressions.finding import Series

SEED = 6


def _trial_with_alert(scenario: Scenario, day: int = CHANGED_ON + 10) -> Trial:
    """Return a trial in which exactly the planted change was found."""
    truth = planned_truth(SEED, scenario)
    right = DetectorAlert(day, Series(truth.phases[0], truth.cohorts[0]), onset=CHANGED_ON)
    return Trial(scenario.name, SEED, {"ours": (right,)}, {})


@pytest.mark.parametrize("cause", CAUSES)
def test_the_planted_value_is_named_first(cause: str) -> None:
    scenario = Scenario(ScenarioKind.CELL, 300, 2.5, cause=cause)
    planted = cause, str(CAUSES[cause])
    expected = NamedCause(cause, planted, at_alert=planted, in_time=planted)
    assert name_cause(_trial_with_alert(scenario), scenario, "ours") == expected


def test_days_after_the_alert_a_value_is_named_that_few_had_by_then() -> None:
    scenario = Scenario(ScenarioKind.CELL, 60, 2.5, cause="host")
    named = name_cause(_trial_with_alert(scenario, CHANGED_ON + 1), scenario, "ours")
    assert named is not None
    assert (named.at_alert, named.in_time) == (None, named.planted)


def test_nothing_is_named_where_nothing_explains_it() -> None:
    scenario = Scenario(ScenarioKind.CELL, 300, 1.6, cause=NO_CAUSE)
    assert name_cause(_trial_with_alert(scenario), scenario, "ours") == NamedCause(
        NO_CAUSE, planted=None, at_alert=None, in_time=None
    )


def test_nothing_is_named_for_what_was_not_found_in_time() -> None:
    scenario = Scenario(ScenarioKind.CELL, 60, 2.5, cause="image")
    late = _trial_with_alert(scenario, day=CHANGED_ON + 14)
    assert name_cause(late, scenario, "ours") is None
    assert name_cause(late, scenario, "another") is None


def test_proportions_are_by_cause() -> None:
    image = "image", "1"
    named = [
        NamedCause("image", image, at_alert=None, in_time=image),
        NamedCause("image", image, at_alert=image, in_time=image),
        NamedCause("none", None, at_alert=None, in_time=image),
    ]
    assert by_cause(named) == {
        "image": CauseScore(Proportion(1, 2), Proportion(2, 2)),
        "none": CauseScore(Proportion(1, 1), Proportion(0, 1)),
    }
