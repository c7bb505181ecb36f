"""Local stores of MLflow, of files and in SQLite."""

import sqlite3
from contextlib import closing
from pathlib import Path

from ett_service.core.ledger.results import JobLedger
from ett_service.core.words import Category, Outcome
from ett_service.importers.importer import Report
from ett_service.importers.recognition import by_format
from ett_service.importers.telemetry.mlflow import read
from tests.builders.imports import Wire, ledgers_of, seconds

START_MS = 1_785_000_000_000


def imported(*paths: Path, job: str | None = None) -> tuple[Wire, Report]:
    runs, report = read(paths, job)
    return [sent for run in runs for sent in run.events], report


def ledgers(path: Path) -> dict[str, JobLedger]:
    return ledgers_of(imported(path)[0])


def run(store: Path, run_id: str, begin: int, end: int | None, status: int) -> Path:
    """A run of ten steps of 10 s, 60 s after its begin."""
    folder = store / "7" / run_id
    metrics = folder / "metrics"
    (metrics / "system").mkdir(parents=True)
    (store / "7" / "meta.yaml").write_text("experiment_id: '7'\nname: pre\n")
    end_time = "null" if end is None else START_MS + end * 1000
    about = f"lifecycle_stage: active\nrun_id: {run_id}\nrun_name: llm\nstatus: {status}\n"
    times = f"start_time: {START_MS + begin * 1000}\nend_time: {end_time}\n"
    (folder / "meta.yaml").write_text(about + times)
    rows = [f"{START_MS + (begin + 60 + 10 * n) * 1000} 0.5 {n * 5}\n" for n in range(1, 11)]
    (metrics / "loss").write_text("".join(rows))
    (metrics / "epoch").write_text(rows[-1].replace(" 50", " 1"))
    (metrics / "system" / "cpu").write_text(f"{START_MS + begin * 1000} 3.5 9999\n")
    return folder


def database(path: Path) -> Path:
    with closing(sqlite3.connect(path)) as store:
        store.executescript(
            """
            CREATE TABLE experiments (experiment_id INTEGER, name TEXT);
            CREATE TABLE runs (run_uuid TEXT, name TEXT, status TEXT, start_time BIGINT,
                end_time BIGINT, experiment_id INTEGER, lifecycle_stage TEXT);
            CREATE TABLE metrics (key TEXT, timestamp BIGINT, run_uuid TEXT, step BIGINT);
            INSERT INTO experiments VALUES (7, 'pre');
            """
        )
        for run_id, begin, end, status in (("a", 0, 180, "FAILED"), ("b", 300, 480, "FINISHED")):
            times = START_MS + begin * 1000, START_MS + end * 1000
            store.execute(
                "INSERT INTO runs VALUES (?, 'llm', ?, ?, ?, 7, 'active')", [run_id, status, *times]
            )
            for n in range(1, 11):
                at = START_MS + (begin + 60 + 10 * n) * 1000
                store.execute("INSERT INTO metrics VALUES ('loss', ?, ?, ?)", [at, run_id, n * 5])
            cpu = ["system/cpu", START_MS + begin * 1000, run_id, 9999]
            store.execute("INSERT INTO metrics VALUES (?, ?, ?, ?)", cpu)
        store.execute("INSERT INTO runs VALUES ('c', 'x', 'FINISHED', 1, 2, 7, 'deleted')")
        store.commit()
    return path


def test_runs_of_one_name_are_attempts_of_a_job(tmp_path: Path) -> None:
    run(tmp_path, "a", 0, 180, 4)
    run(tmp_path, "b", 300, 480, 3)
    ((name, job),) = ledgers(tmp_path).items()

    assert name == "pre-llm"
    assert [(a.launch, a.outcome) for a in job.attempts] == [
        ("a", Outcome.FAILED),
        ("b", Outcome.COMPLETED),
    ]
    assert seconds(job)[Category.REPEATED_TRAINING] == 100
    assert seconds(job)[Category.RESTART_WAIT] == 120


def test_a_database_says_the_same(tmp_path: Path) -> None:
    run(tmp_path / "mlruns", "a", 0, 180, 4)
    run(tmp_path / "mlruns", "b", 300, 480, 3)
    stored = database(tmp_path / "mlflow.db")

    assert ledgers(stored) == ledgers(tmp_path / "mlruns")
    assert [*by_format([stored, tmp_path / "mlruns"])] == ["mlflow"]


def test_a_deleted_run_is_left_out(tmp_path: Path) -> None:
    meta = run(tmp_path, "a", 0, 180, 3) / "meta.yaml"
    meta.write_text(meta.read_text().replace("active", "deleted"))
    events, report = imported(tmp_path)

    assert (events, report.notes) == ([], [f"{meta}: a run that was deleted is not imported"])


def test_a_run_without_an_end_is_heard_last_at_its_last_metric(tmp_path: Path) -> None:
    run(tmp_path, "a", 0, None, 1)
    (job,) = ledgers(tmp_path).values()

    assert (job.attempts[0].outcome, job.e2e_us) == (Outcome.LOST, 160e6)


def test_a_growing_run_never_takes_back_what_it_reported(tmp_path: Path) -> None:
    loss = run(tmp_path, "a", 0, None, 1) / "metrics" / "loss"
    rows = loss.read_text().splitlines(keepends=True)
    whole = {sent["id"] for sent in imported(tmp_path)[0]}
    for count in range(2, len(rows)):
        loss.write_text("".join(rows[:count]))
        assert {sent["id"] for sent in imported(tmp_path)[0]} <= whole


def test_damage_is_named(tmp_path: Path) -> None:
    folder = run(tmp_path, "a", 0, 180, 3)
    with (folder / "metrics" / "loss").open("a") as file:
        file.write("1785000 0.5 3\n17850000")
    (broken := tmp_path / "7" / "b").mkdir()
    (broken / "meta.yaml").write_text("start_time: {\n")
    (odd := tmp_path / "mlflow.db").write_bytes(b"SQLite format 3\0" + b"x" * 100)
    events, report = imported(tmp_path)

    assert report.first_skipped == [
        f"{folder}/metrics/loss:11: no metric: milliseconds, value and step",
        f"{folder}/metrics/loss:12: no metric: milliseconds, value and step",
        f"{broken}/meta.yaml:2: no YAML",
    ]
    assert report.unread[0].startswith(f"{odd}: no store of MLflow")
    assert len(events) > 10
