"""The bound grows with the change and the cohort, and shrinks with the memory of days."""

import pytest

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


def test_a_ramp_is_harder_to_see_than_the_change_that_it_comes_to() -> None:
    ramp = Scenario(ScenarioKind.RAMP, 60, 1.02, shape=SHAPES["zipf"])

    assert 0.01 < chance(simulate(4, ramp)) < _chance("zipf", 60, 1.02**10)


def test_fewer_hits_show_whether_or_not_their_state_is_known() -> None:
    with_states, without_states = (
        chance(simulate(4, Scenario(ScenarioKind.HITS, 12, shape=SHAPES[name])))
        for name in ("known", "bimodal")
    )

    assert 0.01 < with_states < 1
    assert with_states == pytest.approx(without_states, abs=0.1)
