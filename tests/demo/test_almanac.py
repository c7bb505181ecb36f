"""The calendar: releases, closed clusters, busy and quiet days."""

from datetime import date

import pytest

from ett_service.demo.calendar import DAY, HOUR, Almanac, Window, day_of, is_month_end, midnight
from tests.demo.conftest import END_US


@pytest.mark.parametrize("days", [3, 30, 60, 200])
def test_a_release_stands_at_every_instant_and_one_is_planned(days: int) -> None:
    almanac = Almanac(days, END_US)
    versions = [version for version, _ in almanac.releases]
    assert versions == sorted(set(versions))
    assert almanac.code_version(almanac.start_us) == versions[0]
    assert almanac.code_version(END_US) == versions[-1]
    assert any(since >= almanac.planned("compile") for _, since in almanac.releases)
    assert almanac.start_us == midnight(day_of(END_US)) - days * DAY


def test_releases_of_long_fleets_are_made_on_working_days() -> None:
    for later in range(7):
        almanac = Almanac(60, END_US + later * DAY)
        assert {day_of(since).weekday() for _, since in almanac.releases} <= {0, 1, 2, 3, 4}


def test_a_cluster_is_closed_for_maintenance_and_one_for_an_outage() -> None:
    almanac = Almanac(60, END_US)
    assert [window.to_us - window.from_us for window in almanac.closed("alder")] == [4 * HOUR] * 2
    closed = almanac.closed("cedar")
    assert almanac.outage in closed
    assert [window.from_us for window in closed] == sorted(window.from_us for window in closed)


def test_weekends_are_quiet_and_month_ends_are_busy() -> None:
    almanac = Almanac(60, END_US)
    saturday, tuesday, last_tuesday = date(2026, 11, 14), date(2026, 11, 10), date(2026, 9, 29)
    assert almanac.load(saturday) < 0.5 * almanac.load(tuesday) < almanac.load(last_tuesday)
    assert almanac.queueing(midnight(saturday)) < almanac.queueing(midnight(tuesday))
    assert almanac.queueing(midnight(tuesday)) < almanac.queueing(midnight(last_tuesday))
    assert is_month_end(date(2026, 2, 26))
    assert not is_month_end(date(2026, 2, 25))


def test_a_window_begins_with_its_first_instant_and_ends_before_its_last() -> None:
    window = Window(10, 20)
    assert [at in window for at in (9, 10, 19, 20)] == [False, True, True, False]
