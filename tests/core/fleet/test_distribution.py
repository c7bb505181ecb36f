"""Buckets: every duration within 2 % of its bucket's estimate, and quantiles that hold it."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ett_service.core.fleet.totals import (
    HISTOGRAM_BOUNDS_US,
    Tally,
    bounds,
    place,
    ratio_place,
    value,
)

_durations = st.integers(1, 2**62) | st.integers(1, 10**6)


def tally_of(durations: list[int]) -> Tally:
    tally = Tally()
    for us in durations:
        tally = tally + Tally({place(us): 1}, us)
    return tally


@given(_durations)
def test_an_estimate_is_within_two_percent(us: int) -> None:
    assert abs(value(place(us)) - us) <= 0.02 * us


@given(_durations)
def test_a_duration_lies_in_the_bounds_of_its_bucket(us: int) -> None:
    low, high = bounds(place(us))

    assert low < us <= high


def test_every_bound_of_the_histograms_is_a_bound_of_the_ladder() -> None:
    assert [bounds(place(bound))[1] for bound in HISTOGRAM_BOUNDS_US] == list(HISTOGRAM_BOUNDS_US)


def test_nothing_lies_in_the_bucket_of_nothing() -> None:
    assert (place(0), value(0), bounds(0)) == (0, 0, (0, 0))


@pytest.mark.parametrize("us", [-1, 2**62 + 1])
def test_what_lies_in_no_bucket_is_refused(us: int) -> None:
    with pytest.raises(ValueError, match="no bucket"):
        place(us)


@given(st.lists(_durations, min_size=1), st.sampled_from([0.0, 0.5, 0.9, 0.99, 1.0]))
def test_a_quantile_is_within_two_percent_of_the_nearest_rank(
    durations: list[int], q: float
) -> None:
    rank = max(1, -int(-q * len(durations) // 1))
    exact = sorted(durations)[rank - 1]
    estimate = tally_of(durations).quantile(q)

    assert estimate is not None
    assert abs(estimate - exact) <= 0.02 * exact


def test_lognormal_durations_keep_their_quantiles() -> None:
    chance = random.Random(3)
    durations = [int(chance.lognormvariate(20, 1)) for _ in range(4_000)]
    tally = tally_of(durations)

    for q in (0.5, 0.9, 0.99):
        exact = sorted(durations)[int(q * len(durations)) - 1]
        assert tally.quantile(q) == pytest.approx(exact, rel=0.02)
    assert tally.mean_us == sum(durations) / len(durations)


@given(st.lists(_durations), st.lists(_durations))
def test_what_was_added_can_be_taken_out_again(durations: list[int], other: list[int]) -> None:
    both = tally_of(durations) + tally_of(other)

    assert both == tally_of(durations + other)
    assert both - tally_of(other) == tally_of(durations)


def test_no_durations_have_no_quantile_and_no_mean() -> None:
    assert (Tally().quantile(0.5), Tally().mean_us, Tally().n) == (None, None, 0)


def test_a_quantile_beyond_all_is_refused() -> None:
    with pytest.raises(ValueError, match="from 0 to 1"):
        Tally({1: 1}).quantile(1.5)


def test_a_ratio_lies_in_its_thousandth_and_an_empty_whole_in_the_first() -> None:
    assert [ratio_place(1, 3), ratio_place(3, 3), ratio_place(0, 0)] == [333, 1000, 0]
