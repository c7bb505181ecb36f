import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import pytest

from ett_service.core.fleet.totals import Tally, Totals, place
from ett_service.fleet.economy import Economy, Price
from ett_service.fleet.projection import (
    SCALES,
    Input,
    Inputs,
    PlanQuestion,
    measured,
    plan,
    project,
)
from ett_service.fleet.scope import BadQuestion

SECOND = 1_000_000
DAY = 86_400 * SECOND

#: Llama 3: 419 failures of 16,384 accelerators in 54 days.
LLAMA_3_RATE = 419 / (2048 * 54)
LLAMA_3 = Inputs(Input(LLAMA_3_RATE), save=Input(60.0), restart=Input(600.0))

DAY_US = 86_400_000_000
ECONOMY = Economy(prices=(Price("a100", 10 * DAY_US, Fraction("3.5")),))

CLIMATE = PlanQuestion(flops=5.04e21, accelerators=64, mfu=0.42, hardware="A100")


def tally(*seconds: int) -> Tally:
    return Tally(Counter(place(each * SECOND) for each in seconds), sum(seconds) * SECOND)


def test_a_projection_holds_the_exact_form_beside_the_published_one() -> None:
    (point,) = project(replace(LLAMA_3, interval=1156.0), [16_384])

    assert point.mtbf == pytest.approx(11_135.08, abs=0.01)
    assert round(point.published_ratio, 3) == 0.850
    assert point.ett_ratio == pytest.approx(0.8528, abs=5e-4)
    assert point.published_error == point.published_ratio - point.ett_ratio < 0
    assert point.best_interval == pytest.approx(1116.3, abs=0.1)
    assert point.best_ett_ratio > point.ett_ratio


def test_without_an_interval_each_scale_takes_its_best() -> None:
    points = project(LLAMA_3, [1024, 65_536])

    assert all(point.interval == point.best_interval for point in points)
    assert all(point.ett_ratio == point.best_ett_ratio for point in points)
    assert points[0].interval > points[1].interval
    assert points[0].ett_ratio > points[1].ett_ratio


def test_the_usual_scales_double_from_a_node() -> None:
    assert [point.accelerators for point in project(LLAMA_3)] == list(SCALES)
    assert (SCALES[0], SCALES[-1]) == (8, 131_072)


def test_inputs_are_measured_with_their_number_and_bounds() -> None:
    totals = Totals(
        {"effective_training_weighted_us": 800 * DAY, "failures": 30, "infra_failures": 20},
        {
            "checkpoint_blocking": tally(10, 20),
            "time_to_recover": tally(300, 600, 900),
            "failure:infra/network": Tally({0: 4}),
            "failure:infra/host": Tally({0: 6}),
            "failure:preemption/preemption": Tally({0: 10}),
            "failure:user/oom": Tally({0: 10}),
        },
    )
    inputs = measured(totals, "infra", accelerators_per_node=8)

    assert inputs.failures_per_node_day.value == 0.2
    assert inputs.failures_per_node_day.n == 20
    assert inputs.failures_per_node_day.low == pytest.approx(0.1222, abs=1e-4)
    assert inputs.failures_per_node_day.high == pytest.approx(0.3089, abs=1e-4)
    assert (inputs.save, inputs.restart) == (Input(15.0, 2), Input(600.0, 3))
    assert measured(totals, "all", 8).failures_per_node_day.value == 0.3
    assert measured(totals, "nodes", 8).failures_per_node_day.value == 0.1


def test_the_bounds_of_a_point_are_those_of_the_failure_rate() -> None:
    uncertain = replace(LLAMA_3, failures_per_node_day=Input(0.004, 20, 0.002, 0.008))
    (point,) = project(uncertain, [16_384])

    assert point.low is not None
    assert point.high is not None
    assert point.low < point.ett_ratio < point.high
    at_most = replace(LLAMA_3, failures_per_node_day=Input(0.008), interval=point.interval)
    assert project(at_most, [16_384])[0].ett_ratio == point.low


def test_where_nothing_failed_yet_one_saves_for_the_failures_that_are_still_likely() -> None:
    unseen = replace(LLAMA_3, failures_per_node_day=Input(0.0, 0, 0.0, LLAMA_3_RATE))
    (point,) = project(unseen, [16_384])

    assert point.mtbf == math.inf
    assert point.interval == project(LLAMA_3, [16_384])[0].interval
    assert point.low is not None
    assert point.low < point.ett_ratio < 1


def test_a_run_that_is_said_never_to_fail_needs_no_checkpoint() -> None:
    (point,) = project(replace(LLAMA_3, failures_per_node_day=Input(0.0)), [8])

    assert (point.interval, point.ett_ratio, point.low) == (math.inf, 1.0, None)


def test_nothing_is_projected_while_inputs_are_missing() -> None:
    nothing = measured(Totals.ZERO, "infra", 8)

    assert nothing.missing == ["failures_per_node_day", "save_seconds", "restart_seconds"]
    assert project(nothing) == []
    assert LLAMA_3.missing == []


def test_price_and_peak_rate_come_from_the_settings() -> None:
    run_plan = plan(CLIMATE, ECONOMY, 20 * DAY_US)

    assert (run_plan.run.peak_teraflops, run_plan.price, run_plan.ett_from) == (312.0, 3.5, "ideal")
    assert run_plan.on_demand_cost == pytest.approx(37_393.16, rel=1e-6)
    assert run_plan.spot is None


def test_what_is_asked_goes_before_what_is_known() -> None:
    run_plan = plan(
        replace(CLIMATE, peak_teraflops=156.0, price=7.0, ett=0.5), ECONOMY, 20 * DAY_US, 0.9
    )

    assert (run_plan.run.peak_teraflops, run_plan.price) == (156.0, 7.0)
    assert (run_plan.run.ett_ratio, run_plan.ett_from) == (0.5, "given")
    assert run_plan.on_demand_cost == pytest.approx(8 * 37_393.16, rel=1e-6)


def test_etts_own_share_may_be_a_cohorts() -> None:
    run_plan = plan(CLIMATE, ECONOMY, 20 * DAY_US, measured_ett=0.8)

    assert (run_plan.run.ett_ratio, run_plan.ett_from) == (0.8, "measured")


def test_without_a_price_there_are_hours_and_no_money() -> None:
    run_plan = plan(replace(CLIMATE, discount=0.65, interval_seconds=1800.0), ECONOMY, 5 * DAY_US)

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
    run_plan = plan(question, ECONOMY, 20 * DAY_US)

    assert run_plan.run.flops == 5.04e21
    assert run_plan.cost_per_million_tokens == pytest.approx(37_393.16 / 120_000, rel=1e-6)


def test_spot_takes_its_best_interval_where_none_is_given() -> None:
    question = replace(
        CLIMATE, discount=0.65, seconds_between_interruptions=28_800.0, save_seconds=15.0,
        restart_seconds=600.0,
    )  # fmt: skip
    run_plan = plan(question, ECONOMY, 20 * DAY_US)

    assert run_plan.spot is not None
    assert run_plan.spot.spot.interval == pytest.approx(919.54, abs=0.01)
    assert run_plan.spot.cost is not None
    assert run_plan.on_demand_cost is not None
    assert 0.35 * run_plan.on_demand_cost < run_plan.spot.cost < run_plan.on_demand_cost
    assert 0 < run_plan.spot.break_even_seconds < 28_800.0


def test_spot_that_never_gets_cheaper_breaks_even_nowhere() -> None:
    question = replace(CLIMATE, discount=0.1, interval_seconds=60.0, save_seconds=60.0)
    run_plan = plan(question, ECONOMY, 20 * DAY_US)

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
        plan(question, ECONOMY, 20 * DAY_US)

    assert (refused.value.parameter, refused.value.code) == (parameter, code)


def test_a_cohort_that_trained_nothing_has_no_share_to_plan_with() -> None:
    with pytest.raises(BadQuestion, match="not_measured"):
        plan(CLIMATE, ECONOMY, 20 * DAY_US, measured_ett=0.0)
