"""Ranks against what is known of them, from another implementation and by simulation."""

from itertools import combinations
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import mannwhitneyu, rankdata

from ett_service.detection.ranks import compare, holm, smallest
from ett_service.detection.sample import Floats
from ett_service.detection.window import bounded_logarithms


def drawn(seed: int, ours: int, theirs: int, apart: float = 0.2) -> tuple[Floats, Floats]:
    chance = np.random.default_rng(seed)
    return chance.normal(0, 0.3, ours), chance.normal(apart, 0.3, theirs)


@pytest.mark.parametrize(("ours", "theirs"), [(2, 2), (3, 7), (10, 10), (20, 20), (60, 50)])
def test_the_probability_is_that_of_scipy(ours: int, theirs: int) -> None:
    base, other = drawn(ours, ours, theirs)
    method: Literal["exact", "asymptotic"] = "exact" if ours + theirs <= 40 else "asymptotic"
    ranked = compare(base, other)

    assert ranked is not None
    assert ranked.p == pytest.approx(mannwhitneyu(other, base, method=method).pvalue, rel=1e-9)


def test_with_ties_the_probability_is_that_of_all_permutations() -> None:
    base, other = (np.round(each, 1) for each in drawn(1, 4, 5, 0.5))
    ranks = rankdata(np.concatenate([base, other])).tolist()
    seen = sum(ranks[len(base) :])
    sums = [sum(drawn) for drawn in combinations(ranks, len(other))]
    tails = sum(each <= seen for each in sums), sum(each >= seen for each in sums)
    expected = min(1, 2 * min(tails) / len(sums))
    ranked = compare(base, other)

    assert ranked is not None
    assert ranked.p == pytest.approx(expected, rel=1e-9)


def test_many_ties_are_corrected_for() -> None:
    base, other = (np.round(each, 1) for each in drawn(1, 60, 50))
    ranked = compare(base, other)

    assert ranked is not None
    assert ranked.p == pytest.approx(mannwhitneyu(other, base).pvalue, rel=1e-9)


@pytest.mark.parametrize(("ours", "theirs"), [(8, 10), (60, 60)])
def test_the_interval_holds_the_factor_as_often_as_it_says(ours: int, theirs: int) -> None:
    held = 0
    for seed in range(300):
        ranked = compare(*drawn(seed, ours, theirs))
        assert ranked is not None
        held += ranked.low <= np.exp(0.2) <= ranked.high
    assert 0.92 <= held / 300 <= 0.985


@pytest.mark.parametrize("count", [15, 60])
def test_the_smallest_factor_is_seen_in_eight_of_ten_cases(count: int) -> None:
    base, other = drawn(0, 4000, 4000, 0)
    chance = np.random.default_rng(count)
    spread_out = chance.choice(base, count, replace=False), chance.choice(other, count)
    factor = smallest(*spread_out)
    assert factor is not None
    exact = np.exp(2.8016 * 0.3 * np.sqrt(2 / count / (3 / np.pi)))
    assert factor == pytest.approx(exact, rel=0.2)

    seen = 0
    for seed in range(200):
        ranked = compare(*drawn(seed, count, count, float(np.log(exact))))
        assert ranked is not None
        seen += ranked.p <= 0.05
    assert 0.72 <= seen / 200 <= 0.88


@pytest.mark.parametrize(("ours", "theirs"), [(1, 40), (3, 3)])
def test_too_few_values_show_nothing_however_far_apart(ours: int, theirs: int) -> None:
    base, other = drawn(1, ours, theirs, 50.0)
    ranked = compare(base, other)

    assert smallest(base, other) is None
    assert ranked is not None
    assert (ranked.low, ranked.high, ranked.p > 0.04) == (0.0, np.inf, True)


def test_without_values_on_a_side_there_is_nothing_to_compare() -> None:
    base, _ = drawn(1, 5, 0)
    assert compare(base, np.array([])) is None
    assert compare(np.array([]), base) is None


def test_values_that_are_all_alike_do_not_differ() -> None:
    for count in (5, 100):
        ranked = compare(np.full(count, 2.0), np.full(count, 2.0))
        assert ranked is not None
        assert (ranked.ratio, ranked.low, ranked.high, ranked.p) == (1.0, 1.0, 1.0, 1.0)


def test_holm_corrects_the_smallest_most_and_keeps_the_order() -> None:
    assert holm([0.01, 0.04, 0.03, 0.5]) == pytest.approx([0.04, 0.09, 0.09, 0.5])
    assert holm([]) == []


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 999), st.integers(1, 25), st.integers(1, 60))
def test_the_other_way_round_is_the_inverse(seed: int, ours: int, theirs: int) -> None:
    base, other = drawn(seed, ours, theirs)
    there, back = compare(base, other), compare(other, base)

    assert there is not None
    assert back is not None
    assert there.ratio == pytest.approx(1 / back.ratio)
    assert there.p == pytest.approx(back.p)
    if there.low:
        assert there.low == pytest.approx(1 / back.high)
        assert there.low <= there.ratio <= there.high


def test_a_duration_of_nothing_has_a_logarithm() -> None:
    assert bounded_logarithms(np.array([0, 1_000_000])).tolist() == pytest.approx(
        np.log([1e5, 1e6])
    )
