from itertools import pairwise

import pytest

from ett_service.charts.bars import Bar, stacked_bars
from ett_service.core.words import Category
from tests.charts.drawing import SVG, read, rects, texts

DAY = Bar(
    "",
    {
        Category.PT2_COMPILE: 10.0,
        Category.EFFECTIVE_TRAINING: 80.0,
        Category.STALLED: 10.0,
        Category.SHUTDOWN: 0.0,
    },
)


def test_segments_are_as_long_as_their_shares() -> None:
    segments = [rect for rect in rects(stacked_bars("b", "A day", [DAY])) if rect["height"] == "22"]
    widths = [float(rect["width"]) + 1 for rect in segments]
    assert [width / sum(widths) for width in widths] == pytest.approx([0.1, 0.8, 0.1])
    for (before, after), width in zip(pairwise(segments), widths, strict=False):
        assert float(after["x"]) == pytest.approx(float(before["x"]) + width, abs=0.02)


def test_what_took_no_time_is_not_drawn() -> None:
    assert "shutdown" not in stacked_bars("b", "A day", [DAY])


def test_the_legend_names_each_colour_with_its_share() -> None:
    written = texts(stacked_bars("b", "A day", [DAY]))
    assert "effective_training 80.0%" in written
    assert "stalled 10.0%" in written


def test_the_description_lists_the_shares_largest_first() -> None:
    described = read(stacked_bars("b", "A day", [DAY])).findtext(f"{SVG}desc")
    assert described == "effective_training 80.0%, pt2_compile 10.0%, stalled 10.0%."


def test_bars_of_amounts_are_as_long_as_their_totals() -> None:
    small = Bar("small", {Category.STALLED: 25.0}, "25 GPU-h")
    large = Bar("large", {Category.STALLED: 100.0}, "100 GPU-h")
    svg = stacked_bars("b", "Lost", [large, small], full=100.0)
    first, second = (float(rect["width"]) + 1 for rect in rects(svg) if rect["height"] == "22")
    assert second / first == pytest.approx(0.25, abs=0.001)
    assert {"small", "25 GPU-h"} <= set(texts(svg))


def test_an_empty_chart_is_described_as_such() -> None:
    for bars in ([], [Bar("idle", {})]):
        svg = stacked_bars("b", "Nothing", bars, full=0.0)
        described = read(svg).findtext(f"{SVG}desc") or ""
        assert "no time" in described
        assert "nan" not in svg


def test_equal_numbers_give_equal_bytes() -> None:
    turned = Bar("", dict(reversed(list(DAY.parts.items()))))
    assert stacked_bars("b", "A day", [turned]) == stacked_bars("b", "A day", [DAY])
