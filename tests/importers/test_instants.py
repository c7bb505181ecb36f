"""Local times without a zone, also where clocks change."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ett_service.core.intervals import rfc3339
from ett_service.importers.instants import (
    Flaw,
    LocalClock,
    UnknownZone,
    local_instant,
    microseconds,
    zone,
)

PARIS = zone("Europe/Paris")
LORD_HOWE = zone("Australia/Lord_Howe")  # by half an hour


def placed(text: str, of: str = "Europe/Paris", after: str | None = None) -> tuple[str, object]:
    not_before = None if after is None else microseconds(datetime.fromisoformat(after))
    instant = local_instant(datetime.fromisoformat(text), zone(of), not_before)
    return rfc3339(instant.at_us), instant.flaw


def test_a_local_time_is_placed_by_the_offset_of_its_day() -> None:
    assert placed("2021-07-03T12:00:00.5") == ("2021-07-03T10:00:00.500000Z", None)
    assert placed("2021-12-03T12:00:00") == ("2021-12-03T11:00:00.000000Z", None)
    assert placed("2021-12-03T12:00:00", "UTC") == ("2021-12-03T12:00:00.000000Z", None)


def test_a_time_that_happens_twice_is_the_first_unless_something_was_later() -> None:
    first, second = "2021-10-31T00:30:00.000000Z", "2021-10-31T01:30:00.000000Z"
    assert placed("2021-10-31T02:30:00") == (first, Flaw.TWICE)
    assert placed("2021-10-31T02:30:00", after="2021-10-31T00:30:00+00:00") == (first, Flaw.TWICE)
    assert placed("2021-10-31T02:30:00", after="2021-10-31T00:40:00+00:00") == (second, Flaw.TWICE)
    assert placed("2021-10-31T02:30:00", after="2021-10-31T02:40:00+00:00") == (first, Flaw.TWICE)


def test_a_time_that_the_clocks_leave_out_is_read_by_the_offset_before() -> None:
    assert placed("2021-03-28T02:30:00") == ("2021-03-28T01:30:00.000000Z", Flaw.NEVER)


@pytest.mark.parametrize("name", ["Middle/Earth", "", "../etc/passwd", "Europe"])
def test_a_zone_that_there_is_none_of_is_named(name: str) -> None:
    with pytest.raises(UnknownZone, match="no time zone"):
        zone(name)


def test_a_log_that_runs_through_the_hour_twice_keeps_its_order() -> None:
    clock = LocalClock(PARIS)
    begin = datetime(2021, 10, 30, 22, tzinfo=UTC)
    instants = [begin + timedelta(minutes=7 * place) for place in range(60)]
    read = [
        clock.instant(at.astimezone(ZoneInfo("Europe/Paris")).replace(tzinfo=None))
        for at in instants
    ]

    assert [each.at_us for each in read] == [microseconds(at) for at in instants]
    assert sum(each.flaw is Flaw.TWICE for each in read) == 17


def test_a_record_a_little_out_of_order_is_no_second_pass() -> None:
    clock = LocalClock(PARIS)
    times = [datetime.fromisoformat(f"2021-10-31T02:{minute}") for minute in (10, 12, 11)]
    assert [clock.instant(at).at_us for at in times] == [
        local_instant(at, PARIS).at_us for at in times
    ]


def test_an_hour_of_which_a_half_happens_twice_is_never_taken_as_a_whole() -> None:
    clock = LocalClock(LORD_HOWE)
    flaws = [clock.instant(datetime.fromisoformat(f"2021-04-04T01:{m}")).flaw for m in (10, 40)]
    assert flaws == [None, Flaw.TWICE]


april_local = st.integers(0, 6 * 7 * 24 * 60).map(
    lambda minutes: datetime.fromisoformat("2021-03-20") + timedelta(minutes=minutes)
)


@given(
    st.lists(april_local, max_size=9),
    st.sampled_from([PARIS, LORD_HOWE, UTC]),
)
def test_the_clock_is_as_good_as_looking_up_every_time(times: list[datetime], of: ZoneInfo) -> None:
    clock = LocalClock(of)
    for at in times:
        placed, expected = clock.instant(at), local_instant(at, of)
        assert placed.flaw == expected.flaw
        assert placed == expected or expected.flaw is Flaw.TWICE
