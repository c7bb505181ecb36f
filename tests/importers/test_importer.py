"""What all importers share."""

from pathlib import Path

from ett_service.importers.importer import Report, batches, clean, identified


def test_an_id_depends_on_content_alone_and_comes_once() -> None:
    event = {"type": "heartbeat", "job": "a", "at": "2025-01-01T00:00:00Z"}
    again = dict(reversed(event.items()))
    other = {**event, "job": "b"}

    first, second = identified("log", [event, again, other])

    assert first["id"].startswith("log-")
    assert first["id"] != second["id"]
    assert (first["job"], second["job"]) == ("a", "b")


def test_batches_hold_everything_in_order() -> None:
    events = [{"at": str(number)} for number in range(7)]

    assert [len(batch) for batch in batches(events, 3)] == [3, 3, 1]
    assert [event for batch in batches(events, 3) for event in batch] == events
    assert list(batches([], 3)) == []


def test_text_of_a_log_loses_what_cannot_be_sent() -> None:
    assert clean(" a\x00b\x1b[1m\ud800c\u202e \n") == "a b [1m?c"
    assert clean("x" * 300) == "x" * 200


def test_a_report_counts_all_skipped_lines_and_shows_a_few() -> None:
    report = Report()
    for number in range(1, 9):
        report.skip(Path("a.txt"), number, "cut")

    assert report.skipped == 8
    assert report.first_skipped[:2] == ["a.txt:1: cut", "a.txt:2: cut"]
    assert len(report.first_skipped) == 5
