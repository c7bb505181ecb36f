"""Outputs of Megatron-LM and DeepSpeed, imported and folded."""

import json
import os
from datetime import datetime
from pathlib import Path

import pytest

from ett_service.core.intervals import rfc3339
from ett_service.importers.importer import Report
from ett_service.importers.instants import microseconds, zone
from ett_service.importers.logs.local_times import LocalTimes
from ett_service.importers.logs.megatron import Progress, Start, read
from tests.builders.imports import Wire, ledgers_of, seconds
from tests.builders.megatron import cancelled, iteration, progress, saved, start_up, written

ROOT = Path(__file__).parents[3]
CORPUS = Path(os.environ.get("ETT_CORPUS", ROOT / "../shared/corpus")) / "megatron_out"

RUN = (
    "using world size: 64, data-parallel-size: 1\n",
    "  world_size ...................................... 64\n",
    *start_up(),
    iteration(10, 1000),
    *saved(10, 2000),
    iteration(20, 1000),
)

FILE = (
    progress("08:00:00", "Starting job"),
    progress("08:20:00", "Saved checkpoint", 100),
    progress("08:30:00", "Saved checkpoint", 200),
    progress("09:00:00", "Starting job"),
    progress("09:15:00", "Saving async checkpoint", 300),
    progress("09:15:40", "Saved async checkpoint", 300),
    progress("12:00:00", "Starting job", launch="514"),
)


def microseconds_of(at: str) -> int:
    return microseconds(datetime.fromisoformat(at))


def imported(*paths: Path, job: str | None = None, of: str = "UTC") -> tuple[Wire, Report]:
    runs, report = read(paths, job, zone(of))
    return [sent for run in runs for sent in run.events], report


def test_an_output_is_a_job_with_its_slurm_job_as_launch(tmp_path: Path) -> None:
    events, report = imported(written(tmp_path / "llm-1809577.out", *RUN))
    (name, ledger), *_ = ledgers_of(events).items()

    assert name == "llm-1809577-20240513T080001Z"
    (attempt,) = ledger.attempts
    assert (attempt.launch, attempt.gpus, attempt.cycle) == ("1809577", 64, 0)
    assert seconds(ledger) == {
        "launcher_init": 3,
        "effective_training": 18,
        "checkpoint_blocking": 2,
    }
    assert (report.files, report.unread) == (1, [])


def test_times_are_those_of_the_zone(tmp_path: Path) -> None:
    events, _ = imported(written(tmp_path / "a.out", *RUN), of="Asia/Tokyo")
    assert min(sent["at"] for sent in events) == "2024-05-12T23:00:01.000000Z"


def test_outputs_of_one_job_and_its_progress_meet(tmp_path: Path) -> None:
    again = [*start_up("10:00:0"), iteration(12, 1000)]
    paths = (
        written(tmp_path / "slurm-513.out", *RUN, cancelled("08:01:00", " DUE TO NODE FAILURE")),
        written(tmp_path / "slurm-514.out", *again),
        written(
            tmp_path / "progress.txt",
            progress("08:00:01", "Starting job"),
            progress("08:00:16", "Saved checkpoint", 10),
        ),
    )
    events, report = imported(*paths, job="llm")
    (ledger,) = ledgers_of(events).values()

    assert [(each.launch, each.outcome) for each in ledger.attempts] == [
        ("513", "failed"),
        ("514", "lost"),
    ]
    assert report.files == 3
    folder, _ = imported(tmp_path, job="llm")
    assert {sent["id"] for sent in folder} == {sent["id"] for sent in events}


def test_a_longer_copy_is_the_same_events_and_more(tmp_path: Path) -> None:
    lines = [*RUN, iteration(30, 1000), iteration(40, 1000)]
    part, _ = imported(written(tmp_path / "a.out", *lines[:-1]))
    whole, _ = imported(written(tmp_path / "a.out", *lines))
    assert {sent["id"] for sent in part} < {sent["id"] for sent in whole}


def test_a_file_without_an_instant_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.out").write_bytes(iteration(10, 5).encode() + b"\xff\x00" * 100)
    events, report = imported(tmp_path)
    assert events == []
    assert report.unread == [f"{tmp_path}/a.out: no instant of a run of Megatron-LM in it"]


@pytest.fixture
def outputs() -> Path:
    if not CORPUS.is_dir():
        pytest.skip(f"the outputs are not there: {CORPUS} (set ETT_CORPUS)")
    return CORPUS


def test_every_output_is_as_the_reference_says(outputs: Path) -> None:
    reference = json.loads((outputs / "reference.json").read_text())
    for name, expected in reference.items():
        events, _ = imported(outputs / name)
        (ledger,) = ledgers_of(events).values()
        steps = [sent for sent in events if sent["type"] == "progress"]
        assert len(steps) == expected["n_iteration_lines"], name
        assert (steps[0]["step"], steps[-1]["step"]) == (
            expected["first_iter"][0],
            expected["last_iter"][0],
        )
        begin = next(
            sent["at"]
            for sent in events
            if sent["type"] == "phase_started" and sent["phase"] == "train_loop"
        )
        trained = microseconds_of(steps[-1]["at"]) - microseconds_of(begin)
        assert trained / 1e6 == pytest.approx(expected["sum_iteration_time_s"], abs=5e-4), name
        marked = {at for _, at in expected["marks"]}
        assert marked <= {sent["at"][:19].replace("T", " ") for sent in events}, name
        loads = [
            (microseconds_of(sent["at"]) - microseconds_of(sent["start"])) / 1000
            for sent in events
            if sent.get("stage") == "checkpoint_restore"
        ]
        # Where both marks around it are of one second, an output leaves a load no room.
        has_room = len({at for _, at in expected["marks"][:2]}) > 1
        told = [ms for what, ms in expected["checkpoint_times_ms"] if what == "load-checkpoint"]
        assert loads == (told if has_room else []), name
        saves = [sent["step"] for sent in events if sent["type"] == "checkpoint_saved"]
        assert saves == expected["saved"] == expected["saving"], name
        (attempt,) = ledger.attempts
        assert (attempt.cause == "oom") is expected["oom"], name
        assert any("exception" in sent for sent in events) is bool(expected["traceback"]), name
        ended = {True: {"cancelled", "failed"}, False: {"lost"}}[expected["slurm_cancel"]]
        assert attempt.outcome in ended, name
        for killed in expected["killed_lines"]:
            is_limit = "TIME LIMIT" in killed
            assert (attempt.cause == "scheduler_timeout") is is_limit, name
            assert rfc3339(attempt.ended_at)[:19] in killed, name


def attempts(path: Path, *lines: str) -> tuple[list[Start], Report]:
    report = Report()
    path = written(path / "progress.txt", *lines)
    read = Progress(path, LocalTimes(path, None, report), report)
    read.read()
    return read.attempts, report


def test_each_start_is_an_attempt_of_its_slurm_job(tmp_path: Path) -> None:
    read, report = attempts(tmp_path, *FILE)

    assert [(each.launch, each.cycle, each.gpus) for each in read] == [
        ("513", 0, 64),
        ("513", 1, 64),
        ("514", 0, 64),
    ]
    assert (report.records, report.skipped) == (7, 0)


def test_a_save_is_progress_and_an_asynchronous_one_is_durable_later(tmp_path: Path) -> None:
    read, _ = attempts(tmp_path, *FILE)
    events = [
        [(fact.event["type"], fact.event["at"][11:19]) for fact in each.facts if fact.line > 4]
        for each in read
    ]
    assert events == [[], [("progress", "09:15:00"), ("checkpoint_saved", "09:15:40")], []]
    assert read[0].facts[0].event["tokens"] == 500_000_000


def test_training_begins_where_the_pace_of_two_saves_leads_back_to(tmp_path: Path) -> None:
    first, second, _ = attempts(tmp_path, *FILE)[0]
    begins = [
        (fact.event["phase"], fact.event["at"][11:19])
        for fact in first.facts
        if fact.event["type"] == "phase_started"
    ]
    assert begins == [("launcher_init", "08:00:00"), ("train_loop", "08:10:00")]
    assert second.points  # one save has no pace
    assert all(fact.event["type"] != "phase_started" for fact in second.facts)


def test_training_never_begins_before_the_job_does(tmp_path: Path) -> None:
    lines = (FILE[0], progress("08:05:00", "Saved checkpoint", 100), FILE[2])
    (only,), _ = attempts(tmp_path, *lines)
    begins = [fact.event["at"] for fact in only.facts if fact.event["type"] == "phase_started"]
    assert [at[11:19] for at in begins] == ["08:00:00", "08:00:00"]


def test_a_damaged_line_is_named_and_a_file_without_its_head_read(tmp_path: Path) -> None:
    read, report = attempts(tmp_path, FILE[1], FILE[2][:50] + "\n", "\n", "junk\n", FILE[5])

    assert [each.is_started for each in read] == [False]
    assert [line.split(":")[1] for line in report.first_skipped] == ["2", "4"]
