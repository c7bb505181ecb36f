"""What all importers share."""

from pathlib import Path

from ett_service.importers.importer import (
    Fact,
    ImportedRun,
    PackedFacts,
    Report,
    clean,
    distinct,
    identified,
)


def test_an_id_depends_on_content_alone_and_comes_once() -> None:
    event = {"type": "heartbeat", "job": "a", "at": "2025-01-01T00:00:00Z"}
    again = dict(reversed(event.items()))
    other = {**event, "job": "b"}

    first, second = identified("log", [Fact(event, 1), Fact(again, 2), Fact(other, 3)])

    assert first.event["id"].startswith("log-")
    assert first.event["id"] != second.event["id"]
    assert (first.event["job"], second.event["job"]) == ("a", "b")
    assert (first.line, second.line) == (1, 3)


def test_a_copy_of_a_run_is_passed_on_once() -> None:
    facts = identified("log", [Fact({"type": "heartbeat"}, 1), Fact({"type": "job"}, 2)])
    moved = tuple(Fact(fact.event, fact.line + 5) for fact in reversed(facts))
    run = ImportedRun(Path("a"), "a", facts)

    assert list(distinct([run, ImportedRun(Path("b"), "a", moved)])) == [run]
    other = ImportedRun(Path("b"), "a", facts[:1])
    assert list(distinct([run, other])) == [run, other]


def test_facts_of_a_large_run_are_packed_and_stay_what_they_were() -> None:
    facts = [
        Fact({"id": f"log-{step}", "type": "progress", "step": step, "note": "\ud800"}, step)
        for step in range(2500)
    ]
    packed = PackedFacts(facts)

    assert (len(packed), [*packed]) == (2500, facts)
    assert (packed[0], packed[-1], packed[1000]) == (facts[0], facts[-1], facts[1000])
    assert packed[999:2001] == facts[999:2001]
    assert packed[2400:9000] == facts[2400:]
    assert isinstance(identified("log", facts * 9), tuple)  # each once
    assert packed.content == sum(hash(fact.event["id"]) for fact in facts)
    many = identified("log", (Fact({"type": "progress", "step": step}) for step in range(20_000)))
    assert isinstance(many, PackedFacts)
    assert many[19_999].event["step"] == 19_999


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


def test_a_report_lists_a_thousand_remarks_of_a_kind_and_counts_the_rest() -> None:
    report = Report()
    for number in range(1002):
        report.miss(Path(f"{number}.txt"), "not a plain file")
    report.note(Path("a"), "odd")
    report.note(Path("a"), "odd")

    assert (len(report.unread), report.unlisted, report.notes) == (1000, 2, ["a: odd"])


def test_text_that_utf_8_cannot_hold_has_an_id() -> None:
    (fact,) = identified("test", [Fact({"type": "heartbeat", "message": "\ud800"})])
    assert len(fact.event["id"]) == len("test-") + 32
