import pytest

from ett_service.charts.bridge import SECONDS, Step, bridge
from ett_service.charts.palette import BETTER, WORSE
from tests.charts.drawing import SVG, read, rects, texts

BEFORE, AFTER = ("week 46", 0.893), ("week 47", 0.884)


def _bars(svg: str) -> list[tuple[float, float]]:
    return [(float(rect["x"]), float(rect["x"]) + float(rect["width"])) for rect in rects(svg)]


def test_each_step_begins_where_the_one_before_ended() -> None:
    svg = bridge("g", "Why", BEFORE, [Step("compile", -0.012), Step("mix", 0.003)], AFTER)
    start, compiled, mixed, end = _bars(svg)
    assert compiled[1] == pytest.approx(start[1])
    assert mixed[0] == pytest.approx(compiled[0], abs=0.02)
    assert end[1] == pytest.approx(mixed[1], abs=0.02)


def test_what_the_steps_leave_over_is_a_step_of_its_own() -> None:
    written = texts(bridge("g", "Why", BEFORE, [Step("compile", -0.006)], AFTER))
    assert "everything else" in written
    assert "▼ -0.3 pt" in written


def test_steps_that_explain_all_leave_nothing_over() -> None:
    written = texts(bridge("g", "Why", BEFORE, [Step("compile", -0.009)], AFTER))
    assert "everything else" not in written


def test_a_direction_is_shown_by_word_and_arrow_too() -> None:
    written = texts(
        bridge("g", "Why", BEFORE, [Step("compile", -0.012), Step("mix", 0.003)], AFTER)
    )
    assert {"▼ -1.2 pt", "▲ +0.3 pt"} <= set(written)


def test_what_is_shown_as_no_change_has_no_arrow() -> None:
    steps = [Step("compile", -0.009), Step("recompile", -0.0001), Step("mix", 0.0001)]
    written = texts(bridge("g", "Why", BEFORE, steps, AFTER))
    assert written.count("0.0 pt") == 2
    assert [text for text in written if text.startswith(("▼", "▲"))] == ["▼ -0.9 pt"]


def test_a_change_of_nothing_is_drawn() -> None:
    svg = bridge("g", "Why", ("before", 0.0), [], ("after", 0.0))
    assert "nan" not in svg
    described = read(svg).findtext(f"{SVG}desc")
    assert described == "before 0.0%, after 0.0%."


def test_a_bridge_of_durations_shows_less_as_better() -> None:
    faster, slower = Step("cache", -600.0), Step("image", 80.0)
    svg = bridge("g", "Start", ("W40", 1500.0), [faster, slower], ("now", 980.0), unit=SECONDS)
    assert {"25m 00s", "▼ -10m 00s", "▲ +1m 20s", "16m 20s"} <= set(texts(svg))
    _, better, worse, _ = (rect["fill"] for rect in rects(svg))
    assert (better, worse) == (BETTER, WORSE)
