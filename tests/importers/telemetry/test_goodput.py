"""Google's goodput entries; first what their own library gets wrong of them."""

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ett_service.core.ledger.results import JobLedger
from ett_service.core.words import Category, Outcome
from ett_service.importers.importer import Report
from ett_service.importers.telemetry.goodput import read
from tests.builders.imports import Wire, ledgers_of, seconds

START_S = 1_785_000_000
Entry = dict[str, Any]


def at(key: str, second: float, **more: Any) -> Entry:
    return {"job_name": "llm", f"{key}_time": START_S + second, **more}


def step(number: int, second: float) -> Entry:
    return at("step_start", second, step_count=number)


def steps(first: int, count: int, second: float, length: float = 10) -> list[Entry]:
    return [step(first + n, second + n * length) for n in range(count)]


def custom(kind: str, start: float, end: float) -> list[Entry]:
    return [
        at(f"custom_badput_event_{edge}", second, custom_badput_event_type=kind)
        for edge, second in (("start", start), ("end", end))
    ]


def written(folder: Path, *entries: Entry, name: str = "llm.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return path


def imported(*paths: Path, job: str | None = None) -> tuple[Wire, Report]:
    runs, report = read(paths, job)
    return [event for run in runs for event in run.events], report


def ledger(path: Path) -> JobLedger:
    (only,) = ledgers_of(imported(path)[0]).values()
    return only


def ratio(job: JobLedger) -> float:
    return seconds(job).get(Category.EFFECTIVE_TRAINING, 0) / (job.e2e_us / 1e6)


def test_an_outage_with_a_clean_resume_is_a_failure_and_no_long_step(tmp_path: Path) -> None:
    before = [at("job_start", 0), *steps(0, 11, 0)]
    after = [at("job_start", 800), *steps(11, 11, 800), at("job_end", 900)]
    job = ledger(written(tmp_path, *before, *after))

    assert (job.failures, len(job.attempts)) == (1, 2)
    assert seconds(job)[Category.RESTART_WAIT] == 700
    assert ratio(job) == pytest.approx(200 / 900)


def test_launches_that_fail_before_a_step_are_failures_and_delay_the_start(tmp_path: Path) -> None:
    launches = [at("job_start", second) for second in (0, 600, 1200)]
    inits = [at("tpu_init_start", second + 5) for second in (0, 600, 1200)]
    trains = [at("job_start", 1900), *steps(0, 6, 1930), at("job_end", 1990)]
    job = ledger(written(tmp_path, *launches, *inits, *trains))

    assert job.failures == 3
    assert [attempt.outcome for attempt in job.attempts] == [*[Outcome.LOST] * 3, Outcome.COMPLETED]
    assert job.time_to_start_us == 1930e6


def test_overlapping_parts_of_the_start_count_once(tmp_path: Path) -> None:
    inits = [
        at("tpu_init_start", 0),
        at("training_prep_start", 5),
        at("training_prep_end", 95),
        at("tpu_init_end", 100),
    ]
    job = ledger(
        written(tmp_path, at("job_start", 0), *inits, *steps(0, 6, 100), at("job_end", 160))
    )

    assert seconds(job) == {Category.LAUNCHER_INIT: 100, Category.EFFECTIVE_TRAINING: 60}
    stages = {stage.stage: stage.inclusive_us / 1e6 for stage in job.attempts[0].stages}
    assert stages == {"device_init": 100, "pre_train": 90}


def test_evaluation_across_the_begin_of_a_step_is_no_training(tmp_path: Path) -> None:
    entries = [at("job_start", 0), *steps(0, 10, 0), *custom("Eval_Step", 35, 55)]
    job = ledger(written(tmp_path, *entries, at("job_end", 100)))

    assert seconds(job) == {Category.EVALUATION: 20, Category.EFFECTIVE_TRAINING: 80}


def test_an_entry_out_of_order_changes_nothing(tmp_path: Path) -> None:
    entries = [at("job_start", 0), *steps(0, 10, 0), at("job_end", 100)]
    late = [*entries[:4], *entries[5:8], entries[4], *entries[8:]]
    job = ledger(written(tmp_path, *late))

    assert (ratio(job), job.failures) == (1.0, 0)
    assert job == ledger(written(tmp_path, *entries))


def test_an_entry_that_was_delivered_twice_counts_once(tmp_path: Path) -> None:
    entries = [at("job_start", 0), *steps(0, 10, 0), at("job_end", 100)]
    job = ledger(written(tmp_path, *(each for each in entries for _ in range(2))))

    assert (ratio(job), job.failures, len(job.attempts)) == (1.0, 0, 1)


def test_a_job_that_died_ends_where_it_was_last_heard(tmp_path: Path) -> None:
    job = ledger(written(tmp_path, at("job_start", 0), *steps(0, 11, 0)))

    assert (job.e2e_us, job.attempts[0].outcome) == (100e6, Outcome.LOST)
    assert ratio(job) == 1.0


def test_steps_that_go_back_are_repeated_in_a_cycle_of_their_launch(tmp_path: Path) -> None:
    entries = [at("job_start", 0), *steps(0, 11, 0), *steps(5, 11, 150), at("job_end", 260)]
    job = ledger(written(tmp_path, *entries))

    assert [(a.launch, a.cycle) for a in job.attempts] == [
        ("20260725T172000.000000Z", 0),
        ("20260725T172000.000000Z", 1),
    ]
    assert seconds(job)[Category.REPEATED_TRAINING] == 50


def test_a_stray_end_before_an_elastic_restart_ends_that_life_only(tmp_path: Path) -> None:
    first = [at("job_start", 0), *steps(0, 7, 0), at("job_end", 65)]
    reinit = [at("elastic_reinit_start", 70), at("elastic_reinit_end", 90)]
    job = ledger(written(tmp_path, *first, *reinit, *steps(6, 6, 90), at("job_end", 150)))

    assert [attempt.cycle for attempt in job.attempts] == [0, 1]
    assert seconds(job)[Category.LAUNCHER_INIT] == 20


def test_a_life_after_an_end_begins_with_the_first_that_is_heard_of_it(tmp_path: Path) -> None:
    first = [at("job_start", 0), *steps(0, 7, 0), at("job_end", 65)]
    again = [at("tpu_init_start", 70), at("tpu_init_end", 90), *steps(7, 6, 90)]
    job = ledger(written(tmp_path, *first, *again))

    assert [(a.cycle, a.started_at // 1_000_000 - START_S) for a in job.attempts] == [
        (0, 0),
        (1, 70),
    ]


def test_entries_in_any_order_are_the_same_job(tmp_path: Path) -> None:
    inits = [at("tpu_init_start", 0), at("tpu_init_end", 5), *custom("sdc", 42, 47)]
    entries = [at("job_start", 0), *inits, *steps(0, 11, 10), *custom("sdc", 62, 69)]
    again = [at("job_start", 200), *steps(5, 11, 210), at("job_end", 320)]
    in_order = ledger(written(tmp_path, *entries, *again))
    shuffled = Random(7).sample([*entries, *again], k=len(entries) + len(again))

    assert ledger(written(tmp_path, *shuffled)) == in_order
    assert seconds(in_order)[Category.STALLED] == 12


def test_a_first_step_that_takes_much_longer_was_compiled(tmp_path: Path) -> None:
    entries = [at("job_start", 0), step(0, 30), *steps(1, 9, 130), at("job_end", 220)]
    job = ledger(written(tmp_path, *entries))

    assert seconds(job) == {
        Category.LAUNCHER_INIT: 30,
        Category.PT2_COMPILE: 90,
        Category.EFFECTIVE_TRAINING: 100,
    }
    assert job.time_to_start_us == 120e6


def test_a_save_in_the_background_is_durable_once_the_next_has_waited_for_it(
    tmp_path: Path,
) -> None:
    def save(number: int, second: float, **more: Any) -> Entry:
        blocked = {"checkpoint_manager_blocking_start_time": START_S + second}
        took = {"checkpoint_manager_blocking_duration_secs": 2.0}
        return {"job_name": "llm", "event_type": "save", "step": number, **blocked, **took, **more}

    waited = {
        "wait_for_prev_start_time": START_S + 60,
        "wait_for_prev_duration_secs": 1.5,
    }
    entries = [at("job_start", 0), *steps(0, 10, 0), save(2, 30), save(5, 60, **waited)]
    path = written(tmp_path, *entries, at("job_end", 100))
    events, _ = imported(path)
    saved = [event for event in events if event["type"] == "checkpoint_saved"]

    assert [(event["step"], event["at"][17:]) for event in saved] == [(2, "01.500000Z")]
    assert seconds(ledger(path))[Category.CHECKPOINT_BLOCKING] == 4


def test_waits_for_data_inside_the_loop_are_summed(tmp_path: Path) -> None:
    loads: Iterator[Entry] = (
        at(f"data_loading_{edge}", second + more)
        for second in (5, 15, 25)
        for edge, more in (("start", 0), ("end", 1))
    )
    entries = sorted(
        [at("job_start", 0), *steps(0, 5, 0), *loads],
        key=lambda e: max(v for v in e.values() if isinstance(v, float | int) and v > START_S - 1),
    )
    (attempt,) = ledger(written(tmp_path, *entries, at("job_end", 50))).attempts

    assert attempt.data_wait is not None
    assert attempt.data_wait.us == 3e6


def test_cloud_logging_in_lines_and_as_an_array_for_people_is_the_same(tmp_path: Path) -> None:
    entries = [at("job_start", 0), *steps(0, 4, 0), at("job_end", 40)]
    wrapped = [{"insertId": "a", "jsonPayload": e, "severity": "INFO"} for e in entries]
    plain, _ = imported(written(tmp_path, *entries))
    lines, _ = imported(written(tmp_path, *wrapped))
    (pretty := tmp_path / "pretty.json").write_text(json.dumps(wrapped, indent=2))

    assert plain == lines == imported(pretty)[0]


def test_a_longer_export_says_all_that_a_shorter_one_says(tmp_path: Path) -> None:
    entries = [at("job_start", 0), *steps(0, 30, 0), at("job_start", 400), *steps(20, 20, 420)]
    whole, _ = imported(written(tmp_path, *entries))
    ids = {event["id"] for event in whole}
    for length in (8, 20, 33, 45):
        part, _ = imported(written(tmp_path, *entries[:length]))
        assert {event["id"] for event in part} <= ids


def test_an_export_that_begins_inside_a_launch_joins_it(tmp_path: Path) -> None:
    entries = [at("job_start", 0), *steps(0, 30, 0), at("job_end", 300)]
    halves = [
        written(tmp_path, *entries[:15], name="1.jsonl"),
        written(tmp_path, *entries[15:], name="2.jsonl"),
    ]
    (job,) = ledgers_of(imported(*halves)[0]).values()

    assert (len(job.attempts), ratio(job)) == (1, 1.0)


def test_damage_is_named_by_its_line_and_the_rest_is_read(tmp_path: Path) -> None:
    path = written(tmp_path, at("job_start", 0), *steps(0, 4, 0), at("job_end", 40))
    bad = [
        '{"job_name": "llm", "step_co',
        "\ufffd\x00",
        '{"a": 1}',
        '{"step_start_time": "x"}',
        '{"step_start_time": 1.0}',
    ]
    path.write_text(path.read_text() + "\n".join(bad))
    events, report = imported(path)

    assert (report.records, report.skipped) == (6, 5)
    assert [line.removeprefix(f"{path}:") for line in report.first_skipped] == [
        "7: no whole JSON object",
        "8: no whole JSON object",
        "9: no entry of goodput that is known",
        "10: Expected `float | null`, got `str` - at `$.step_start_time`",
        "11: a time before the year 2000",
    ]
    assert len(events) == 9


def test_milliseconds_are_refused_with_the_whole_job(tmp_path: Path) -> None:
    in_ms = {"job_name": "llm", "step_count": 3, "step_start_time": START_S * 1000}
    other = {"job_name": "other", "job_start_time": START_S}
    path = written(tmp_path, at("job_start", 0), in_ms, other)
    events, report = imported(path)

    assert {event["job"] for event in events} == {"other"}
    assert report.refused == [
        f"{path}:2: a time is not in seconds, so nothing of this job is imported"
    ]
