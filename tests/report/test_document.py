from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ett_service.report.document import Week


def test_a_week_begins_on_monday_in_utc() -> None:
    week = Week.parse("2026-W47")
    assert week.bounds == ("2026-11-16T00:00:00Z", "2026-11-23T00:00:00Z")
    assert week.begin.weekday() == 0


def test_the_instant_decides_the_week_and_not_its_zone() -> None:
    early_in_tokyo = datetime(2026, 11, 16, 5, tzinfo=timezone(timedelta(hours=9)))
    assert Week.holding(early_in_tokyo) == Week.parse("2026-W46")


def test_a_year_begins_with_the_week_of_its_first_thursday() -> None:
    assert Week.holding(datetime(2027, 1, 1, tzinfo=UTC)).name == "2026-W53"
    assert Week.parse("2027-W01").before().name == "2026-W53"


@given(st.integers(631_152_000, 4_102_444_800))
def test_every_instant_lies_in_its_week_whose_name_leads_back_to_it(second: int) -> None:
    instant = datetime.fromtimestamp(second, UTC)
    week = Week.holding(instant)
    assert week.begin <= instant < week.end
    assert Week.parse(week.name) == week


@pytest.mark.parametrize("text", ["", "47", "2026-47", "2026-W00", "2026-W54", "2025-W53", "W47"])
def test_what_is_no_week_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        Week.parse(text)


@pytest.mark.parametrize(
    ("name", "days"),
    [
        ("2026-W47", "16 to 22 November 2026"),
        ("2026-W49", "30 November to 6 December 2026"),
        ("2026-W53", "28 December 2026 to 3 January 2027"),
    ],
)
def test_its_days_are_named_without_repeating_what_is_the_same(name: str, days: str) -> None:
    assert Week.parse(name).days == days
