"""Half-open intervals: cover, difference, overlap, cuts."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from ett_service.core.intervals import merged, outside

intervals = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)).map(sorted).map(tuple))


def _covered(pairs: list[tuple[int, int]]) -> set[int]:
    return {at for start, end in pairs for at in range(start, end)}


@given(intervals)
def test_a_cover_is_disjoint_and_covers_the_same(drawn: list[tuple[int, int]]) -> None:
    cover = merged(drawn)

    assert _covered(cover) == _covered(drawn)
    assert all(before[1] < after[0] for before, after in pairwise(cover))


@given(st.tuples(st.integers(0, 40), st.integers(0, 40)).map(sorted), intervals)
def test_what_is_outside_holes_and_what_overlaps_them_make_the_whole(
    drawn: list[int], holes: list[tuple[int, int]]
) -> None:
    whole = (drawn[0], drawn[1])
    left = outside(whole, holes)

    assert _covered(left) == _covered([whole]) - _covered(holes)
    lengths = sum(end - start for start, end in left)
    assert (
        lengths + sum(end - start for start, end in outside(whole, outside(whole, holes)))
        == whole[1] - whole[0]
    )
