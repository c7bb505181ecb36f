"""The bound grows with the change and the cohort, and shrinks with the memory of days."""

from benchmarks.detectors.bounds import chance
from benchmarks.detectors.fleets.fleet import simulate
from benchmarks.detectors.fleets.scenario import Scenario, ScenarioKind
from benchmarks.detectors.fleets.shape import SHAPES


def _chance(shape: str, rate: int, factor: float) -> float:
    return chance(simulate(4, Scenario(ScenarioKind.CELL, rate, factor, shape=SHAPES[shape])))


def test_a_larger_change_and_a_larger_cohort_are_easier_to_see() -> None:
    assert _chance("zipf", 12, 1.3) < _chance("zipf", 12, 1.6) < _chance("zipf", 12, 2.5) <= 1
    assert _chance("zipf", 12, 1.3) < _chance("zipf", 60, 1.3)


def test_days_that_hang_together_hide_a_change() -> None:
    assert _chance("ar1", 60, 1.3) < _chance("zipf", 60, 1.3)
