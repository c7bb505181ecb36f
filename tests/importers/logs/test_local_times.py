"""Local times of a log, and the notes about them."""

from pathlib import Path

import pytest

from ett_service.core.intervals import rfc3339
from ett_service.importers.importer import Report
from ett_service.importers.instants import zone
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
