"""Scores are standard normal where nothing changed, whatever the fleet is like."""

import pytest

from benchmarks.detectors.__main__ import main
from benchmarks.detectors.calibration import pooled, spreads
from benchmarks.detectors.fleets.scenario import Scenario
from benchmarks.detectors.fleets.shape import SHAPES

FEWEST = 300  #: scores, for their deviation to be known within a tenth


def _deviations(shape: str, rate: int, fleets: int) -> dict[str, float]:
    scenario = Scenario(attempts_per_day=rate, shape=SHAPES[shape])
    return {
        size: spread.deviation
        for size, spread in pooled(spreads(scenario, range(7000, 7000 + fleets))).items()
        if spread.number >= FEWEST
    }


@pytest.mark.parametrize(("shape", "fleets"), [("zipf", 3), ("bimodal", 2), ("ar1", 3)])
def test_scores_of_fleets_without_a_change_spread_by_one(shape: str, fleets: int) -> None:
    deviations = _deviations(shape, 60, fleets)
    assert deviations
    assert all(0.9 <= deviation <= 1.1 for deviation in deviations.values()), deviations


def test_the_spread_of_each_shape_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["spread", "--fleets", "1", "--shapes", "zipf,laplace", "--rates", "12"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines] == [["zipf", "12"], ["laplace", "12"]]
    assert all("small" in line and "large" in line for line in lines)
