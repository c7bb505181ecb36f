import colorsys
from itertools import combinations

from ett_service.charts.palette import COLOURS, STYLE, ink_on, paint, patterns, standalone
from ett_service.charts.svg import chart
from ett_service.core.words import WASTED, Category
from tests.charts.drawing import SVG, read


def test_each_category_but_the_unattributed_has_its_colour() -> None:
    assert set(COLOURS) == set(Category) - {Category.UNATTRIBUTED}


def test_wasted_categories_are_hatched_and_others_are_not() -> None:
    hatched = {
        category for category in Category if str(paint("c", category)["fill"]).startswith("url(")
    }
    assert hatched == WASTED


def test_no_two_categories_look_alike() -> None:
    looks = [(COLOURS.get(category), category in WASTED) for category in Category]
    assert len(set(looks)) == len(Category)
    hues = {colorsys.rgb_to_hsv(*bytes.fromhex(colour[1:])) for colour in COLOURS.values()}
    assert all(hue != other for hue, other in combinations(hues, 2))


def test_each_hatch_that_is_painted_with_is_defined() -> None:
    svg = chart("c", (1, 1), "", "", patterns("c", Category))
    defined = {pattern.get("id") for pattern in read(svg).iter(f"{SVG}pattern")}
    assert defined == {str(paint("c", category)["fill"])[5:-1] for category in WASTED}


def test_only_hatches_that_are_needed_are_defined() -> None:
    assert patterns("c", [Category.PT2_COMPILE]) == "<defs/>"


def test_a_page_follows_its_reader_and_may_choose_otherwise() -> None:
    assert "prefers-color-scheme:dark" in STYLE
    assert ":root[data-theme=dark]" in STYLE
    assert ":root:not([data-theme=light])" in STYLE


def test_a_file_of_its_own_carries_its_style_behind_its_name() -> None:
    svg = standalone(chart("c", (1, 1), "a", "b"))
    assert [child.tag.removeprefix(SVG) for child in read(svg)] == ["title", "desc", "style"]
    assert svg.endswith("\n")


def test_text_on_a_colour_stands_out() -> None:
    for colour in COLOURS.values():
        assert _contrast(colour, str(ink_on(colour)["fill"])) >= 4.3


def _contrast(colour: str, other: str) -> float:
    """The contrast of two colours by WCAG 2."""
    low, high = sorted(map(_luminance, (colour, other)))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in (byte / 255 for byte in bytes.fromhex(colour[1:]))
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
