"""Shares add up to 1, exactly, whatever the rows are."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ett_service.core.fleet.decomposition import decompose
from ett_service.core.words import Category
from ett_service.detection.attribution.location import (
    MIX,
    by_cohort_of,
    by_part,
    category_shares,
    cohort_shares,
    middle,
)

ROW = st.tuples(st.integers(0, 10**9), st.integers(0, 10**9), st.booleans(), st.integers(0, 2))
ROWS = st.lists(ROW, min_size=1, max_size=40)


def ints(values: object) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    return np.array(values, dtype=np.int64)


@given(ROWS)
def test_shares_of_phases_sum_to_one(rows: list[tuple[int, int, bool, int]]) -> None:
    launcher, other, after, strata = zip(*rows, strict=True)
    parts = {"launcher_init": ints(launcher), "pt2_compile": ints(other)}

    shares = by_part(parts, np.array(after), strata)

    assert not shares or sum(shares.values()) == 1


@given(ROWS)
def test_shares_of_cohorts_sum_to_one(rows: list[tuple[int, int, bool, int]]) -> None:
    us, _, after, cohorts = zip(*rows, strict=True)

    shares = cohort_shares(ints(us), np.array(after), cohorts)

    assert not shares or sum(shares.values()) == 1


def test_the_phase_that_grew_has_its_part_of_the_change() -> None:
    after = np.array([False, False, True, True])
    parts = {"launcher_init": ints([10, 20, 16, 24]), "pt2_compile": ints([5, 5, 20, 20])}

    assert by_part(parts, after, [0, 0, 0, 0]) == {
        "pt2_compile": Fraction(15, 20),
        "launcher_init": Fraction(5, 20),
    }


def test_more_starts_of_a_slower_kind_are_no_change_of_a_phase() -> None:
    after = np.array([False, False, True, True, True])
    strata = [0, 1, 0, 1, 1]

    assert by_part({"launcher_init": ints([10, 30, 10, 30, 30])}, after, strata) == {}


def test_a_kind_that_is_on_one_side_only_is_left_out() -> None:
    after = np.array([False, True, True])
    parts = {"scheduling": ints([10, 12, 500]), "launcher_init": ints([5, 11, 900])}

    assert by_part(parts, after, [0, 0, 1]) == {
        "launcher_init": Fraction(6, 8),
        "scheduling": Fraction(2, 8),
    }


def test_the_cohort_that_changed_has_the_change() -> None:
    after = np.array([False, False, True, True])

    assert cohort_shares(ints([10, 10, 30, 10]), after, "abab") == {"a": 1}


def test_the_cohorts_that_grew_and_shrank_share_a_change_of_the_mix() -> None:
    after = np.array([False] * 4 + [True] * 4)
    us = ints([10, 30, 30, 30, 10, 10, 10, 30])

    shares = cohort_shares(us, after, "abbbaaab")

    assert shares == {"a": Fraction(1, 2), "b": Fraction(1, 2)}


def test_nothing_is_shared_out_where_a_side_is_empty() -> None:
    assert cohort_shares(ints([1, 2]), np.array([True, True]), "ab") == {}
    assert by_part({"scheduling": ints([1])}, np.array([True]), [0]) == {}


def test_a_change_of_ett_is_shared_out_by_category_and_by_cohort() -> None:
    def spent(effective: int, compiling: int) -> dict[Category, int]:
        return {Category.EFFECTIVE_TRAINING: effective, Category.PT2_COMPILE: compiling}

    split = decompose(
        {"a": spent(90, 10), "b": spent(50, 50)}, {"a": spent(70, 30), "b": spent(25, 25)}
    )
    categories, cohorts = category_shares(split), by_cohort_of(split)

    assert set(categories) == {"pt2_compile", MIX}
    assert set(cohorts) == {"a", "b"}
    assert sum(categories.values()) == sum(cohorts.values()) == 1


def test_the_longest_and_the_shortest_are_left_out_of_many_only() -> None:
    few, many = np.arange(19), np.arange(100)

    assert middle(ints(few), few < 0).all()
    middle_part = middle(ints(many * 10), many < 0)
    assert middle_part.sum() == pytest.approx(90, abs=2)
    assert not middle_part[0]
    assert not middle_part[-1]
