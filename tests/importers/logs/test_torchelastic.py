"""What torchrun's agents leave behind."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from ett_service.importers.importer import Report
from ett_service.importers.instants import zone
from ett_service.importers.logs.torchelastic import read
from tests.builders.imports import Wire, ledgers_of

ROOT = Path(__file__).parents[3]
CORPUS = Path(os.environ.get("ETT_CORPUS", ROOT / "../shared/corpus")) / "torch_samples"
CRASH_S = 1_795_206_826


def imported(*paths: Path, job: str | None = None) -> tuple[Wire, Report]:
    runs, report = read(paths, job, zone("UTC"))
    return [sent for run in runs for sent in run.events], report


def error_file(folder: Path, attempt: int, rank: int, **extra: object) -> Path:
    path = folder / f"run_7/attempt_{attempt}/{rank}/error.json"
    path.parent.mkdir(parents=True)
    error = {"message": "ValueError: bad batch", "extraInfo": extra}
    path.write_text(json.dumps({"message": error}))
    return path


def status(state: str, clock: str, *, source: str = "AGENT", **metadata: Any) -> str:
    record = {
        "name": f"torchelastic.worker.status.{state}",
        "source": source,
        "timestamp": 0,
        "metadata": {"hostname": "n1", "agent_restarts": 0, "global_rank": None, **metadata},
    }
    return f"2024-05-13T08:00:{clock}Z {json.dumps(record)}\n"


def test_an_error_file_is_the_failure_of_its_attempt(tmp_path: Path) -> None:
    callstack = "Traceback (most recent call last):\nValueError: bad batch\n"
    error_file(tmp_path, 0, 1, timestamp=str(CRASH_S), py_callstack=callstack)
    error_file(tmp_path, 1, 0, timestamp=str(CRASH_S + 60))
    events, report = imported(tmp_path)

    assert {sent["job"] for sent in events} == {"torchelastic-run_7"}
    assert [(sent["cycle"], sent["attributes"]["local_rank"]) for sent in events] == [
        (0, 1),
        (1, 0),
    ]
    assert {(sent["outcome"], sent["exception"]) for sent in events} == {("failed", "ValueError")}
    assert events[0]["message"].startswith("ValueError: bad batch\nTraceback")
    assert report.files == 2


def test_events_with_a_time_before_them_are_read(tmp_path: Path) -> None:
    log = tmp_path / "agent.jsonl"
    log.write_text(
        status("RENDEZVOUS", "02", duration_ms=1500.0)
        + status("START", "03", source="WORKER", global_rank=0)
        + status("START", "03", source="WORKER", global_rank=1)
        + status("FAILED", "40", raw_error="RuntimeError: NCCL error\n")
        + status("RENDEZVOUS", "42", duration_ms=500, agent_restarts=1)
        + status("SUCCEEDED", "59", agent_restarts=1)
    )
    events, _ = imported(log)
    (ledger,) = ledgers_of(events).values()

    assert [(each.cycle, each.outcome) for each in ledger.attempts] == [
        (0, "failed"),
        (1, "completed"),
    ]
    assert {sent.get("host") for sent in events} == {"n1"}
    assert [sent["start"][17:23] for sent in events if sent["type"] == "span"] == [
        "00.500",
        "41.500",
    ]


def test_damage_is_named_by_line(tmp_path: Path) -> None:
    log = tmp_path / "agent.jsonl"
    whole = status("SUCCEEDED", "59").encode()
    log.write_bytes(b'\xff\x00\n\n{"name": \n' + whole[:-19] + b"\n" + whole)
    events, report = imported(log)

    assert len(events) == 1
    assert [line.split(":", 1)[1] for line in report.first_skipped] == [
        "1: no record of torchelastic",
        "3: no record of torchelastic",
        "4: its JSON is cut or damaged",
    ]


def test_an_error_file_without_an_instant_is_named(tmp_path: Path) -> None:
    path = error_file(tmp_path, 0, 0)
    assert imported(path)[1].unread == [f"{path}: the error file has no timestamp of its own"]


@pytest.fixture
def samples() -> Path:
    if not CORPUS.is_dir():
        pytest.skip(f"the samples are not there: {CORPUS} (set ETT_CORPUS)")
    return CORPUS


def test_torchs_own_files_are_read_as_far_as_they_say_when(samples: Path) -> None:
    (failure,), report = imported(samples / "torchelastic_error_file.json", job="crash")
    assert (failure["at"], failure["exception"]) == ("2026-11-20T20:33:46.000000Z", "ValueError")

    for name in ("torchelastic_agent_events.jsonl", "torchelastic_agent_events_sigterm.jsonl"):
        events, report = imported(samples / name)
        assert (events, report.skipped) == ([], 0)
        (why,) = report.unread
        assert "have no instant (timestamp 0)" in why
