import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ett_service.core.planning.checkpoint_interval import (
    best_interval_seconds,
    blocking_seconds,
    curve,
    flat_band_seconds,
    unsaved_seconds,
    wasted_ratio,
)
from tests.core.daly import daly_interval_seconds

DAY = 86_400.0
SAVE = 15.0
FAILURES_A_DAY = 3.0


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
