from datetime import UTC, datetime

import pytest

from ett_service.core.intervals import DAY_US, HOUR_US
from ett_service.fleet.scope import MOST_POINTS, STEPS, BadQuestion, Window, bucket_starts, window
from tests.builders.clock import MINUTE, NOON


def test_a_window_is_widened_to_full_hours() -> None:
    widened = window(NOON + MINUTE, NOON + HOUR_US + MINUTE, NOON)
    assert widened == Window(NOON, NOON + 2 * HOUR_US)
    assert window(NOON, NOON + HOUR_US, NOON) == Window(NOON, NOON + HOUR_US)


def test_by_default_it_is_the_week_up_to_the_end_of_this_hour() -> None:
    assert window(None, None, NOON + 1) == Window(NOON + HOUR_US - 7 * DAY_US, NOON + HOUR_US)
    assert window(None, NOON, NOON + DAY_US) == Window(NOON - 7 * DAY_US, NOON)


def test_instants_before_1970_are_rounded_the_same_way() -> None:
    assert window(-MINUTE, -MINUTE, NOON) == Window(-HOUR_US, 0)


@pytest.mark.parametrize("edges", [(NOON + 1, NOON), (NOON + DAY_US, None)])
def test_a_window_that_ends_before_it_begins_is_refused(edges: tuple[int, int | None]) -> None:
    with pytest.raises(BadQuestion) as refused:
        window(*edges, now_us=NOON)
    assert (refused.value.parameter, refused.value.code) == ("from", "from_after_to")


def test_weeks_begin_on_monday() -> None:
    week = Window(NOON, NOON + 8 * DAY_US)
    begins = [
        datetime.fromtimestamp(at // 1_000_000, UTC) for at in bucket_starts(week, STEPS["1w"])
    ]
    assert [f"{at:%a %Y-%m-%d %H}" for at in begins] == [
        "Mon 2026-02-23 00",
        "Mon 2026-03-02 00",
        "Mon 2026-03-09 00",
    ]


def test_a_step_that_makes_too_many_points_is_refused() -> None:
    longest = Window(NOON, NOON + MOST_POINTS * HOUR_US)
    assert len(bucket_starts(longest, STEPS["1h"])) == MOST_POINTS
    with pytest.raises(BadQuestion, match="too_many_points"):
        bucket_starts(Window(NOON - HOUR_US, longest.to_us), STEPS["1h"])


def test_an_empty_window_has_no_points() -> None:
    assert len(bucket_starts(Window(0, 0), STEPS["1h"])) == 0
