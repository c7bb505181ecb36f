"""Local times of a log, and the notes about them."""

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from ett_service.core.intervals import rfc3339
from ett_service.importers.importer import Report
from ett_service.importers.instants import LocalClock, zone
from ett_service.importers.logs.local_times import LocalTimes

PATH = Path("a.log")


def test_times_are_read_in_their_zone_and_by_their_own_if_they_name_one() -> None:
    report = Report()
    times = LocalTimes(PATH, zone("Europe/Paris"), report)
    texts = ("2021-05-23 08:41:04,123", "2021-05-23T08:41:04+00:00", "2021-05-23 08:41:05")
    placed = [times.at_us(text, 1) for text in texts]

    assert [rfc3339(at) for at in placed if at is not None] == [
        "2021-05-23T06:41:04.123000Z",
        "2021-05-23T08:41:04.000000Z",
        "2021-05-23T06:41:05.000000Z",
    ]
    assert (times.at_us("yesterday", 2), report.notes) == (None, [])


def test_without_a_zone_times_are_utc_and_one_note_says_so() -> None:
    report = Report()
    times = LocalTimes(PATH, None, report)
    for line in (7, 8):
        assert rfc3339(times.at_us("2021-05-23 08:41:04", line) or 0).startswith("2021-05-23T08")

    (note,) = report.notes
    assert note.startswith("a.log: line 7: 2021-05-23 08:41:04 has no zone and is taken as UTC")


@pytest.mark.parametrize(
    ("text", "what"),
    [("2021-10-31 02:10:00", "happens twice"), ("2021-03-28 02:10:00", "does not exist")],
)
def test_a_change_of_clocks_is_noted_with_its_line(text: str, what: str) -> None:
    report = Report()
    times = LocalTimes(PATH, zone("Europe/Paris"), report)
    for line in (3, 4):
        times.at_us(text, line)

    (note,) = report.notes
    assert f"line 3: {text} {what}" in note


def test_an_hour_that_was_placed_before_is_placed_the_same() -> None:
    begin = datetime(2026, 10, 24, 22)  # noqa: DTZ001 -- local times of Paris are what is tested
    texts = [str(begin + timedelta(minutes=7 * step)) for step in range(60)]
    texts += ["2026-10-25 02:30:00", "2026-10-25 04:10:00", "2026-10-25 02:40:00"]
    paris = zone("Europe/Paris")
    clock, times = LocalClock(paris), LocalTimes(Path("a.log"), paris, Report())
    expected = [clock.instant(datetime.fromisoformat(text)).at_us for text in texts]
    assert [times.at_us(text, 1) for text in texts] == expected


@pytest.mark.parametrize("name", ["UTC", "Asia/Kolkata"])
def test_an_instant_is_written_as_it_is_placed(name: str) -> None:
    times = LocalTimes(Path("a.log"), zone(name), Report())
    for text in ("08:41:04", "08:59:59", "08:00:00,250", "08:00:00.25", "09:41:04"):
        at_us = times.at_us(f"2026-03-01 {text}", 1)
        assert at_us is not None
        assert times.written(f"2026-03-01 {text}", 1) == rfc3339(at_us)
    assert times.written("2026-03-01 08:60:00", 1) is None
