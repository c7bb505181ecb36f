import pytest
from hypothesis import given
from hypothesis import strategies as st

from ett_service.charts.svg import clock_ticks, linear, logarithmic, ticks, time_ticks

REAL = st.integers(-(10**9), 10**9).map(lambda thousandths: thousandths / 1000)


@given(REAL, REAL, st.integers(3, 9))
def test_ticks_cover_what_is_there_and_are_few(first: float, other: float, most: int) -> None:
    low, high = sorted((first, other))
    marks = ticks(low, high, most)
    assert marks == sorted(marks)
    assert len(marks) <= most
    unseen = 1e-8 * (high - low)
    assert marks[0] <= low + unseen
    assert marks[-1] >= high - unseen


def test_ticks_are_round() -> None:
    assert ticks(0.8812, 0.8999) == [0.88, 0.885, 0.89, 0.895, 0.9]
    assert ticks(0.0, 1.0) == [0.0, 0.25, 0.5, 0.75, 1.0]


def test_ticks_of_a_single_value_are_that_value() -> None:
    assert ticks(0.9, 0.9) == [0.9]


def test_a_scale_maps_ends_to_ends() -> None:
    down = linear((0.0, 2.0), (100.0, 0.0))
    assert [down(value) for value in (0.0, 1.0, 2.0)] == [100.0, 50.0, 0.0]
    assert linear((1.0, 1.0), (0.0, 10.0))(1.0) == 5.0


def test_equal_ratios_are_equally_long_on_a_logarithmic_scale() -> None:
    across = logarithmic((1.0, 100.0), (0.0, 10.0))
    assert across(10.0) == pytest.approx(5.0)


def test_ticks_of_seconds_are_round_as_minutes() -> None:
    assert time_ticks(860.0, 1230.0) == [840.0, 960.0, 1080.0, 1200.0, 1320.0]
    assert time_ticks(3.2, 4.9) == [3.0, 4.0, 5.0]
    assert time_ticks(0.1, 0.3) == ticks(0.1, 0.3)


@given(REAL, REAL)
def test_ticks_of_seconds_cover_what_is_there(first: float, other: float) -> None:
    low, high = sorted((first, other))
    marks = time_ticks(low, high)
    assert len(marks) <= 5
    assert marks[0] <= low + 1e-8 * (high - low)
    assert marks[-1] >= high - 1e-8 * (high - low)


def test_ticks_of_an_axis_stand_at_round_times_and_of_a_long_one_at_midnights() -> None:
    begin, day = 5 * 3600.0 + 14 * 60, 86_400.0
    assert all((begin + tick) % 1800 == 0 for tick in clock_ticks(2 * 3600.0, begin))
    for days in (3, 20, 90):
        ticks_of_days = clock_ticks(days * day, begin)
        assert 3 <= len(ticks_of_days) <= 9
        assert all((begin + tick) % day == 0 for tick in ticks_of_days)
