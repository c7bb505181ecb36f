import pytest
from hypothesis import given
from hypothesis import strategies as st

from ett_service.charts.svg import chart, element, label, number, shortened, width_of, words
from tests.charts.drawing import read, texts


@given(st.text())
def test_any_text_makes_a_chart_that_can_be_read(text: str) -> None:
    svg = chart("c", (10, 10), text, text, label(0, 0, text), element("g", id=text))
    assert len(texts(svg)) == 1


def test_words_cannot_become_elements() -> None:
    hostile = "</text><script>alert(1)</script>&\"'"
    svg = chart("c", (10, 10), hostile, hostile, label(0, 0, hostile))
    assert "<script" not in svg
    assert texts(svg) == [hostile]


def test_a_character_that_xml_cannot_hold_is_replaced() -> None:
    assert words("a\x00b\x1b\ud800") == "a\ufffdb\ufffd\ufffd"


def test_a_chart_names_itself_to_those_who_cannot_see_it() -> None:
    root = read(chart("c", (10, 20), "A title", "What it shows."))
    assert root.get("role") == "img"
    named = {child.get("id"): child.text for child in root}
    assert [named[ident] for ident in root.attrib["aria-labelledby"].split()] == [
        "A title",
        "What it shows.",
    ]


@pytest.mark.parametrize(
    ("value", "written"), [(1.0, "1"), (0.126, "0.13"), (-0.001, "0"), (100.0, "100")]
)
def test_coordinates_are_short(value: float, written: str) -> None:
    assert number(value) == written


def test_an_attribute_without_a_value_is_left_out() -> None:
    assert element("g", class_="x", stroke_width=None) == '<g class="x"/>'


def test_text_is_cut_where_it_does_not_fit() -> None:
    assert shortened("short", 200) == "short"
    cut = shortened("a name that is much too long for its place", 100)
    assert cut.endswith("…")
    assert width_of(cut) <= 100
    assert width_of("訓練") > width_of("ab")
