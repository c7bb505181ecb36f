import pytest
from hypothesis import given
from hypothesis import strategies as st

from ett_service.charts.units import (
    count,
    duration,
    failure_counts,
    gpu_hours,
    longer,
    money,
    percent,
    points,
    time_between_failures,
    value,
)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0.0s"),
        (4.94, "4.9s"),
        (59.94, "59.9s"),
        (59.96, "1m 00s"),
        (486, "8m 06s"),
        (3_599.4, "59m 59s"),
        (3_599.6, "1h 00m"),
        (11_100, "3h 05m"),
        (86_369, "23h 59m"),
        (86_399, "1d 00h"),
        (187_200, "2d 04h"),
        (-486, "-8m 06s"),
        (None, "-"),
    ],
)
def test_a_duration_shows_its_two_largest_units(seconds: float | None, shown: str) -> None:
    assert duration(seconds) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "0.0s"), (0.1054, "0.105s"), (1.1249, "1.12s"), (9.994, "9.99s"), (9.996, "10.0s"),
     (13.34, "13.3s"), (486, "8m 06s"), (None, "-")],
)  # fmt: skip
def test_a_short_value_has_three_digits(seconds: float | None, shown: str) -> None:
    assert value("seconds", seconds) == shown


@given(st.floats(0, 1e9))
def test_no_duration_shows_sixty_of_a_unit(seconds: float) -> None:
    assert not {"60.0s", "60s", "60m", "24h"} & set(duration(seconds).split())


@pytest.mark.parametrize(
    ("difference", "shown"),
    [(-0.009, "-0.9 pt"), (0.0061, "+0.6 pt"), (-0.0004, "0.0 pt"), (0.0, "0.0 pt"), (None, "-")],
)
def test_a_difference_of_ratios_is_shown_in_points(difference: float | None, shown: str) -> None:
    assert points(difference) == shown


@pytest.mark.parametrize(
    ("difference", "shown"),
    [(80.0, "+1m 20s"), (-4.9, "-4.9s"), (0.0, "0.0s"), (-0.04, "0.0s"), (None, "-")],
)
def test_a_difference_of_durations_has_its_sign(difference: float | None, shown: str) -> None:
    assert longer(difference) == shown


def test_a_ratio_is_shown_as_percent() -> None:
    assert [percent(ratio) for ratio in (0.8844, 1.0, 0.0, None)] == [
        "88.4%",
        "100.0%",
        "0.0%",
        "-",
    ]


def test_money_without_a_price_is_a_dash_and_never_nothing() -> None:
    assert money(None, "USD") == "-"
    assert money(12_345.4, "USD") == "USD 12,345"
    assert money(3.456, "EUR") == "EUR 3.46"


def test_gpu_seconds_are_shown_as_hours() -> None:
    assert gpu_hours(3600 * 12_345) == "12,345"
    assert gpu_hours(3600 * 87.34) == "87.3"
    assert count(1_234_567) == "1,234,567"


def between(seconds: float | None, low: float | None, high: float | None, n: int) -> str:
    return time_between_failures(
        {"seconds": seconds, "low": low, "high": high, "confidence": 0.95, "failures": n}
    )


def test_without_a_failure_a_short_time_says_nothing_of_the_time_between_failures() -> None:
    assert between(None, 1.6, None, 0) == "not known yet: nothing failed"
    assert between(None, None, None, 0) == "not known yet: nothing failed"
    assert between(None, 7_200.0, None, 0) == "at least 2h 00m: nothing failed"
    assert between(7_200.0, 3_600.0, 10_800.0, 3) == "2h 00m (95% interval: 1h 00m to 3h 00m)"


def test_infra_failures_are_counted_by_both_of_their_origins() -> None:
    assert failure_counts(175, 70) == "175 failures, 70 of them of origin infra or preemption"
    assert failure_counts(1, 0) == "1 failure, 0 of them of origin infra or preemption"
