"""Real logs of nine systems, imported and folded, against what is known of them."""

import json
import os
from pathlib import Path

import pytest

from ett_service.core.ledger.results import JobLedger
from ett_service.core.words import Category, Outcome
from ett_service.importers.mlperf import read
from tests.builders.imports import imported, ledgers, ledgers_of
from tests.builders.imports import ledger as only_ledger

ROOT = Path(__file__).parents[2]
CORPUS = Path(os.environ.get("ETT_CORPUS", ROOT / "../shared/corpus")) / "mlperf"

OUTCOMES = {
    "success": (Outcome.COMPLETED, None, None),
    "success_but_killed_by_time_limit_in_shutdown": (Outcome.COMPLETED, None, None),
    "not_converged": (Outcome.FAILED, "user", "unknown"),
    "scheduler_time_limit": (Outcome.FAILED, "infra", "scheduler_timeout"),
    "log_truncated": (Outcome.LOST, "unknown", "lost_contact"),
}


@pytest.fixture(scope="module")
def corpus() -> Path:
    if not CORPUS.is_dir():
        pytest.skip(f"the MLPerf logs are not there: {CORPUS} (set ETT_CORPUS)")
    return CORPUS


def milliseconds(ledger: JobLedger, *categories: Category) -> int:
    us = sum(s.end_at - s.start_at for s in ledger.segments if s.category in categories)
    assert us % 1000 == 0
    return us // 1000


def test_every_run_is_as_the_reference_says_to_the_millisecond(corpus: Path) -> None:
    reference = json.loads((corpus / "reference.json").read_text())
    count = 0
    for system, runs in reference.items():
        for name, run in runs["runs"].items():
            ledger = only_ledger(corpus / "runs" / system / name)
            where = f"{system}/{name}"
            measured = {
                "hardware_setup": milliseconds(ledger, Category.HARDWARE_SETUP),
                "launcher_init": milliseconds(ledger, Category.LAUNCHER_INIT),
                "train_loop": milliseconds(
                    ledger, Category.EFFECTIVE_TRAINING, Category.EVALUATION
                ),
                "eval_in_loop": milliseconds(ledger, Category.EVALUATION),
                "shutdown": milliseconds(ledger, Category.SHUTDOWN),
                "e2e": ledger.e2e_us // 1000,
            }
            assert measured == {part: run[f"{part}_ms"] or 0 for part in measured}, where
            (attempt,) = ledger.attempts
            expected = OUTCOMES[run["outcome"]]
            assert (attempt.outcome, attempt.origin, attempt.cause) == expected, where
            assert (attempt.reason is not None) == (run["outcome"] == "not_converged"), where
            assert ledger.failures == (expected[1] is not None), where
            count += 1
    assert count == 66


def test_trials_of_one_allocation_are_attempts_of_one_job(corpus: Path) -> None:
    chains = json.loads((corpus / "job_chains.json").read_text())
    for chain, expected in chains.items():
        system, _, slurm = chain.partition("#job")
        folded = ledgers(corpus / "runs" / system)
        (ledger,) = (ledger for name, ledger in folded.items() if name.endswith(f"slurm{slurm}"))

        assert len(ledger.attempts) == expected["n_trials"]
        assert ledger.failures == expected["n_failed"]
        assert ledger.e2e_us == round(expected["span_s"] * 1e6)
        assert {attempt.launch for attempt in ledger.attempts} == {slurm}
        for attempt, trial in zip(ledger.attempts, expected["trials"], strict=True):
            spent = attempt.categories_us
            assert attempt.cycle == trial["trial"][0] - 1
            assert attempt.started_at == trial["start_ms"] * 1000
            assert attempt.ended_at == trial["end_ms"] * 1000
            assert attempt.loop_started_at == trial["run_start_ms"] * 1000
            assert spent[Category.EFFECTIVE_TRAINING] == round(trial["loop_s"] * 1e6)
            assert spent[Category.SHUTDOWN] == round(trial["shutdown_s"] * 1e6)
        waits = [
            segment.end_at - segment.start_at
            for segment in ledger.segments
            if segment.category is Category.RESTART_WAIT
        ]
        between = [t["between_prev_end_and_start_s"] for t in expected["trials"][1:]]
        assert waits == [round(seconds * 1e6) for seconds in between]
        recovered = [t["prev_loop_end_to_run_start_s"] for t in expected["trials"][1:]]
        assert [r.us for r in ledger.recoveries] == [round(seconds * 1e6) for seconds in recovered]


def test_each_whole_system_reads_without_a_skipped_line(corpus: Path) -> None:
    wire, report = imported(corpus / "runs")
    jobs = {event["job"]: event for event in wire if event["type"] == "job"}

    assert (report.files, report.skipped, report.unread, report.notes) == (66, 0, [], [])
    assert all(job["gpus"] and job["hardware"] and job["model"] for job in jobs.values())
    assert len(jobs) == 66 - 8


def test_the_same_files_again_are_the_same_events(corpus: Path, tmp_path: Path) -> None:
    (folder,) = (corpus / "runs").glob("*tinybox_green*")
    copy = tmp_path / "elsewhere"
    copy.mkdir()
    for file in folder.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())

    assert imported(folder)[0] == imported(copy)[0]
    assert list(read([folder, copy])[0]) == list(read([folder])[0])


def test_a_log_that_was_imported_while_it_grew_is_healed_by_the_whole_one(
    corpus: Path, tmp_path: Path
) -> None:
    cut = 0
    for path in sorted((corpus / "runs").glob("*/result_*.txt")):
        content = path.read_bytes()
        whole, _ = imported(path)
        expected = ledgers_of(whole)
        for share in (23, 71, 97):
            (log := tmp_path / path.name).write_bytes(content[: len(content) * share // 100])
            part, report = imported(log)
            folded = ledgers_of([*part, *whole])
            assert part or report.unfinished, (path, share)
            assert folded.keys() == expected.keys(), (path, share)
            for name, ledger in expected.items():
                assert folded[name].segments == ledger.segments, (path, share)
            cut += 1
    assert cut == 3 * 66
