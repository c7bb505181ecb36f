import numpy as np
import pytest

from ett_service.detection.models.series_model import interval, log_with_zeros, medians, shift
from ett_service.detection.window import bounded_logarithms


def test_the_shift_is_the_median_of_all_differences() -> None:
    assert shift(np.array([1.0, 2.0, 10.0]), np.array([4.0, 5.0])) == pytest.approx(2.5)


def test_a_long_side_is_reported_by_its_quantiles() -> None:
    draws = np.random.default_rng(1)
    before, after = draws.normal(0, 1, 5000), draws.normal(0.3, 1, 3000)
    assert shift(before, after) == pytest.approx(0.3, abs=0.06)


def test_without_values_there_is_no_shift() -> None:
    assert shift(np.array([]), np.array([1.0])) == 0.0


def test_the_interval_holds_the_truth_in_nineteen_of_twenty_cases() -> None:
    draws = np.random.default_rng(2)
    late = np.arange(42) >= 28
    held = 0
    for _ in range(400):
        level = draws.normal(0, 0.1, 42) + 0.4 * late
        low, high = interval(level, np.full(42, 100.0), late)
        middle = level[late].mean() - level[~late].mean()
        held += middle + low <= 0.4 <= middle + high
    assert held >= 0.93 * 400


def test_days_that_differ_more_than_their_values_widen_it() -> None:
    draws = np.random.default_rng(3)
    late = np.arange(42) >= 28
    calm, wild = (interval(draws.normal(0, sd, 42), np.full(42, 1e4), late) for sd in (0.01, 0.3))
    assert wild[1] - wild[0] > 5 * (calm[1] - calm[0])


def test_medians_are_those_of_each_group() -> None:
    draws = np.random.default_rng(1)
    values, group = draws.normal(0, 5, 300), draws.integers(0, 7, 300)
    of_groups = medians(values, group, 8)
    assert of_groups[:7] == pytest.approx([np.median(values[group == each]) for each in range(7)])
    assert np.isnan(of_groups[7])


def test_logarithms_with_zeros_keep_short_times_apart_in_every_unit() -> None:
    us = np.array([0, 1, 50, 200, 800])
    logs = log_with_zeros(us)
    assert np.all(np.diff(logs) > 0)
    assert log_with_zeros(1000 * us) - logs == pytest.approx(np.full(5, np.log(1000)))


def test_bounded_logarithms_hold_short_times_to_be_equal() -> None:
    assert bounded_logarithms(np.array([0, 1, 99_999])) == pytest.approx(np.log(np.full(3, 1e5)))
