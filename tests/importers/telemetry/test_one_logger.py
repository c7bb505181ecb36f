"""Files of nv-one-logger's JSON exporter."""

import json
from pathlib import Path
from typing import Any

import pytest

from ett_service.core.ledger.results import JobLedger
from ett_service.core.words import Category, Outcome
from ett_service.importers.importer import Report
from ett_service.importers.telemetry.one_logger import read
from tests.builders.imports import Wire, ledgers_of, seconds

START_MS = 1_785_000_000_000
Record = dict[str, Any]


def happening(name: str, second: float, **attributes: Any) -> Record:
    return {"name": name, "attributes": {"timestamp_msec": START_MS + second * 1000, **attributes}}


def start(name: str, second: float, **attributes: Any) -> Record:
    edge = happening("span_start", second)
    return {
        "type": "start",
        "id": name,
        "name": name,
        "attributes": attributes,
        "start_event": edge,
    }


def stop(name: str, second: float) -> Record:
    return {"type": "stop", "id": name, "name": name, "stop_event": happening("span_stop", second)}


def span(name: str, begin: float, end: float, **attributes: Any) -> Record:
    both = {**start(name, begin, **attributes), **stop(name, end), "attributes": attributes}
    return {**both, "type": "complete", "id": f"{name}-{begin}"}


def event(name: str, second: float, **attributes: Any) -> Record:
    return {"type": "event", "span_id": "x", "event": happening(name, second, **attributes)}


def error(within: str, second: float) -> Record:
    told = happening(
        "error",
        second,
        exception_type="NCCLError",
        exception_message="Watchdog caught collective operation timeout",
    )
    return {"type": "application_error", "span_id": within, "event": told}


def life(begin: float, first_step: int) -> list[Record]:
    """60 s of starting, then ten steps of 10 s with an evaluation and a save between."""
    loop = begin + 60
    return [
        start("application", begin),
        event("one_logger_initialization", begin + 1, world_size=64, rank=0, session_tag="llm"),
        span("model_initialization", begin + 5, begin + 25),
        span("checkpoint_load", begin + 25, begin + 55),
        start("training_loop", loop, train_iterations_start=first_step, train_samples_start=0),
        event("training_metrics_update", loop + 50, current_iteration=first_step + 4),
        span("validation_loop", loop + 50, loop + 70),
        event("training_metrics_update", loop + 120, current_iteration=first_step + 9),
        start("checkpoint_save_sync", loop + 120),
        event("save_checkpoint_success", loop + 130, productive_train_iterations=first_step + 10),
        stop("checkpoint_save_sync", loop + 130),
    ]


def ended(begin: float) -> list[Record]:
    return [stop("training_loop", begin + 195), stop("application", begin + 200)]


def written(folder: Path, *records: Record, name: str = "rank0.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def imported(*paths: Path) -> tuple[Wire, Report]:
    runs, report = read(paths)
    return [sent for run in runs for sent in run.events], report


def ledger(*paths: Path) -> JobLedger:
    (only,) = ledgers_of(imported(*paths)[0]).values()
    return only


def test_spans_become_phases_and_parts_of_the_start_stages(tmp_path: Path) -> None:
    job = ledger(written(tmp_path, *life(0, 0), *ended(0)))

    assert seconds(job) == {
        Category.LAUNCHER_INIT: 60,
        Category.EFFECTIVE_TRAINING: 105,
        Category.EVALUATION: 20,
        Category.CHECKPOINT_BLOCKING: 10,
        Category.UNATTRIBUTED: 5,
    }
    (attempt,) = job.attempts
    assert (attempt.gpus, attempt.outcome, attempt.last_step) == (64, Outcome.COMPLETED, 10)
    stages = {stage.stage: stage.inclusive_us / 1e6 for stage in attempt.stages}
    assert stages == {"train_module_creation": 20, "checkpoint_restore": 30}


def test_files_of_a_session_are_attempts_of_one_job(tmp_path: Path) -> None:
    crashed = written(tmp_path, *life(0, 0), error("training_loop", 240), name="a.jsonl")
    resumed = written(tmp_path, *life(500, 10), *ended(500), name="b.jsonl")
    job = ledger(crashed, resumed)

    assert [attempt.outcome for attempt in job.attempts] == [Outcome.FAILED, Outcome.COMPLETED]
    assert job.attempts[0].cause == "collective_timeout"
    assert seconds(job)[Category.RESTART_WAIT] == 260
    assert Category.REPEATED_TRAINING not in seconds(job)


def test_an_error_of_the_whole_application_fails_it_and_one_that_was_caught_does_not(
    tmp_path: Path,
) -> None:
    caught = [error("validation_loop", 130)]
    assert ledger(written(tmp_path, *life(0, 0), *caught, *ended(0))).failures == 0
    fatal = [error("application", 199)]
    assert ledger(written(tmp_path, *life(0, 0), *fatal, *ended(0))).failures == 1


def test_an_iteration_that_was_delivered_twice_is_one(tmp_path: Path) -> None:
    records = [start("application", 0), start("training_loop", 10)]
    steps = [span("training_single_iteration", 10 + n, 11 + n) for n in range(100)]
    waits = [span("data_loading", 10 + n, 11 + n, duration_msec=100) for n in range(100)]
    both = [each for pair in zip(waits, steps, strict=True) for each in pair]
    once, _ = imported(written(tmp_path, *records, *both))
    again = [each for part in range(0, 200, 50) for each in both[part : part + 50] * 2]

    assert imported(written(tmp_path, *records, *again))[0] == once


@pytest.mark.parametrize("place", [0, 1, 50, 98])
def test_iterations_that_are_delivered_out_of_order_repeat_nothing(
    tmp_path: Path, place: int
) -> None:
    records = [start("application", 0), start("training_loop", 10)]
    steps = [span("training_single_iteration", 10 + n, 11 + n) for n in range(100)]
    steps[place], steps[place + 1] = steps[place + 1], steps[place]
    job = ledger(written(tmp_path, *records, *steps))

    assert Category.REPEATED_TRAINING not in seconds(job)
    assert job.attempts[0].last_step == 100


def test_iterations_are_progress_where_no_update_is(tmp_path: Path) -> None:
    records = [start("application", 0), start("training_loop", 10, train_iterations_start=5)]
    steps = [span("training_single_iteration", 10 + n, 11 + n) for n in range(100)]
    loads = [span("data_loading", 10 + n, 11 + n, duration_msec=100) for n in range(100)]
    both = [each for pair in zip(loads, steps, strict=True) for each in pair]
    events, report = imported(written(tmp_path, *records, *both))
    done = [(sent["step"], sent["at"][14:19]) for sent in events if sent["type"] == "progress"]

    assert report.records == 202
    assert done[:4] == [(5, "20:10"), (6, "20:11"), (7, "20:12"), (17, "20:22")]
    assert done[-1] == (105, "21:50")
    assert [s.get("attributes") for s in events if s["type"] == "progress"][-1] == {
        "data_wait_seconds": pytest.approx(10)
    }


def test_a_growing_file_never_takes_back_what_it_said(tmp_path: Path) -> None:
    records = [*life(0, 0), *ended(0)]
    whole = {sent["id"] for sent in imported(written(tmp_path, *records))[0]}
    for length in range(2, len(records)):
        events, _ = imported(written(tmp_path, *records[:length]))
        assert {sent["id"] for sent in events} <= whole


def test_damage_is_named_by_its_line(tmp_path: Path) -> None:
    path = written(tmp_path, *life(0, 0))
    seconds_since = {"name": "x", "attributes": {"timestamp_msec": START_MS / 1000}}
    bad = ['{"type": "start"', '{"type": "odd"}', '{"type": "event", "event": {}}']
    bad += [json.dumps({"type": "event", "event": seconds_since})]
    path.write_text(path.read_text() + "\n".join(bad))
    _, report = imported(path)

    assert (report.records, report.skipped) == (11, 4)
    assert [line.removeprefix(f"{path}:") for line in report.first_skipped] == [
        "12: no whole JSON object",
        "13: no record of one-logger that is known",
        "14: no timestamp_msec in milliseconds since 1970",
        "15: no timestamp_msec in milliseconds since 1970",
    ]
