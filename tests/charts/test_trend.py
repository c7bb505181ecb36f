from itertools import pairwise

from ett_service.charts.trend import Event, Point, trend
from tests.charts.drawing import SVG, read, texts

WEEKS = [Point("W44", 0.89), Point("W45", None), Point("W46", 0.893), Point("W47", 0.884)]


def _paths(svg: str) -> list[str]:
    return [path.attrib["d"] for path in read(svg).iter(f"{SVG}path")]


def test_the_line_is_broken_where_a_value_is_missing() -> None:
    single, rest = _paths(trend("t", "ETT%", WEEKS))
    assert "L" not in single
    assert rest.count("L") == 1


def test_the_newest_value_and_the_target_are_labelled() -> None:
    written = texts(trend("t", "ETT%", WEEKS, target=0.9))
    assert "88.4%" in written
    assert "target 90.0%" in written


def test_a_higher_value_is_drawn_higher() -> None:
    (course,) = _paths(trend("t", "ETT%", [Point("a", 0.8), Point("b", 0.9)]))
    (_, low), (_, high) = (point.split() for point in course.removeprefix("M").split("L"))
    assert float(high) < float(low)


def test_the_description_has_first_last_lowest_and_highest() -> None:
    described = read(trend("t", "ETT%", WEEKS, target=0.9)).findtext(f"{SVG}desc")
    assert described == (
        "3 values: 89.0% at W44, 88.4% at W47, lowest 88.4%, highest 89.3%. The target is 90.0%."
    )


def test_names_that_would_cover_each_other_are_left_out_but_never_the_newest() -> None:
    days = [Point(f"2026-11-{day:02}", 0.9) for day in range(1, 31)]
    named = [text for text in texts(trend("t", "ETT%", days)) if text.startswith("2026")]
    assert named[-1] == "2026-11-30"
    assert 3 < len(named) < 12


def test_an_event_is_named_where_it_happened() -> None:
    svg = trend("t", "ETT%", WEEKS, events=[Event(1.5, "deploy 7")])
    assert "deploy 7" in texts(svg)


def test_names_of_events_stand_in_two_lines_where_they_would_cover_each_other() -> None:
    happened = [Event(0.2, "R1"), Event(0.21, "a"), Event(1.9, "b")]
    svg = read(trend("t", "ETT%", WEEKS, events=happened))
    lines = {text.text: text.get("y") for text in svg.iter(f"{SVG}text")}
    assert lines["R1"] == lines["b"] != lines["a"]


def test_names_of_events_at_one_place_stand_one_behind_another() -> None:
    names = ("a", "R1", "R2", "R3", "R4")
    svg = read(trend("t", "ETT%", WEEKS, events=[Event(2.0, name) for name in names]))
    placed = [
        (text.get("y"), float(text.get("x", 0)))
        for text in svg.iter(f"{SVG}text")
        if text.text in names
    ]
    for line in {y for y, _ in placed}:
        begins = sorted(x for y, x in placed if y == line)
        assert all(after - before > 10 for before, after in pairwise(begins)), begins


def test_what_is_partial_is_hollow_dashed_and_says_so() -> None:
    svg = trend("t", "ETT%", [*WEEKS, Point("W48", 0.7, part="so far")])
    assert "70.0% so far" in texts(svg)
    drawn = read(svg)
    assert [path.get("stroke-dasharray") for path in drawn.iter(f"{SVG}path")][-1]
    hollow = [dot for dot in drawn.iter(f"{SVG}circle") if dot.get("fill") == "none"]
    assert [dot.findtext(f"{SVG}title") for dot in hollow] == ["W48: 70.0% so far"]
    assert "70.0% so far at W48" in (drawn.findtext(f"{SVG}desc") or "")


def test_missing_data_is_stated() -> None:
    for points in ([], [Point("W47", None)]):
        svg = trend("t", "ETT%", points)
        assert "no data" in texts(svg)
        assert "nan" not in svg
