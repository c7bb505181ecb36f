import math
from dataclasses import replace
from fractions import Fraction

import pytest

from ett_service.fleet.economy import Economy, Price
from ett_service.fleet.run_plan import PlanQuestion, plan
from ett_service.fleet.scope import BadQuestion

DAY = 86_400_000_000
ECONOMY = Economy(prices=(Price("a100", 10 * DAY, Fraction("3.5")),))

CLIMATE = PlanQuestion(flops=5.04e21, accelerators=64, mfu=0.42, hardware="A100")


def test_price_and_peak_rate_come_from_the_settings() -> None:
    run_plan = plan(CLIMATE, ECONOMY, 20 * DAY)

    assert (run_plan.run.peak_teraflops, run_plan.price, run_plan.ett_from) == (312.0, 3.5, "ideal")
    assert run_plan.on_demand_cost == pytest.approx(37_393.16, rel=1e-6)
    assert run_plan.spot is None


def test_what_is_asked_goes_before_what_is_known() -> None:
    run_plan = plan(
        replace(CLIMATE, peak_teraflops=156.0, price=7.0, ett=0.5), ECONOMY, 20 * DAY, 0.9
    )

    assert (run_plan.run.peak_teraflops, run_plan.price) == (156.0, 7.0)
    assert (run_plan.run.ett_ratio, run_plan.ett_from) == (0.5, "given")
    assert run_plan.on_demand_cost == pytest.approx(8 * 37_393.16, rel=1e-6)


def test_etts_own_share_may_be_a_cohorts() -> None:
    run_plan = plan(CLIMATE, ECONOMY, 20 * DAY, measured_ett=0.8)

    assert (run_plan.run.ett_ratio, run_plan.ett_from) == (0.8, "measured")


def test_without_a_price_there_are_hours_and_no_money() -> None:
    run_plan = plan(replace(CLIMATE, discount=0.65, interval_seconds=1800.0), ECONOMY, 5 * DAY)

    assert (run_plan.price, run_plan.on_demand_cost, run_plan.cost_per_million_tokens) == (
        None,
        None,
        None,
    )
    assert run_plan.spot is not None
    assert run_plan.spot.cost is None
    assert run_plan.spot.gpu_hours == run_plan.run.gpu_hours


def test_operations_follow_from_parameters_and_tokens() -> None:
    question = replace(CLIMATE, flops=None, parameters=7 * 10**9, tokens=120 * 10**9)
    run_plan = plan(question, ECONOMY, 20 * DAY)

    assert run_plan.run.flops == 5.04e21
    assert run_plan.cost_per_million_tokens == pytest.approx(37_393.16 / 120_000, rel=1e-6)


def test_spot_takes_its_best_interval_where_none_is_given() -> None:
    question = replace(
        CLIMATE, discount=0.65, seconds_between_interruptions=28_800.0, save_seconds=15.0,
        restart_seconds=600.0,
    )  # fmt: skip
    run_plan = plan(question, ECONOMY, 20 * DAY)

    assert run_plan.spot is not None
    assert run_plan.spot.spot.interval == pytest.approx(919.54, abs=0.01)
    assert run_plan.spot.cost is not None
    assert run_plan.on_demand_cost is not None
    assert 0.35 * run_plan.on_demand_cost < run_plan.spot.cost < run_plan.on_demand_cost
    assert 0 < run_plan.spot.break_even_seconds < 28_800.0


def test_spot_that_never_gets_cheaper_breaks_even_nowhere() -> None:
    question = replace(CLIMATE, discount=0.1, interval_seconds=60.0, save_seconds=60.0)
    run_plan = plan(question, ECONOMY, 20 * DAY)

    assert run_plan.spot is not None
    assert run_plan.spot.break_even_seconds == math.inf


@pytest.mark.parametrize(
    ("question", "parameter", "code"),
    [
        (replace(CLIMATE, flops=None), "flops", "missing"),
        (replace(CLIMATE, flops=None, parameters=1), "flops", "missing"),
        (replace(CLIMATE, flops=-1.0), "flops", "out_of_bounds"),
        (replace(CLIMATE, flops=None, parameters=-1, tokens=1), "parameters", "out_of_bounds"),
        (replace(CLIMATE, hardware=None), "peak_teraflops", "missing"),
        (replace(CLIMATE, hardware="x1"), "peak_teraflops", "missing"),
        (replace(CLIMATE, mfu=1.2), "mfu", "out_of_bounds"),
        (replace(CLIMATE, mfu=1e-300), "flops", "out_of_bounds"),
        (replace(CLIMATE, ett=0.0), "ett", "out_of_bounds"),
        (replace(CLIMATE, accelerators=0), "accelerators", "out_of_bounds"),
        (replace(CLIMATE, price=-1.0), "price", "out_of_bounds"),
        (replace(CLIMATE, discount=0.5), "interval_seconds", "missing"),
        (replace(CLIMATE, discount=1.5, interval_seconds=1.0), "discount", "out_of_bounds"),
        (
            replace(
                CLIMATE, discount=0.5, interval_seconds=1.0, seconds_between_interruptions=-1.0
            ),
            "seconds_between_interruptions",
            "out_of_bounds",
        ),
    ],
)
def test_what_is_missing_or_impossible_is_named(
    question: PlanQuestion, parameter: str, code: str
) -> None:
    with pytest.raises(BadQuestion) as refused:
        plan(question, ECONOMY, 20 * DAY)

    assert (refused.value.parameter, refused.value.code) == (parameter, code)


def test_a_cohort_that_trained_nothing_has_no_share_to_plan_with() -> None:
    with pytest.raises(BadQuestion, match="not_measured"):
        plan(CLIMATE, ECONOMY, 20 * DAY, measured_ett=0.0)
