import math
from collections import Counter
from dataclasses import replace

import pytest

from ett_service.core.fleet.totals import Tally, Totals, place
from ett_service.fleet.projection import SCALES, Input, Inputs, measured, project

SECOND = 1_000_000
DAY = 86_400 * SECOND

#: Llama 3: 419 failures of 16,384 accelerators in 54 days.
LLAMA_3_RATE = 419 / (2048 * 54)
LLAMA_3 = Inputs(Input(LLAMA_3_RATE), save=Input(60.0), restart=Input(600.0))


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
