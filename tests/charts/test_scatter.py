from itertools import pairwise

from ett_service.charts.scatter import Dot, scatter
from tests.charts.drawing import SVG, read, texts

DOTS = [
    Dot(100.0, 60.0, False, "a, attempt 0: 1m 00s", "/jobs/a/attempts/0"),
    Dot(200.0, 600.0, False, "b, attempt 1: 10m 00s", "/jobs/b/attempts/1"),
    Dot(900.0, 6000.0, True, "c <b>, attempt 0", "/jobs/c/attempts/0"),
]


def drawn(
    dots: list[Dot] = DOTS, levels: tuple[float | None, float | None] = (290.0, 6000.0)
) -> str:
    return scatter(
        "s", "compiles", dots, span_s=(500.0, 1000.0), levels=levels, shown=lambda s: f"{s:.0f}"
    )


def test_each_point_leads_to_what_it_is() -> None:
    links = [link.attrib["href"] for link in read(drawn()).iter(f"{SVG}a")]
    assert links == [dot.href for dot in DOTS]
    titles = [title.text for title in read(drawn()).iter(f"{SVG}title")]
    assert titles[1:] == [dot.tooltip for dot in DOTS]


def test_before_and_after_differ_by_shape() -> None:
    assert len(list(read(drawn()).iter(f"{SVG}circle"))) == 2
    assert len(list(read(drawn()).iter(f"{SVG}path"))) == 1


def test_a_factor_is_the_same_distance_everywhere() -> None:
    dots = [Dot(float(place), 60.0 * 10**place, False, "", "") for place in range(3)]
    heights = [float(each.attrib["cy"]) for each in read(drawn(dots)).iter(f"{SVG}circle")]
    steps = [low - high for low, high in pairwise(heights)]
    assert steps[0] > 0
    assert abs(steps[0] - steps[1]) < 0.2


def test_the_levels_are_named_and_an_unknown_one_is_left_out() -> None:
    assert {"4m 50s", "1h 40m"} <= set(texts(drawn()))
    assert "4m 50s" not in texts(drawn(levels=(None, 6000.0)))


def test_the_description_has_both_sides() -> None:
    assert read(drawn()).findtext(f"{SVG}desc") == (
        "2 values before the onset, their median 4m 50s, and 1 after it, their median 1h 40m."
    )


def test_nothing_to_draw_is_a_chart_all_the_same() -> None:
    assert read(drawn([], (None, None))).tag == f"{SVG}svg"
