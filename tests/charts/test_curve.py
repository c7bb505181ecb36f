import pytest

from ett_service.charts.curve import CurvePoint, Intervals, interval_curve
from ett_service.core.planning.checkpoint_interval import best_interval_seconds, wasted_ratio
from tests.charts.drawing import SVG, read, texts

DAY = 86_400
BEST = best_interval_seconds(DAY, 3, 15)
POINTS = [
    CurvePoint(seconds, 3 * seconds / 2 / DAY, 15 / seconds)
    for seconds in (60 * 1.1**power for power in range(60))
]


def _drawn(**members: object) -> str:
    return interval_curve(
        "c",
        "Waste",
        POINTS,
        Intervals(BEST, (680, 1270), **members),  # type: ignore[arg-type]
    )


def test_the_lowest_point_lies_at_the_best_interval() -> None:
    svg = _drawn()
    (course,) = [
        element.attrib["d"]
        for element in read(svg).iter(f"{SVG}path")
        if element.get("stroke-width") == "2.5"
    ]
    places = [tuple(map(float, point.split())) for point in course.removeprefix("M").split("L")]
    lowest = max(places, key=lambda point: point[1])
    (upright,) = [
        float(element.attrib["x1"])
        for element in read(svg).iter(f"{SVG}line")
        if element.attrib["x1"] == element.attrib["x2"]
    ]
    assert lowest[0] == pytest.approx(upright, abs=10)


def test_the_parts_sum_to_the_write_up_formula() -> None:
    for point in POINTS:
        assert point.wasted == pytest.approx(wasted_ratio(DAY, 3, point.interval_s, 15))


def test_the_best_and_the_present_interval_are_named() -> None:
    assert "best 15m 30s" in texts(_drawn())
    assert "now 30m 00s" in texts(_drawn(current=1800.0))


def test_an_interval_beyond_the_axis_is_described_but_not_drawn() -> None:
    svg = _drawn(current=1e6)
    assert not [text for text in texts(svg) if text.startswith("now")]
    assert "interval is 11d 14h" in (read(svg).findtext(f"{SVG}desc") or "")


def test_the_description_has_the_advice() -> None:
    assert read(_drawn(current=1800.0)).findtext(f"{SVG}desc") == (
        "A checkpoint every 15m 30s wastes least, 3.2% of the training time. From 11m 20s to "
        "21m 10s the waste is almost the same. The present interval is 30m 00s."
    )


def test_an_uncertain_best_is_drawn_as_a_range() -> None:
    assert len(_drawn(likely=(700.0, 1300.0))) > len(_drawn())


def test_what_is_wasted_far_from_the_best_does_not_flatten_the_curve() -> None:
    lowest = min(point.wasted for point in POINTS)
    marks = [float(text[:-1]) / 100 for text in texts(_drawn()) if text.endswith("%")]
    assert lowest < max(marks) < 8 * lowest < max(point.wasted for point in POINTS)
