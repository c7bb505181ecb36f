"""Panels stand beside each other, never over each other."""

import pytest

from dashboards.build.kit import Panel, Row
from dashboards.build.layout import COLUMNS, Place, places
from tests.dashboards.files import UIDS, written


def panel(width: int, height: int) -> Panel:
    return Panel(title="t", description="d", queries=(), unit="s", width=width, height=height)


def overlapping(taken: list[Place]) -> list[tuple[Place, Place]]:
    return [
        (place, other)
        for at, place in enumerate(taken)
        for other in taken[at + 1 :]
        if place.x < other.x + other.width
        and other.x < place.x + place.width
        and place.y < other.y + other.height
        and other.y < place.y + place.height
    ]


def test_a_line_that_is_full_ends_under_its_highest_panel() -> None:
    row = Row("r", (panel(10, 4), panel(14, 8), panel(6, 3)))
    placed = [place for _, place in places([row, Row("s", (panel(24, 2),))])]
    assert placed == [
        Place(0, 0, 24, 1), Place(0, 1, 10, 4), Place(10, 1, 14, 8), Place(0, 9, 6, 3),
        Place(0, 12, 24, 1), Place(0, 13, 24, 2),
    ]  # fmt: skip


def test_a_panel_wider_than_the_grid_is_refused() -> None:
    with pytest.raises(ValueError, match="no place on 24 columns"):
        list(places([Row("r", (panel(25, 4),))]))


def test_an_overlap_would_be_seen() -> None:
    assert overlapping([Place(0, 0, 12, 8), Place(11, 7, 12, 8)]) != []
    assert overlapping([Place(0, 0, 12, 8), Place(12, 0, 12, 8), Place(0, 8, 12, 8)]) == []


@pytest.mark.parametrize("uid", UIDS)
def test_no_panel_lies_over_another_or_over_the_edge(uid: str) -> None:
    placed = [
        Place(grid["x"], grid["y"], grid["w"], grid["h"])
        for grid in (panel["gridPos"] for panel in written(uid)["panels"])
    ]
    assert overlapping(placed) == []
    assert all(place.x + place.width <= COLUMNS for place in placed)
