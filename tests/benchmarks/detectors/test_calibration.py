"""Scores are standard normal where nothing changed, whatever the fleet is like."""

import pytest

from benchmarks.detectors.calibration import pooled, spreads
from benchmarks.detectors.fleets.scenario import Scenario
from benchmarks.detectors.fleets.shape import SHAPES

TUNED = ("zipf", "gamma", "weibull", "heavy", "bimodal", "ar1", "weekends", "churn", "sizes")
KEPT = ("laplace", "uniform")  #: of which nothing was tuned
FEWEST = 300  #: scores, for their deviation to be known within a tenth


def _deviations(shape: str, rate: int, fleets: int) -> dict[str, float]:
    scenario = Scenario(attempts_per_day=rate, shape=SHAPES[shape])
    return {
        size: spread.deviation
        for size, spread in pooled(spreads(scenario, range(7000, 7000 + fleets))).items()
        if spread.number >= FEWEST
    }


@pytest.mark.parametrize("shape", ["zipf", "bimodal", "ar1"])
def test_scores_of_fleets_without_a_change_spread_by_one(shape: str) -> None:
    deviations = _deviations(shape, 60, 2)
    assert deviations
    assert all(0.85 <= deviation <= 1.15 for deviation in deviations.values()), deviations


@pytest.mark.long
@pytest.mark.parametrize("rate", [12, 60])
@pytest.mark.parametrize("shape", [*TUNED, *KEPT])
def test_scores_spread_by_one_in_every_shape_and_size_class(shape: str, rate: int) -> None:
    deviations = _deviations(shape, rate, 12)
    assert deviations
    assert all(0.85 <= deviation <= 1.15 for deviation in deviations.values()), deviations
