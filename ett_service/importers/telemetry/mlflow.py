"""Runs of a local MLflow store, of files (``mlruns``) or in SQLite, to wire events.

A run is an attempt; runs of one name in one experiment are attempts of one job.
"""

import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Final

import yaml

from ett_service.core.intervals import SECOND_US
from ett_service.importers.files import Unreadable, files_under, lines_of, opened
from ett_service.importers.importer import ImportedRun, Report, distinct, identified, job_name, word
from ett_service.importers.telemetry.tracked import Point, TrackedRun, facts_of
from ett_service.importers.thinning import Thinner

STORES: Final = ("meta.yaml", "mlflow.db", "*.sqlite", "*.sqlite3")
"""The files that are looked for in a folder."""

_ENDINGS: Final[Mapping[object, dict[str, Any]]] = {
    3: {"outcome": "completed"},
    4: {"outcome": "failed"},
    5: {"outcome": "cancelled"},
    "FINISHED": {"outcome": "completed"},
    "FAILED": {"outcome": "failed"},
    "KILLED": {"outcome": "cancelled"},
}
"""By status, as a number in files and as a word in a database; others have not ended."""

_DELETED: Final = "deleted"
_SYSTEM: Final = "system"  #: metrics of the machine count their own samples as steps
_MOST_BYTES: Final = 1 << 20
_MOST_STEP: Final = 2**53 - 1
_FIRST_MS: Final = 946_684_800_000
_LAST_MS: Final = 100_000_000_000_000
_METRIC = re.compile(r"(\d{10,16}) \S+ (\d{1,16})\s*")
_SQLITE: Final = b"SQLite format 3\0"
_LONGEST_LAUNCH: Final = 100


def read(paths: Sequence[Path], job: str | None = None) -> tuple[Iterator[ImportedRun], Report]:
    """Read stores, runs of them and folders; with *job*, all runs are attempts of that one."""
    report = Report()
    return distinct(_all_runs(paths, job, report)), report


def _all_runs(paths: Sequence[Path], job: str | None, report: Report) -> Iterator[ImportedRun]:
    for path in files_under(paths, STORES, report):
        try:
            with opened(path) as file:
                is_database = file.read(len(_SQLITE)) == _SQLITE
            runs = _of_database(path, report) if is_database else _of_files(path, report)
            is_empty = True
            for name, run in runs:
                is_empty = False
                report.records += 1
                facts = identified("mlflow", facts_of(run, job or name))
                yield ImportedRun(path, job or name, facts)
            if is_empty and path in paths:
                report.miss(path, "no run of MLflow")
        except Unreadable as error:
            report.miss(path, str(error))
        except OSError as error:
            report.miss(path, error.strerror or "cannot be read")


def _of_files(path: Path, report: Report) -> Iterator[tuple[str, TrackedRun]]:
    meta = _meta(path, report)
    if meta is None or "start_time" not in meta:
        return  # of an experiment
    if meta.get("lifecycle_stage") == _DELETED:
        report.note(path, "a run that was deleted is not imported")
        return
    begin_us = _microseconds(meta["start_time"])
    run_id = word(str(meta.get("run_id") or meta.get("run_uuid") or ""), _LONGEST_LAUNCH)
    if begin_us is None or not run_id:
        report.skip(path, 1, "a run without an id or a start_time in milliseconds")
        return
    report.files += 1
    experiment = _meta(path.parent.parent / "meta.yaml", Report()) or {}
    name = meta.get("run_name") or run_id
    points = _best(_metrics(path.parent / "metrics", report))
    yield _run(run_id, name, experiment.get("name"), begin_us, meta, points)


def _run(
    run_id: str,
    name: object,
    experiment: object,
    begin_us: int,
    row: Mapping[str, Any],
    points: Sequence[Point],
) -> tuple[str, TrackedRun]:
    group = word(str(experiment or ""), 90)
    job = job_name(f"{group}-{word(str(name), 100)}" if group else str(name), run_id)
    labels = {"labels": {"experiment": group}} if group else {}
    run = TrackedRun(
        run_id,
        begin_us,
        _microseconds(row.get("end_time")),
        _ENDINGS.get(row.get("status"), {}),
        points,
        {"name": word(str(name)) or run_id, "kind": "mlflow", **labels},
        1,
    )
    return job, run


def _meta(path: Path, report: Report) -> dict[str, Any] | None:
    try:
        with opened(path) as file:
            meta = yaml.safe_load(file.read(_MOST_BYTES))
    except FileNotFoundError:
        return None
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        report.skip(path, mark.line + 1 if mark else 1, "no YAML")
        return None
    return meta if isinstance(meta, dict) else None


def _microseconds(ms: object) -> int | None:
    if isinstance(ms, bool) or not isinstance(ms, int) or not _FIRST_MS <= ms <= _LAST_MS:
        return None
    return ms * (SECOND_US // 1000)


def _metrics(folder: Path, report: Report) -> Iterator[list[Point]]:
    if not folder.is_dir():
        return
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        if path.relative_to(folder).parts[0] == _SYSTEM:
            continue
        points: Thinner[Point] = Thinner()
        for line in lines_of(path):
            match = _METRIC.fullmatch(line.text)
            at_us = _microseconds(int(match[1])) if match else None
            if match is None or at_us is None or int(match[2]) > _MOST_STEP:
                report.skip(path, line.number, "no metric: milliseconds, value and step")
                continue
            report.records += 1
            points.add(at_us, partial(Point, at_us, int(match[2]), line.number))
        yield points.points()


def _best(metrics: Iterable[list[Point]]) -> list[Point]:
    """Of several metrics the one that counts furthest: others may count epochs."""
    return max(metrics, key=lambda points: max((p.step for p in points), default=-1), default=[])


_RUNS: Final = """
SELECT runs.run_uuid, runs.name, runs.status, runs.start_time, runs.end_time, experiments.name
FROM runs LEFT JOIN experiments USING (experiment_id)
WHERE runs.lifecycle_stage != 'deleted'
ORDER BY runs.start_time, runs.run_uuid
"""
_FURTHEST: Final = """
SELECT key FROM metrics WHERE run_uuid = ? AND key NOT LIKE 'system/%'
GROUP BY key ORDER BY max(step) DESC, count(*) DESC, key LIMIT 1
"""
_POINTS: Final = """
SELECT timestamp, step FROM metrics WHERE run_uuid = ? AND key = ? ORDER BY timestamp, step
"""


def _of_database(path: Path, report: Report) -> Iterator[tuple[str, TrackedRun]]:
    """Raises ``Unreadable`` where it is no store of MLflow."""
    uri = f"{path.absolute().as_uri()}?mode=ro"
    try:
        with closing(sqlite3.connect(uri, uri=True)) as database:
            rows = database.execute(_RUNS).fetchall()
            report.files += bool(rows)
            for run_id, name, status, start, end, experiment in rows:
                begin_us = _microseconds(start)
                if begin_us is None:
                    report.note(path, f"run {run_id} has no start_time in milliseconds")
                    continue
                row = {"status": status, "end_time": end}
                points = _stored_points(database, run_id)
                yield _run(str(run_id), name or run_id, experiment, begin_us, row, points)
    except sqlite3.Error as error:
        raise Unreadable(f"no store of MLflow: {error}") from None


def _stored_points(database: sqlite3.Connection, run_id: str) -> list[Point]:
    points: Thinner[Point] = Thinner()
    for (key,) in database.execute(_FURTHEST, [run_id]):
        for ms, step in database.execute(_POINTS, [run_id, key]):
            at_us = _microseconds(ms)
            if at_us is not None and isinstance(step, int) and 0 <= step <= _MOST_STEP:
                points.add(at_us, partial(Point, at_us, step))
    return points.points()
