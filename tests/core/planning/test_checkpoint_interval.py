import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ett_service.core.planning.checkpoint_interval import (
    best_interval,
    best_interval_seconds,
    blocking_seconds,
    curve,
    expected_ratio,
    failure_rate,
    flat_band_seconds,
    published_ratio,
    unsaved_seconds,
    wasted_ratio,
)
from tests.core.daly import daly_interval_seconds
from tests.core.renewal_simulation import simulated_ratio

DAY = 86_400.0
SAVE = 15.0
FAILURES_A_DAY = 3.0

HOUR = 3600.0
MINUTE = 60.0

RSC_1 = 6.5e-3
RSC_2 = 2.34e-3


@pytest.mark.parametrize(
    ("interval", "percent"),
    [(60, 25.104), (300, 5.521), (600, 3.542), (1800, 3.958), (3600, 6.667)],
)
def test_wasted_time_at_an_interval_is_the_published_one(interval: float, percent: float) -> None:
    ratio = wasted_ratio(DAY, FAILURES_A_DAY, interval, SAVE)

    assert round(100 * ratio, 3) == percent


def test_the_best_interval_is_the_published_one() -> None:
    best = best_interval_seconds(DAY, FAILURES_A_DAY, SAVE)

    assert round(best, 3) == 929.516
    assert round(100 * wasted_ratio(DAY, FAILURES_A_DAY, best, SAVE), 4) == 3.2275


def test_at_the_best_interval_failures_cost_what_saves_cost() -> None:
    best = best_interval_seconds(DAY, FAILURES_A_DAY, SAVE)

    assert unsaved_seconds(FAILURES_A_DAY, best) == pytest.approx(
        blocking_seconds(DAY, best, SAVE), rel=1e-12
    )


@pytest.mark.parametrize("factor", [0.5, 0.9, 1.1, 2.0])
def test_no_other_interval_wastes_less_than_the_best(factor: float) -> None:
    best = best_interval_seconds(DAY, FAILURES_A_DAY, SAVE)
    least = wasted_ratio(DAY, FAILURES_A_DAY, best, SAVE)

    assert wasted_ratio(DAY, FAILURES_A_DAY, factor * best, SAVE) > least


@given(
    failures=st.floats(0.01, 1000),
    save=st.floats(0.001, 10_000),
    slack=st.floats(0.0, 2.0),
)
def test_both_ends_of_the_flat_band_waste_the_slack_more_than_the_least(
    failures: float, save: float, slack: float
) -> None:
    best = best_interval_seconds(DAY, failures, save)
    allowed = (1 + slack) * wasted_ratio(DAY, failures, best, save)

    for end in flat_band_seconds(DAY, failures, save, slack):
        assert wasted_ratio(DAY, failures, end, save) == pytest.approx(allowed, rel=1e-9)


def test_the_flat_band_of_the_published_setting() -> None:
    low, high = flat_band_seconds(DAY, FAILURES_A_DAY, SAVE)

    assert (round(low, 1), round(high, 1)) == (678.4, 1273.6)


def test_the_curve_splits_waste_into_what_is_lost_and_what_is_blocked() -> None:
    (point,) = curve(DAY, FAILURES_A_DAY, SAVE, [600.0])

    assert point == (600.0, 900 / DAY, 2160 / DAY)
    assert round(100 * point.wasted_ratio, 3) == 3.542


def test_youngs_interval_is_dalys_but_for_the_save_itself() -> None:
    mtbf = DAY / FAILURES_A_DAY
    young = best_interval_seconds(DAY, FAILURES_A_DAY, SAVE)

    assert daly_interval_seconds(mtbf, SAVE) == pytest.approx(919.542898807462, rel=1e-12)
    assert daly_interval_seconds(mtbf, SAVE) == pytest.approx(young - SAVE, rel=0.006)


def test_where_nothing_fails_the_best_interval_is_endless() -> None:
    assert best_interval_seconds(DAY, failures=0, save_seconds=SAVE) == math.inf


@pytest.mark.parametrize(
    ("training", "failures", "interval", "save"),
    [
        (0.0, 3.0, 60.0, 15.0),
        (DAY, -1.0, 60.0, 15.0),
        (DAY, 3.0, 0.0, 15.0),
        (DAY, 3.0, 60.0, -15.0),
        (math.nan, 3.0, 60.0, 15.0),
    ],
)
def test_arguments_that_mean_nothing_are_refused(
    training: float, failures: float, interval: float, save: float
) -> None:
    with pytest.raises(ValueError, match="must"):
        wasted_ratio(training, failures, interval, save)


@pytest.mark.parametrize("restart", [60.0, 600.0])
@pytest.mark.parametrize(
    ("mtbf_hours", "failures"), [(0.5, 60_000), (2.0, 20_000), (8.0, 6_000), (24.0, 3_000)]
)
def test_a_simulated_run_trains_the_expected_share(
    mtbf_hours: float, failures: int, restart: float
) -> None:
    mtbf, save = mtbf_hours * HOUR, 30.0
    interval = best_interval(1 / mtbf, save)

    simulated = simulated_ratio(mtbf, interval, save, restart, failures, seed=7)

    assert expected_ratio(1 / mtbf, interval, save, restart) == pytest.approx(simulated, rel=0.01)


def test_the_short_form_leaves_a_simulated_run_where_failures_come_often() -> None:
    mtbf, interval, save, restart = 0.5 * HOUR, 1800.0, 60.0, 600.0

    simulated = simulated_ratio(mtbf, interval, save, restart, 60_000, seed=7)

    assert expected_ratio(1 / mtbf, interval, save, restart) == pytest.approx(simulated, rel=0.01)
    assert published_ratio(1 / mtbf, interval, save, restart) < 0.75 * simulated


@pytest.mark.parametrize(
    ("accelerators", "per_node_day", "interval_minutes", "restart_minutes", "ratio"),
    [
        (16_000, RSC_1, 60, 5, 0.684),
        (16_000, RSC_1, 5, 5, 0.932),
        (8_000, RSC_1, 30, 5 + 1, 0.905),
        (100_000, RSC_1, 7, 5, 0.520),
        (100_000, RSC_2, 2, 2, 0.939),
    ],
)
def test_the_what_ifs_of_the_reliability_paper_are_met_with_saves_that_do_not_block(
    accelerators: int,
    per_node_day: float,
    interval_minutes: float,
    restart_minutes: float,
    ratio: float,
) -> None:
    rate = failure_rate(accelerators, per_node_day, 8)

    short = published_ratio(rate, interval_minutes * MINUTE, 0.0, restart_minutes * MINUTE)

    assert round(short, 3) == ratio


@pytest.mark.parametrize(("accelerators", "hours"), [(16_384, 1.803), (131_072, 0.2254)])
def test_the_time_between_failures_of_the_reliability_paper_at_scale(
    accelerators: int, hours: float
) -> None:
    assert 1 / failure_rate(accelerators, RSC_1, 8) / HOUR == pytest.approx(hours, rel=3e-4)


@pytest.mark.parametrize(
    ("save", "ratios"),
    [
        (10.0, (0.932, 0.906, 0.853)),
        (60.0, (0.876, 0.850, 0.799)),
        (300.0, (0.768, 0.744, 0.695)),
    ],
)
def test_the_failure_rate_of_llama_3_gives_its_derived_table(
    save: float, ratios: tuple[float, ...]
) -> None:
    rate = 419 / (54 * 86_400)
    young = math.sqrt(2 * save / rate)

    assert (
        tuple(round(published_ratio(rate, young, save, m * MINUTE), 3) for m in (5, 10, 20))
        == ratios
    )


rates = st.floats(1e-9, 1e-2)
durations = st.floats(0.0, 1e5)
intervals = st.floats(1.0, 1e5)


@given(rate=rates, interval=intervals, save=durations, restart=durations)
def test_the_expected_share_is_one(
    rate: float, interval: float, save: float, restart: float
) -> None:
    assert 0 <= expected_ratio(rate, interval, save, restart) <= 1


@given(
    exposure=st.floats(0.0, 0.1),
    interval=intervals,
    save_share=st.floats(0.0, 2.0),
    restart_share=st.floats(0.0, 2.0),
)
def test_the_short_form_is_close_where_failures_are_rare(
    exposure: float, interval: float, save_share: float, restart_share: float
) -> None:
    save, restart = save_share * interval, restart_share * interval
    rate = exposure / (interval + save + restart)

    exact = expected_ratio(rate, interval, save, restart)

    assert published_ratio(rate, interval, save, restart) == pytest.approx(exact, rel=0.05)


@given(rate=rates, save=st.floats(0.1, 1e5), restart=durations)
def test_no_interval_beside_the_best_is_better(rate: float, save: float, restart: float) -> None:
    best = best_interval(rate, save)
    most = expected_ratio(rate, best, save, restart)

    for factor in (0.5, 0.9, 1.1, 2.0):
        assert expected_ratio(rate, factor * best, save, restart) <= most * (1 + 1e-12)


@given(mtbf=st.floats(1e3, 1e7), share=st.floats(1e-6, 1e-2))
def test_the_best_interval_is_dalys_where_saves_are_short(mtbf: float, share: float) -> None:
    save = share * mtbf

    assert best_interval(1 / mtbf, save) == pytest.approx(
        daly_interval_seconds(mtbf, save), rel=1e-3
    )


def test_a_run_that_never_fails_loses_its_saves_only() -> None:
    assert expected_ratio(0.0, 900.0, 100.0, 600.0) == pytest.approx(0.9)
    assert published_ratio(0.0, 900.0, 100.0, 600.0) == pytest.approx(0.9)
    assert best_interval(0.0, 100.0) == math.inf


def test_where_saving_is_free_one_saves_all_the_time() -> None:
    assert best_interval(1e-4, 0.0) == 0.0


def test_free_saves_that_come_all_the_time_leave_the_restarts() -> None:
    assert expected_ratio(1e-4, 0.0, 0.0, 600.0) == math.exp(-0.06)
    assert expected_ratio(1e-4, 1e-6, 0.0, 600.0) == pytest.approx(math.exp(-0.06))
    assert published_ratio(1e-4, 0.0, 0.0, 600.0) == pytest.approx(1 - 0.06)


def test_a_run_that_only_saves_trains_nothing() -> None:
    assert expected_ratio(1e-4, 0.0, 30.0, 600.0) == 0.0
    assert published_ratio(1e-4, 0.0, 30.0, 600.0) == 0.0


def test_a_run_that_never_saves_ends_if_nothing_fails() -> None:
    assert expected_ratio(0.0, math.inf, 30.0, 600.0) == 1.0
    assert published_ratio(0.0, math.inf, 30.0, 600.0) == 1.0
    assert expected_ratio(1e-9, math.inf, 30.0, 600.0) == 0.0


def test_a_run_that_fails_before_it_can_save_trains_nothing() -> None:
    assert expected_ratio(1.0, 1e6, 1e6, 1e6) == 0.0
    assert expected_ratio(math.inf, 0.0, 0.0, 0.0) == 0.0


@pytest.mark.parametrize(
    ("rate", "interval", "save", "restart"),
    [(-1.0, 1, 1, 1), (1.0, -1, 1, 1), (1.0, 1, -1, 1), (1.0, 1, 1, math.nan)],
)
def test_arguments_of_a_random_run_that_mean_nothing_are_refused(
    rate: float, interval: float, save: float, restart: float
) -> None:
    for form in (expected_ratio, published_ratio):
        with pytest.raises(ValueError, match="must"):
            form(rate, interval, save, restart)


def test_a_node_has_an_accelerator_at_least() -> None:
    with pytest.raises(ValueError, match="accelerators_per_node"):
        failure_rate(8, 0.1, 0)
