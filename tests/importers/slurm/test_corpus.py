"""Real output of sacct, imported and folded, against what is known of it."""

import json
import os
from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from ett_service.core.ledger.results import JobLedger
from ett_service.core.words import SLURM_OUTCOMES
from ett_service.importers.importer import Report
from ett_service.importers.instants import zone
from ett_service.importers.slurm.sacct import read
from tests.builders.imports import Wire, ledgers_of

ROOT = Path(__file__).parents[3]
CORPUS = Path(os.environ.get("ETT_CORPUS", ROOT / "../shared/corpus")) / "slurm_gcm"


@pytest.fixture(scope="module")
def corpus() -> Path:
    if not CORPUS.is_dir():
        pytest.skip(f"the output of sacct is not there: {CORPUS} (set ETT_CORPUS)")
    return CORPUS


@pytest.fixture(scope="module")
def reference(corpus: Path) -> dict[str, Any]:
    answers: dict[str, Any] = json.loads((corpus / "reference.json").read_text())
    return answers


def imported(path: Path) -> tuple[Wire, Report]:
    runs, report = read([path], zone=zone("UTC"))
    return [event for run in runs for event in run.events], report


def seconds(ledger: JobLedger) -> float:
    assert ledger.e2e_us % 10**6 == 0
    return ledger.e2e_us / 10**6


def test_every_allocation_is_a_job_as_long_as_the_reference_says(
    corpus: Path, reference: dict[str, Any]
) -> None:
    name = "sample-sacct-output-midnight-edge-case.txt"
    expected = reference[name]["allocation_rows"]
    events, report = imported(corpus / name)
    states = {
        event["job"]: event["scheduler_state"]
        for event in events
        if event["type"] == "attempt_ended"
    }
    ledgers = ledgers_of(events)

    assert len(ledgers) == expected["n"]
    assert Counter(states.values()) == expected["state"]
    spent = {job: seconds(ledger) for job, ledger in ledgers.items()}
    assert sum(spent.values()) == expected["run_s_sum"]
    assert median(spent.values()) == expected["run_s_median"]
    for state, total in expected["run_s_sum_by_state"].items():
        assert sum(spent[job] for job in spent if states[job] == state) == total
    for job, ledger in ledgers.items():
        assert [attempt.outcome for attempt in ledger.attempts] == [SLURM_OUTCOMES[states[job]]]
    assert (report.records, report.skipped) == (reference[name]["rows"], 0)


def test_every_row_is_read_and_steps_are_no_jobs(corpus: Path, reference: dict[str, Any]) -> None:
    for name, expected in reference.items():
        events, report = imported(corpus / name)
        jobs = expected.get("allocation_rows", {"n": 0})["n"]
        assert (report.records, report.skipped) == (expected["rows"], 0), name
        assert len({event["job"] for event in events}) == jobs, name


@pytest.mark.parametrize(
    ("name", "states"),
    [
        ("sample-sacct-fake-line-break.txt", ["FAILED", "REQUEUED"]),
        ("sample-sacct-one-multiline.txt", ["FAILED", "REQUEUED"]),
        ("sample-sacct-multiple-multiline.txt", ["FAILED", "REQUEUED"]),
        ("sample-sacct-output-invalid-utf8.txt", ["FAILED", "TIMEOUT"]),
    ],
)
def test_broken_lines_and_bytes_lose_no_job(corpus: Path, name: str, states: list[str]) -> None:
    events, report = imported(corpus / name)
    ended = [event["scheduler_state"] for event in events if event["type"] == "attempt_ended"]
    assert (ended, report.skipped) == (states, 0)


def test_a_row_without_its_begin_is_named(corpus: Path) -> None:
    path = corpus / "sample-sacct-output-with-invalid-lines.txt"
    events, report = imported(path)
    assert (events, report.skipped) == ([], 1)
    assert report.first_skipped == [f"{path}:2: 93 fields, not the 109 of the header"]
