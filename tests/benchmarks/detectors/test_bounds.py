"""The bound grows with the change and the cohort, and shrinks with the memory of days."""

import pytest

from benchmarks.detectors.bounds import chances, goal, has_bound, told, variance_of_value
from benchmarks.detectors.fleets import parameters
from benchmarks.detectors.fleets.fleet import simulate
from benchmarks.detectors.fleets.scenario import Scenario, ScenarioKind
from benchmarks.detectors.fleets.shape import SHAPES


def _chance(shape: str, rate: int, factor: float) -> float:
    scenario = Scenario(ScenarioKind.CELL, rate, factor, shape=SHAPES[shape])
    return chances(simulate(4, scenario)).known


def test_a_larger_change_and_a_larger_cohort_are_easier_to_see() -> None:
    assert _chance("zipf", 12, 1.3) < _chance("zipf", 12, 1.6) < _chance("zipf", 12, 2.5) <= 1
    assert _chance("zipf", 12, 1.3) < _chance("zipf", 60, 1.3)


def test_days_that_hang_together_hide_a_change() -> None:
    assert _chance("ar1", 60, 1.3) < _chance("zipf", 60, 1.3)


def test_who_has_to_search_the_day_sees_less_of_a_small_change_and_all_of_a_large_one() -> None:
    small, large = (
        chances(simulate(4, Scenario(ScenarioKind.CELL, 12, factor, shape=SHAPES["zipf"])))
        for factor in (1.3, 2.5)
    )

    assert 0.5 * small.known < small.searched < 0.98 * small.known
    assert large.searched == pytest.approx(large.known, abs=0.01)


def test_a_ramp_is_harder_to_see_than_the_change_that_it_comes_to() -> None:
    ramp = Scenario(ScenarioKind.RAMP, 60, 1.02, shape=SHAPES["zipf"])

    assert 0.01 < chances(simulate(4, ramp)).known < _chance("zipf", 60, 1.02**10)


def test_fewer_hits_show_whether_or_not_their_state_is_known() -> None:
    with_states, without_states = (
        chances(simulate(4, Scenario(ScenarioKind.HITS, 12, shape=SHAPES[name]))).known
        for name in ("known", "bimodal")
    )

    assert 0.01 < with_states < 1
    assert with_states == pytest.approx(without_states, abs=0.1)


@pytest.mark.parametrize("shape", ["laplace", "uniform"])
def test_a_law_with_a_peak_or_an_edge_shows_more_of_a_shift_than_a_normal_one(shape: str) -> None:
    assert _chance("zipf", 12, 1.3) < _chance(shape, 12, 1.3)


def test_modes_that_nobody_knows_hide_a_part_of_it() -> None:
    assert 0.1 < _chance("bimodal", 12, 1.3) < _chance("zipf", 12, 1.3)


def test_a_warm_cache_that_no_stratum_tells_hides_a_part_of_a_slower_compile() -> None:
    compiling, launching = (
        variance_of_value(SHAPES["zipf"], parameters.PHASES[phase], 0.26)
        for phase in (parameters.COMPILE, parameters.LAUNCHER)
    )
    assert 1.3 * launching < compiling < 2.5 * launching


@pytest.mark.parametrize(
    ("shape", "phase", "least"),
    [
        ("zipf", parameters.SCHEDULING, 0.95),
        ("laplace", parameters.LAUNCHER, 0.92),
        ("bimodal", parameters.SCHEDULING, 0.84),
    ],
)
def test_a_score_tells_a_slowdown_about_as_surely_as_its_law_allows(
    shape: str, phase: int, least: float
) -> None:
    assert least < told(SHAPES[shape], parameters.PHASES[phase], 1.6) < 1.05


def test_the_goal_is_nine_tenths_of_a_bound_that_is_too_low_for_it() -> None:
    scenario = Scenario(ScenarioKind.CELL, 60, 1.6)
    assert goal(scenario, 0.96) == pytest.approx(0.95)
    assert goal(Scenario(ScenarioKind.CELL, 12, 1.6), 0.95) == pytest.approx(0.75)
    assert goal(scenario, 0.5) == pytest.approx(0.45)
    assert goal(Scenario(ScenarioKind.CELL, 60, 1.15), 0.5) is None
    assert not has_bound(Scenario(ScenarioKind.OUTAGE, 60))
