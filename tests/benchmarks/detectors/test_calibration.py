"""Scores are standard normal where nothing changed, whatever the fleet is like."""

import math

import pytest

from benchmarks.detectors.__main__ import main
from benchmarks.detectors.calibration import STARTS, pooled, spreads
from benchmarks.detectors.fleets.scenario import Scenario
from benchmarks.detectors.fleets.shape import SHAPES

MOST_MEAN = 0.2  #: of the scores of a class, beside two sampling errors
FEWEST = 300  #: scores, for their deviation to be known within a tenth


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "rate", "fleets", "sizes"),
    [
        ("zipf", 60, 8, {"middle", "large"}),
        ("zipf", 12, 8, {"small"}),
        ("bimodal", 60, 6, {"middle", "large"}),
        ("ar1", 60, 6, {"middle", "large"}),
        ("wild", 60, 6, {"middle", "large"}),
    ],
)
def test_scores_of_fleets_without_a_change_spread_by_one(
    shape: str, rate: int, fleets: int, sizes: set[str]
) -> None:
    scenario = Scenario(attempts_per_day=rate, shape=SHAPES[shape])
    by_class = spreads(scenario, range(7000, 7000 + fleets))
    deviations = {
        size: spread.deviation
        for size, spread in pooled(by_class).items()
        if spread.number >= FEWEST
    }
    assert sizes | {"group"} <= set(deviations)
    assert all(0.9 <= deviation <= 1.1 for deviation in deviations.values()), deviations
    for of, spread in by_class.items():
        error = 2 / math.sqrt(spread.number / len(STARTS))
        assert abs(spread.mean) <= MOST_MEAN + error, (of, spread)


@pytest.mark.long
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rate", [12, 60])
def test_scores_spread_by_one_in_every_shape_and_size_of_cohort(shape: str, rate: int) -> None:
    scenario = Scenario(attempts_per_day=rate, shape=SHAPES[shape])
    by_size = {
        size: spread
        for size, spread in pooled(spreads(scenario, range(7000, 7008))).items()
        if spread.number >= FEWEST
    }
    assert len(by_size) > 1
    for size, spread in by_size.items():
        error = 2 / math.sqrt(2 * spread.number / len(STARTS))  # starts of a series hang together
        assert 0.9 - error <= spread.deviation <= 1.1 + error, (size, spread)


def test_the_spread_of_each_shape_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["spread", "--fleets", "1", "--shapes", "zipf,laplace", "--rates", "12"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines] == [["zipf", "12"], ["laplace", "12"]]
    assert all("small" in line and "large" in line and "group" in line for line in lines)
