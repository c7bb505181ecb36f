"""A small good file of each format that is imported."""

import csv
import json
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from benchmarks.importers import EXAMPLES
from benchmarks.importers import FORMATS as TIMED
from ett_service.cli.record.import_ import FORMATS
from ett_service.importers.logs import profiled_log, table
from tests.builders import kubernetes as k8s
from tests.builders import mllog, wandb

_LINES = 60
_START_S = 1_785_000_000


FILES = {"mapping": EXAMPLES / "job-table.yaml", "profile": EXAMPLES / "python-logging.yaml"}
"""What formats that tell nothing by themselves are read by."""

_READ: Mapping[str, Callable[[Path], object]] = {
    "mapping": table.Mapping,
    "profile": profiled_log.Profile,
}


def keywords(name: str) -> dict[str, Any]:
    """Return what the importer of a format needs beyond paths."""
    files = {each: _READ[each](FILES[each]) for each in FORMATS[name].options if each in FILES}
    return {"job": "llm" if "profile" in files else None, **files}


def sample(name: str, folder: Path) -> Path:
    """Write a file of the format *name*."""
    write = _WRITTEN.get(name)
    return write(folder) if write is not None else _lines(name, folder)


def _lines(name: str, folder: Path) -> Path:
    path = folder / f"sample.{name}"
    path.write_text("".join(f"{line}\n" for line in TIMED[name].lines(_LINES)), "utf-8")
    return path


def _dump(folder: Path) -> Path:
    pod = k8s.pod("llm-a", k8s.owner("Job", "llm"), 1, scheduled=2, container=k8s.over(3, 9))
    path = folder / "dump.json"
    path.write_text("".join(f"{json.dumps(each)}\n" for each in (k8s.job("llm"), pod)))
    return path


def _parquet(folder: Path) -> Path:
    path = folder / "jobs.parquet"
    with _lines("csv", folder).open() as file:
        rows = list(csv.DictReader(file))
    parquet.write_table(pa.Table.from_pylist(rows), path)
    return path


def _mlflow(folder: Path) -> Path:
    path = folder / "mlflow.db"
    with closing(sqlite3.connect(path)) as store:
        store.executescript(
            """
            CREATE TABLE experiments (experiment_id INTEGER, name TEXT);
            CREATE TABLE runs (run_uuid TEXT, name TEXT, status TEXT, start_time BIGINT,
                end_time BIGINT, experiment_id INTEGER, lifecycle_stage TEXT);
            CREATE TABLE metrics (key TEXT, timestamp BIGINT, run_uuid TEXT, step BIGINT);
            INSERT INTO runs VALUES
                ('a', 'llm', 'FINISHED', 1785000000000, 1785000090000, 7, 'active');
            """
        )
    return path


def _wandb(folder: Path) -> Path:
    path = folder / "run-a.wandb"
    records = wandb.run("a", "llm", "pre", _START_S), wandb.exit_of(0, 180)
    path.write_bytes(wandb.framed(*records))
    return path


_WRITTEN: Mapping[str, Callable[[Path], Path]] = {
    "k8s": _dump,
    "mlflow": _mlflow,
    "mlperf": lambda folder: mllog.written(folder, *mllog.RUN),
    "parquet": _parquet,
    "wandb": _wandb,
}
