from ett_service.charts.gantt import CategorySpan, Row, gantt
from ett_service.core.words import Category
from tests.charts.drawing import SVG, read, rects, texts

HOUR = 3600.0
LOOP = CategorySpan(600, HOUR, Category.EFFECTIVE_TRAINING)
FAILED = Row(
    "0: failed",
    [CategorySpan(0, 600, Category.LAUNCHER_INIT), LOOP],
    ending="✕ oom",
    evidence="failed, user, oom",
    unsaved=(1800, HOUR),
    saves_s=[1200, 1800],
    href="#attempt-0",
)
GOING_ON = Row("1: running", [CategorySpan(HOUR, 2 * HOUR, Category.REPEATED_TRAINING)])


def drawn(*rows: Row) -> str:
    return gantt("g", "life", rows, 2 * HOUR, lambda seconds: f"{seconds / HOUR:.1f} h")


def test_each_attempt_has_its_row_below_the_one_before() -> None:
    first, loop, _, second = rects(drawn(FAILED, GOING_ON))[:4]
    assert round(float(first["x"]) + float(first["width"]), 2) == float(loop["x"])
    assert first["y"] == loop["y"]
    assert float(second["y"]) > float(first["y"])


def test_what_is_unsaved_lies_over_the_end_of_its_row() -> None:
    _, loop, unsaved = rects(drawn(FAILED))[:3]
    assert unsaved["fill"] == "url(#g-tail)"
    ends = [round(float(each["x"]) + float(each["width"]), 1) for each in (loop, unsaved)]
    assert ends[0] == ends[1]
    assert float(unsaved["x"]) > float(loop["x"])


def test_an_ending_is_named_and_read_aloud() -> None:
    gantt_chart = drawn(FAILED)
    assert "✕ oom" in texts(gantt_chart)
    assert read(gantt_chart).findtext(f"{SVG}desc") == "0: failed: 1h 00m, failed, user, oom."


def test_an_ending_without_room_behind_its_row_stands_before_it() -> None:
    late = Row("1", [CategorySpan(HOUR, 2 * HOUR, Category.EFFECTIVE_TRAINING)], ending="✕ oom")
    (bar, *_) = rects(drawn(late))
    (ending,) = [text for text in read(drawn(late)).iter(f"{SVG}text") if text.text == "✕ oom"]
    assert ending.attrib["text-anchor"] == "end"
    assert float(ending.attrib["x"]) < float(bar["x"])


def test_an_ending_without_room_on_either_side_does_not_cover_the_name() -> None:
    whole = Row("1", [CategorySpan(0.0, 2 * HOUR, Category.EFFECTIVE_TRAINING)], ending="✕ oom")
    (bar, *_) = rects(drawn(whole))
    (ending,) = [text for text in read(drawn(whole)).iter(f"{SVG}text") if text.text == "✕ oom"]
    assert float(ending.attrib["x"]) > float(bar["x"]) + float(bar["width"]) / 2


def test_ticks_stand_at_round_times_of_day() -> None:
    shown = gantt(
        "g", "life", [FAILED], 2 * HOUR, lambda at: f"{(at + 700) / 60:g} min", since_midnight_s=700
    )
    texts = [text.text or "" for text in read(shown).iter(f"{SVG}text")]
    minutes = [float(text.removesuffix(" min")) for text in texts if text.endswith(" min")]
    assert len(minutes) >= 4
    assert all(minute % 10 == 0 for minute in minutes)


def test_the_axis_of_more_rows_than_a_screen_has_is_named_above_them_too() -> None:
    assert len(_named(20)) == 1
    above, below = sorted(_named(21))
    first = min(float(rect["y"]) for rect in rects(drawn(*[FAILED] * 21)))
    assert above < first < below


def _named(rows: int) -> list[float]:
    """Return how far below the top the axis is named."""
    texts = read(drawn(*[FAILED] * rows)).iter(f"{SVG}text")
    return [float(text.attrib["y"]) for text in texts if text.text == "1.0 h"]


def test_names_lead_to_their_attempt() -> None:
    root = read(drawn(FAILED, GOING_ON))
    assert [link.attrib["href"] for link in root.iter(f"{SVG}a")] == ["#attempt-0"]
    assert root.attrib["role"] == "group", "in an image its link would be hidden"


def test_thousands_of_stops_too_short_to_be_seen_are_not_drawn() -> None:
    second = 2 * HOUR / 10_000
    stretches = [
        CategorySpan(
            place * second,
            (place + 1) * second,
            Category.CHECKPOINT_BLOCKING if place % 2 else Category.EFFECTIVE_TRAINING,
        )
        for place in range(10_000)
    ]
    saves = [place * second for place in range(5_000)]
    gantt_chart = drawn(Row("0", stretches, saves_s=saves))
    assert len(gantt_chart) < 60_000
    (bar, *_) = rects(gantt_chart)
    assert float(bar["width"]) > 800, "the row has no hole"


def test_what_lies_apart_stays_apart() -> None:
    stops = [
        CategorySpan(at, at + 20, Category.CHECKPOINT_BLOCKING) for at in (0, HOUR, 2 * HOUR - 20)
    ]
    assert len(rects(drawn(Row("saves", stops)))) == 3 + 1, "three, and the legend"


def test_long_names_have_room_and_longer_ones_are_cut() -> None:
    first = CategorySpan(0, HOUR, Category.LAUNCHER_INIT)
    begins = [float(rects(drawn(Row(name, [first])))[0]["x"]) for name in ("a", "b" * 20, "c" * 90)]
    assert begins[0] < begins[1] < begins[2]
    assert begins[2] < 250
