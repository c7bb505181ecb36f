"""NVRx's cycle files and launcher logs."""

import json
from pathlib import Path

import pytest

from ett_service.core.ledger.results import JobLedger
from ett_service.core.words import Category, Outcome
from ett_service.importers.importer import Report
from ett_service.importers.telemetry.nvrx import count_nodes, read
from tests.builders.imports import Wire, ledgers_of, seconds


def imported(*paths: Path, job: str | None = None) -> tuple[Wire, Report]:
    runs, report = read(paths, job)
    return [sent for run in runs for sent in run.events], report


def ledger(*paths: Path) -> JobLedger:
    (only,) = ledgers_of(imported(*paths)[0]).values()
    return only


def cycle(folder: Path, number: int, begin: str, end: str, attempt: int = 0) -> Path:
    path = folder / f"cycle_info.513.{attempt}.{number}"
    times = {
        "cycle_start_time": f"2026-05-05T{begin}Z",
        "cycle_end_time": end and f"2026-05-05T{end}Z",
    }
    names = {"job_id": "513", "attempt_index": attempt, "cycle_number": number}
    path.write_text(json.dumps({**names, **times, "active_nodes": "n[001-003]"}, indent=2))
    return path


def event(number: int, name: str, at: str, node: str = "n001") -> str:
    return (
        f"0: 2026-05-05 09:00:00,1 [INFO] [{node}] profiling.py:91   - Cycle: {number} "
        f"Event: {name} Node: {node} Rank: None Time: 2026-05-05 {at} UTC"
    )


STARTS = [
    ("rendezvous_started", "00.000"),
    ("health_check_completed", "04.000"),
    ("rendezvous_completed", "10.000"),
    ("worker_start_started", "11.000"),
    ("worker_start_completed", "15.000"),
]


def started(number: int, minute: str, node: str = "n001") -> list[str]:
    return [event(number, name, f"10:{minute}:{second}", node) for name, second in STARTS]


def test_cycle_files_are_the_attempts_of_a_slurm_job(tmp_path: Path) -> None:
    cycle(tmp_path, 0, "10:00:00", "10:10:00")
    cycle(tmp_path, 1, "10:11:00", "10:20:00")
    cycle(tmp_path, 0, "10:30:00", "", attempt=1)
    (tmp_path / "cycle_info.513.current").symlink_to("cycle_info.513.1.0")
    ((name, job),) = ledgers_of(imported(tmp_path)[0]).items()

    assert name == "slurm-513"
    assert [(a.launch, a.attempt, a.cycle, a.outcome) for a in job.attempts] == [
        ("513", 0, 0, Outcome.FAILED),
        ("513", 0, 1, Outcome.LOST),
        ("513", 1, 0, Outcome.LOST),
    ]


def test_the_launcher_s_log_gives_starts_failures_and_teardown(tmp_path: Path) -> None:
    lines = [
        "an unrelated line",
        *started(0, "00"),
        event(1, "failure_detected", "10:05:00.000"),
        event(1, "worker_terminated", "10:05:20.000"),
        *started(1, "06"),
    ]
    (path := tmp_path / "ft-513.log").write_text("\n".join(lines))
    job = ledger(path)

    assert [(a.launch, a.cycle, a.outcome) for a in job.attempts] == [
        ("513", 0, Outcome.FAILED),
        ("513", 1, Outcome.LOST),
    ]
    assert seconds(job) == {
        Category.LAUNCHER_INIT: 30,
        Category.UNATTRIBUTED: 285,
        Category.SHUTDOWN: 20,
        Category.RESTART_WAIT: 40,
    }
    stages = {stage.stage: stage.inclusive_us / 1e6 for stage in job.attempts[0].stages}
    assert stages == {"rendezvous": 10, "health_check": 4, "worker_launch": 4, "teardown": 20}


def test_nodes_that_start_together_are_one_attempt(tmp_path: Path) -> None:
    lines = [
        *started(0, "00"),
        *started(0, "01", "n002"),
        event(1, "failure_detected", "10:05:00.000"),
    ]
    (path := tmp_path / "ft-513.log").write_text("\n".join(lines))
    job = ledger(path)

    assert len(job.attempts) == 1
    assert seconds(job)[Category.LAUNCHER_INIT] == 30


def test_a_log_and_cycle_files_describe_the_same_attempts(tmp_path: Path) -> None:
    cycle(tmp_path, 0, "10:00:15", "10:05:00")
    cycle(tmp_path, 1, "10:06:15", "")
    lines = [*started(0, "00"), event(1, "failure_detected", "10:05:00.000"), *started(1, "06")]
    (tmp_path / "ft-513.log").write_text("\n".join(lines))
    job = ledger(tmp_path)

    assert [(a.cycle, a.outcome) for a in job.attempts] == [(0, Outcome.FAILED), (1, Outcome.LOST)]


def test_damage_is_named_by_its_line(tmp_path: Path) -> None:
    lines = [event(0, "odd", "10:00:00.0"), event(0, "rendezvous_started", "10:00:00.000")[:-20]]
    (path := tmp_path / "ft.log").write_text("\n".join([*lines, *started(0, "00")]))
    (broken := tmp_path / "cycle_info.1.0.0").write_text('{\n "job_id": "1",\n')
    events, report = imported(tmp_path)

    assert {sent["job"] for sent in events} == {"nvrx-ft"}
    assert report.first_skipped == [
        f"{broken}:1: an object without an end",
        f"{path}:1: an unknown event odd",
        f"{path}:2: an event of NVRx without its instant",
    ]


@pytest.mark.parametrize(
    ("nodes", "count"),
    [("", 0), ("a", 1), ("a,b", 2), ("n[001-004,007],m1", 6), ("r[0-1]n[0-3]", 8), ("n[x]", 1)],
)
def test_nodes_are_counted(nodes: str, count: int) -> None:
    assert count_nodes(nodes) == count
