"""Runs of experiment trackers and benchmarks, and dumps of clusters, whose reading is timed."""

import csv
import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from tests.builders import kubernetes as k8s
from tests.builders import mllog, wandb

START_S = 1_785_000_000
_LINES_A_JOB = 214  #: of a dump, indented as ``kubectl`` does


def dump_lines(count: int) -> Iterable[str]:
    """What ``kubectl get -o json`` prints of jobs, their Workloads and their pods."""
    jobs = max(count // _LINES_A_JOB, 1)
    return json.dumps(k8s.dump(*objects(jobs)), indent=4).splitlines()


def objects(jobs: int) -> list[k8s.Json]:
    """Return what a cluster with Kueue has of so many jobs."""
    reserved = k8s.condition("QuotaReserved", 5)
    return [
        thing
        for number in range(jobs)
        for thing in (
            k8s.job(f"job-{number}"),
            k8s.workload(f"wl-{number}", k8s.owner("Job", f"job-{number}"), 0, reserved),
            pod(number),
        )
    ]


def pod(number: int, restarts: int = 0) -> k8s.Json:
    """Return the pod of a job that runs; with each restart its status is another one."""
    of = k8s.owner("Job", f"job-{number}")
    last = k8s.life(20, 30, 1) if restarts else None
    container = k8s.running(20 + 20 * restarts, restarts, last)
    return k8s.pod(f"pod-{number}", of, 10, scheduled=15, container=container)


def benchmark_lines(count: int) -> Iterator[str]:
    """A run of MLPerf that evaluates after each block of training, and logs its throughput."""
    yield mllog.line("submission_benchmark", 0, "llama2")
    yield mllog.line("global_batch_size", 0, 8)
    yield mllog.line("init_start", 1)
    yield mllog.line("init_stop", 2)
    yield mllog.line("run_start", 2)
    keys = (
        "block_start",
        "tracked_stats",
        "block_stop",
        "eval_start",
        "eval_accuracy",
        "eval_stop",
    )
    for number in range(count - 6):
        key, samples = keys[number % 6], number // 6 * 80
        yield mllog.line(key, 3 + number, 0.5, samples_count=samples, step=samples // 8)
    yield mllog.line("run_stop", 3 + count, status="success")


def metric_lines(count: int) -> Iterator[str]:
    """A metric of MLflow: milliseconds, value and step."""
    return (f"{(START_S + number) * 1000} 2.3125 {number}" for number in range(count))


def as_mlflow(folder: Path, lines: Iterable[str]) -> Path:
    """Write a run whose metric *lines* are."""
    run = folder / "mlruns/7/0123456789abcdef"
    (run / "metrics").mkdir(parents=True)
    (run / "metrics/loss").write_text("".join(f"{line}\n" for line in lines))
    meta = {"run_id": run.name, "run_name": "llm", "start_time": START_S * 1000, "status": 3}
    (run / "meta.yaml").write_text(json.dumps({**meta, "lifecycle_stage": "active"}))
    return folder / "mlruns"


def as_mlflow_database(folder: Path, lines: Iterable[str]) -> Path:
    """Write the same as a store in SQLite."""
    path = folder / "mlflow.db"
    with closing(sqlite3.connect(path)) as store:
        store.executescript(
            """
            CREATE TABLE experiments (experiment_id INTEGER, name TEXT);
            CREATE TABLE runs (run_uuid TEXT, name TEXT, status TEXT, start_time BIGINT,
                end_time BIGINT, experiment_id INTEGER, lifecycle_stage TEXT);
            CREATE TABLE metrics (key TEXT, timestamp BIGINT, run_uuid TEXT, step BIGINT);
            INSERT INTO runs VALUES
                ('a', 'llm', 'RUNNING', 1785000000000, NULL, 7, 'active');
            """
        )
        rows = ((int(ms), int(step)) for ms, _, step in map(str.split, lines))
        store.executemany("INSERT INTO metrics VALUES ('loss', ?, 'a', ?)", rows)
        store.commit()
    return path


def history_lines(count: int) -> Iterator[str]:
    """What a run of Weights & Biases logs: a row of its history at each step."""
    for number in range(count):
        row = {"_timestamp": START_S + number, "_step": number, "loss": 2.3125, "lr": 3e-4}
        yield json.dumps({**row, "train/global_step": number})


def as_wandb(folder: Path, lines: Iterable[str]) -> Path:
    """Write a run whose history *lines* are."""
    rows: Iterator[dict[str, Any]] = map(json.loads, lines)
    history = (wandb.history(row.pop("_timestamp"), **row) for row in rows)
    path = folder / "run-a.wandb"
    path.write_bytes(wandb.framed(wandb.run("a", "llm", "pre", START_S), *history))
    return path


def as_parquet(folder: Path, lines: Iterable[str]) -> Path:
    """Write a table that says what *lines* of CSV do."""
    path = folder / "jobs.parquet"
    parquet.write_table(pa.Table.from_pylist(list(csv.DictReader(lines))), path)
    return path


def save_lines(count: int) -> Iterator[str]:
    """``progress.txt`` of Megatron-LM: a start in fifty lines, else saves."""
    for number in range(count):
        clock = f"2026-03-{number // 86_400 % 28 + 1:02}"
        clock += f" {number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}"
        head = f"{clock}\tJob ID: {number // 500}\t# GPUs: 64\t"
        done = f"Saved checkpoint\tIteration: {number * 100}\tJob throughput: 400.0 TFLOP/s/GPU"
        yield head + (done if number % 50 else "Starting job")
