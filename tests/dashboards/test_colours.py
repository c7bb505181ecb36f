"""A category has one colour, wherever it is drawn."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest

from dashboards.build.colours import CATEGORY_COLOURS, PHASE_COLOURS
from ett_service.charts.palette import COLOURS
from ett_service.core.words import Category
from tests.dashboards.files import UIDS, drawn, within, written


def painted(content: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each category or phase that a dashboard names, with its colour."""
    return ((name, colour) for name, colour in _coloured(content) if name in PHASE_COLOURS)


def _coloured(content: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for override in (
        override for overrides in within(content, "overrides") for override in overrides
    ):
        for setting in override["properties"]:
            if setting["id"] == "color":
                yield override["matcher"]["options"], setting["value"]["fixedColor"]
    for mapping in (mapping for mappings in within(content, "mappings") for mapping in mappings):
        for value, result in mapping["options"].items():
            yield value, result["color"]


def unpainted(content: dict[str, Any]) -> list[str]:
    """Return the panels whose series are categories in colours that Grafana would draw lots for."""
    return [
        panel["title"]
        for panel in drawn(content)
        if any("{{category}}" in target.get("legendFormat", "") for target in panel["targets"])
        and not dict(painted(panel["fieldConfig"]))
    ]


@pytest.mark.parametrize("uid", UIDS)
def test_categories_are_painted_as_everywhere(uid: str) -> None:
    content = written(uid)
    assert [
        (name, colour) for name, colour in painted(content) if colour != PHASE_COLOURS[name]
    ] == []
    assert unpainted(content) == []


def test_a_panel_without_its_colours_would_be_seen() -> None:
    broken = deepcopy(written("ett-cohort"))
    for panel in drawn(broken):
        panel["fieldConfig"]["overrides"] = []
    assert unpainted(broken) != []


def test_a_category_has_the_hue_of_the_charts_and_no_two_the_same_colour() -> None:
    assert {
        category
        for category in COLOURS
        if not CATEGORY_COLOURS[category].startswith(COLOURS[category])
    } == set()
    assert len(set(CATEGORY_COLOURS.values())) == len(Category)
