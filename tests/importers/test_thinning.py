"""Points of progress are thinned out, their ends and those beside a gap are kept."""

from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from ett_service.importers.thinning import Thinner, thinned

SECOND = 1_000_000


def kept(*seconds: float, most: int = 100) -> list[float]:
    return thinned(seconds, [round(second * SECOND) for second in seconds], most)


def test_the_first_two_the_last_and_one_in_ten_seconds_are_kept() -> None:
    assert kept(*range(25)) == [0, 1, 11, 21, 24]
    assert kept(5) == [5]
    assert kept() == []


def test_what_lies_before_a_gap_is_kept() -> None:
    assert kept(0, 1, 2, 50, 51, 52) == [0, 1, 2, 50, 52]


def test_where_they_are_many_they_are_further_apart() -> None:
    assert kept(*range(0, 100, 10), most=4) == [0, 10, 50, 90]


def test_points_that_come_one_by_one_are_thinned_alike() -> None:
    thinner: Thinner[int] = Thinner()
    made: list[int] = []

    def make(second: int) -> int:
        made.append(second)
        return second

    for second in (*range(25), 60, 61, 62):
        thinner.add(second * SECOND, partial(make, second))

    assert thinner.points() == [0, 1, 11, 21, 24, 60, 62]
    assert len(made) == 7


@given(st.lists(st.integers(0, 10**9), min_size=1))
def test_in_any_order_the_first_and_the_last_instant_are_kept(instants: list[int]) -> None:
    thinner: Thinner[int] = Thinner()
    for at_us in instants:
        thinner.add(at_us, partial(int, at_us))
    points = thinner.points()

    assert points == sorted(points)
    assert (points[0], points[-1]) == (min(instants), max(instants))
