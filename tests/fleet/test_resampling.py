"""Intervals by drawing again: as wide as theory says, and the same every time."""

import random

import numpy as np
import pytest

from ett_service.fleet.uncertainty import GROUPS, Resampling, interval


def _resampled(values: list[float], stream: int = 0) -> Resampling:
    resampling = Resampling(2, stream)
    for value in values:
        resampling.add((value, 1))
    return resampling


def _mean_interval(values: list[float]) -> tuple[float, float]:
    draws = _resampled(values).draws()
    assert draws is not None
    bounds = interval(draws[:, 0] / draws[:, 1])
    assert bounds is not None
    return bounds


def test_the_interval_of_a_mean_is_as_wide_as_its_standard_error_says() -> None:
    chance = random.Random(3)
    values = [chance.gauss(100, 20) for _ in range(400)]

    low, high = _mean_interval(values)

    assert high - low == pytest.approx(2 * 1.96 * 20 / 20, rel=0.1)
    assert low < sum(values) / 400 < high


def test_more_units_than_groups_give_an_interval_as_good() -> None:
    chance = random.Random(4)
    values = [chance.gauss(100, 20) for _ in range(3 * GROUPS)]

    low, high = _mean_interval(values)

    assert high - low == pytest.approx(2 * 1.96 * 20 / (3 * GROUPS) ** 0.5, rel=0.1)


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    chance = random.Random(5)
    covered = 0
    for _ in range(200):
        low, high = _mean_interval([chance.expovariate(1) for _ in range(60)])
        covered += low < 1 < high
    assert 0.88 <= covered / 200 <= 0.99


def test_the_interval_of_a_median_is_as_wide_as_theory_says() -> None:
    chance = random.Random(6)
    values = [round(chance.gauss(1_000_000, 200_000)) for _ in range(400)]
    resampling = Resampling(1)
    for value in values:
        resampling.add((value,))

    medians = resampling.medians(values, range(400))

    assert medians is not None
    bounds = interval(medians)
    assert bounds is not None
    # The standard error of a normal median is sqrt(pi / 2) that of the mean.
    assert bounds.high - bounds.low == pytest.approx(2 * 1.96 * 1.2533 * 10_000, rel=0.2)
    assert bounds.low < 1_000_000 < bounds.high


@pytest.mark.parametrize("n", [2, 3, 7, 50, 401])
def test_the_median_of_a_draw_is_that_of_its_values_written_out(n: int) -> None:
    chance = random.Random(n)
    values = [chance.randrange(1, 40) for _ in range(n)]
    units = [place % max(2, n // 3) for place in range(n)]
    resampling = Resampling(len(set(units)))
    for unit in range(len(set(units))):
        resampling.add([float(unit == each) for each in range(len(set(units)))])

    medians, times = resampling.medians(values, units), resampling.draws()

    assert medians is not None
    assert times is not None
    for median, drawn in zip(medians[::50], times[::50], strict=True):
        counts = [int(drawn[unit]) for unit in units]
        assert median == np.median(np.repeat(values, counts))


def test_values_of_one_unit_are_drawn_together() -> None:
    resampling = Resampling(1)
    for _ in range(3):
        resampling.add((0,))

    medians = resampling.medians([1, 1, 1, 5, 9], [0, 0, 0, 1, 2])

    # Whichever units are drawn, the first has three values of each draw that holds it.
    assert medians is not None
    assert set(medians) <= {1.0, 3.0, 5.0, 7.0, 9.0}
    assert (medians == 1).mean() > 0.6


def test_the_same_units_give_the_same_draws_and_other_streams_others() -> None:
    values = [1.0, 5.0, 2.0]
    first, again, other = (_resampled(values, stream).draws() for stream in (0, 0, 1))
    assert first is not None
    assert again is not None
    assert other is not None
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_fewer_than_two_units_say_nothing() -> None:
    assert Resampling(1).draws() is None
    assert Resampling(1).medians([], []) is None
    assert _resampled([3.0]).draws() is None


def test_figures_that_are_none_are_left_out() -> None:
    assert interval(np.array([np.nan, np.inf])) is None
    assert interval(np.array([np.nan, 2.0, 2.0])) == (2.0, 2.0)
