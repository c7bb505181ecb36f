"""Templates and what they make."""

import math
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ett_service.importers.files import Unreadable
from ett_service.importers.importer import Report
from ett_service.importers.instants import zone
from ett_service.importers.logs.checked_events import NoEvent, fault_of
from ett_service.importers.logs.local_times import LocalTimes
from ett_service.importers.logs.mapped_events import (
    BadProfile,
    Becomes,
    Document,
    MadeOfLine,
    Maker,
    Runs,
    TimeFormat,
    loaded,
    own_zone,
    references,
    references_of,
    templates,
)

SPAN = {"type": "span", "phase": "evaluation", "job": "a", "at": "$time"}


def made(template: dict[str, Any], form: str = "iso", **values: object) -> dict[str, Any] | None:
    times = LocalTimes(Path("a.log"), zone("UTC"), Report())
    maker = Maker(TimeFormat(form), times, None)
    names = sorted(references_of([template]))
    places = {name: place for place, name in enumerate(names)}
    events = maker.made(Becomes([template], places), [values.get(name) for name in names], 1)
    return next(iter(events), None)


def test_values_are_put_in_and_read_as_the_wire_has_them() -> None:
    template = {
        "type": "attempt_started",
        "job": "$job",
        "at": "$time",
        "launch": "$id",
        "gpus": "$gpus",
        "rank": "$none",
        "attributes": {"queue": "$queue", "who": "$none"},
    }
    time = "2026-03-01 08:00:00"
    event = made(template, job="llm", time=time, id=513, gpus="64", none="", queue="a")
    assert event == {
        "type": "attempt_started",
        "job": "llm",
        "at": "2026-03-01T08:00:00.000000Z",
        "launch": "513",
        "gpus": 64,
        "attributes": {"queue": "a"},
    }
    assert made(template, job="llm", time=None) is None


@pytest.mark.parametrize(
    ("form", "time"),
    [
        ("iso", "2026-03-01T09:00:00+01:00"),
        ("iso", datetime(2026, 3, 1, 8, tzinfo=UTC)),
        ("epoch_s", "1772352000"),
        ("epoch_ms", 1772352000000),
        ("epoch_us", 1772352000000000.0),
        ("%d/%m/%y %H:%M", "01/03/26 08:00"),
    ],
)
def test_times_are_read_in_their_format(form: str, time: object) -> None:
    event = made({"type": "heartbeat", "job": "a", "at": "$time"}, form, time=time)
    assert event is not None
    assert event["at"] == "2026-03-01T08:00:00.000000Z"


@pytest.mark.parametrize(
    ("unit", "length"), [("duration_s", "90"), ("duration_ms", 90_000), ("duration_us", 9e7)]
)
def test_a_length_is_the_begin_of_a_span(unit: str, length: object) -> None:
    event = made({**SPAN, unit: "$length"}, time="2026-03-01T08:01:30Z", length=length)
    assert event is not None
    assert event["start"] == "2026-03-01T08:00:00.000000Z"


def test_nothing_of_a_table_is_empty_and_its_whole_numbers_are_whole() -> None:
    template = {"type": "progress", "job": "a", "at": "$time", "step": "$step", "tokens": "$n"}
    event = made(template, time="2026-03-01T08:00:00Z", step=7.0, n=math.nan)
    assert event is not None
    assert (event["step"], "tokens" in event) == (7, False)


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"time": "noon", "n": 1}, "'noon' is no time of format iso"),
        ({"time": "2026-03-01T08:00:00Z", "n": "far"}, "'far' is no number for duration_s"),
        ({"time": "2026-03-01T08:00:00Z", "n": math.inf}, "'inf' is no number"),
    ],
)
def test_what_cannot_be_read_is_no_event(values: dict[str, object], why: str) -> None:
    with pytest.raises(NoEvent, match=why):
        made({**SPAN, "duration_s": "$n"}, "iso", **values)


def test_what_the_service_would_refuse_names_member_and_value() -> None:
    template = {"type": "progress", "job": "a", "at": "$time", "step": "$step"}
    with pytest.raises(NoEvent, match=r"at `\$.step`: '-5'"):
        made(template, time="2026-03-01T08:00:00Z", step="-5")
    with pytest.raises(NoEvent, match="it has no job"):
        made({"type": "heartbeat", "at": "$time"}, time="2026-03-01T08:00:00Z")


def test_bytes_that_are_no_text_may_stand_in_a_message_only() -> None:
    time = "2026-03-01T08:00:00Z"
    ended = {"type": "attempt_ended", "job": "a", "at": "$time", "outcome": "failed"}
    event = made({**ended, "message": "$text"}, time=time, text="bad \ufffd byte")
    assert event is not None
    with pytest.raises(NoEvent, match="bytes of `host` are no text"):
        made({**ended, "host": "$text"}, time=time, text="n\ufffd1")


@pytest.mark.parametrize(
    ("template", "why"),
    [
        ({"type": "epoch"}, "'epoch' is no type of events"),
        ({}, "None is no type of events"),
        ({"type": "progress", "phase": "train_loop"}, "a progress has no member 'phase'"),
        ({"type": "progress", "step": "$5 a"}, "'\\$5 a' is no name of a group or column"),
        ({"type": "heartbeat", "duration_s": 1}, "a heartbeat has no member 'duration_s'"),
    ],
)
def test_a_template_of_no_event_is_refused(template: dict[str, Any], why: str) -> None:
    with pytest.raises(BadProfile, match=why):
        templates(template, {}, "p.yaml")


def test_common_members_go_where_they_may() -> None:
    (template,) = templates({"type": "heartbeat"}, {"rank": "$rank", "gpus": 8}, "p.yaml")
    assert template == {"at": "$time", "rank": "$rank", "type": "heartbeat"}
    assert references(template) == {"time", "rank"}


def test_a_profile_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    for content, why in (
        (b"name: a\ntimes: {}\n", "unknown field `times`"),
        (b"name: [\n", "it is no YAML"),
        (b"\xff", "it is no YAML"),
    ):
        (tmp_path / "p.yaml").write_bytes(content)
        with pytest.raises(BadProfile, match=why):
            loaded(tmp_path / "p.yaml", Document)
    with pytest.raises(BadProfile, match="No such file"):
        loaded(tmp_path / "none.yaml", Document)
    with pytest.raises(BadProfile, match="no time zone is named"):
        own_zone(TimeFormat(zone="Nowhere"), "p.yaml")


def progress(second: int, job: str = "a", rank: int = 0) -> dict[str, Any]:
    at = f"2026-03-01T08:{second // 60:02}:{second % 60:02}.000000Z"
    return {"type": "progress", "job": job, "at": at, "rank": rank, "step": second}


def test_progress_is_thinned_out_for_each_rank_but_for_the_last() -> None:
    made = [(second + 1, [progress(second, rank=rank) for rank in (0, 1)]) for second in range(26)]
    (run,) = Runs(Path("a.log"), "log").of(made)
    steps = [(event["rank"], event["step"]) for event in run.events]
    assert sorted(steps) == [(rank, step) for rank in (0, 1) for step in (0, 10, 20, 25)]


def alternating_beats() -> Iterator[MadeOfLine]:
    """Yield 20,002 lines, of which five of the first ten are of job b."""
    for number in range(20_002):
        job = "ab"[number % 2 and number < 10]
        yield number, [{"type": "heartbeat", "job": job, "host": str(number)}]


def test_too_much_is_passed_on_before_the_end_of_the_file() -> None:
    runs = Runs(Path("a.log"), "log").of(alternating_beats())
    assert [(run.job, len(run.facts)) for run in runs] == [("b", 5), ("a", 19_997)]


def test_what_was_too_much_before_a_file_breaks_off_is_passed_on() -> None:
    def broken_off() -> Iterator[MadeOfLine]:
        yield from alternating_beats()
        raise Unreadable("the gzip data is truncated")

    runs = Runs(Path("a.log"), "log").of(broken_off())
    first = next(runs)
    assert (first.job, len(first.facts)) == ("b", 5)
    with pytest.raises(Unreadable):
        next(runs)


def test_expectations_compare_what_they_name() -> None:
    event = {"type": "progress", "at": "2026-03-01T08:00:00.250000Z", "step": 7}
    assert fault_of([event], [{"step": 7, "at": "2026-03-01T09:00:00.25+01:00"}]) == ""
    assert "it becomes" in fault_of([event], [{"step": 8}])
    assert "it becomes" in fault_of([event], [])


ROW = {"job": "llm", "time": "2026-03-01 08:00:00", "id": "513", "gpus": "64", "state": "NODE_FAIL"}


@pytest.mark.parametrize(
    "others",
    [
        [{"id": "514"}, {"time": "2026-03-01 08:59:59"}, {"time": "2026-03-01 09:00:00.25"}],
        [{"gpus": ""}, {"gpus": "64"}, {"gpus": 64}, {"gpus": 64.0}, {"gpus": True}],
        [{"gpus": "many"}, {"gpus": "8"}, {"gpus": "-1"}, {"gpus": None}],
        [{"time": ""}, {"time": "noon"}, {"time": "2026-03-01 08:60:00"}, {"job": ""}, {}],
        [{"state": " a\x00b "}, {"id": "x" * 200}, {"id": 514}, {"id": 514.5}, {"job": 7}],
        [{"state": '50 % "q" \\'}, {"job": "größe"}, {"id": " 9"}, {"id": "x" * 100}],
    ],
)
def test_what_was_checked_before_makes_the_events_that_it_would_make_alone(
    others: list[dict[str, object]],
) -> None:
    template = {"type": "attempt_ended", "outcome": "failed", "scheduler_state": "$state",
                "job": "$job", "at": "$time", "launch": "$id", "exit_code": "$gpus"}  # fmt: skip
    becomes = Becomes([template], {name: place for place, name in enumerate(ROW)})
    times = LocalTimes(Path("a.log"), zone("UTC"), Report())
    kept = Maker(TimeFormat(), times, None)

    def outcome(maker: Maker, line: int, values: dict[str, object]) -> object:
        try:
            return maker.made(becomes, [*values.values()], line)
        except NoEvent as error:
            return str(error)

    rows = [{**ROW, **other} for other in [{}, *others, *others]]
    alone = [outcome(Maker(TimeFormat(), times, None), 1, row) for row in rows]
    assert [outcome(kept, line, row) for line, row in enumerate(rows, 1)] == alone


def test_a_length_that_is_the_same_for_all_lines_is_taken_from_the_end_of_each() -> None:
    becomes = Becomes([{**SPAN, "duration_s": 90, "stage": "$stage"}], {"time": 0, "stage": 1})
    maker = Maker(TimeFormat(), LocalTimes(Path("a.log"), zone("UTC"), Report()), None)
    starts = [
        event["start"]
        for minute in (2, 3)
        for event in maker.made(becomes, [f"2026-03-01T08:0{minute}:00", "a"], 1)
    ]
    assert starts == ["2026-03-01T08:00:30.000000Z", "2026-03-01T08:01:30.000000Z"]
