"""MLPerf Training result logs to wire events.

A run is an attempt. The runs of one Slurm allocation (the benchmark's trials) are the cycles of
one job; any other run is a job of its own.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ett_service.core.intervals import rfc3339
from ett_service.importers.importer import Report, WireEvent, clean, identified
from ett_service.importers.mllog import Log, Trial, read_logs
from ett_service.importers.mlperf_run import (
    Timeline,
    ending,
    evaluation_spans,
    evaluations,
    phase_spans,
    progress,
    samples_done,
    timeline,
)

RESULTS = "result_*.txt"
"""The logs that are looked for in a folder."""

SYSTEM = "system.json"
"""The description of the machine that may lie beside them."""

_PLACEHOLDER = re.compile("PLACEHOLDER|UNKNOWN_MLPERF", re.IGNORECASE)
_LONGEST_LAUNCH = 100


_Placed = tuple[Log, Timeline, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Run:
    """One run with its place among the others."""

    log: Log
    time: Timeline
    system: Mapping[str, Any]
    benchmark: str
    platform: str
    cycle: int  #: place in its allocation


def read(paths: Sequence[Path], job: str | None = None) -> tuple[Iterator[WireEvent], Report]:
    """Read logs and folders of them; with *job*, all runs are attempts of that one."""
    report = Report()
    return identified("mlperf", _all_events(paths, job, report)), report


def _all_events(paths: Sequence[Path], job: str | None, report: Report) -> Iterator[WireEvent]:
    runs = [run for path in _logs(paths, report) for run in _runs(path, report)]
    for run in _placed(runs):
        yield from _events(run, job, report)


def _logs(paths: Sequence[Path], report: Report) -> Iterator[Path]:
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        logs = sorted(path.rglob(RESULTS))
        if not logs:
            report.miss(path, f"no {RESULTS} in it")
        yield from logs


def _runs(path: Path, report: Report) -> Iterator[_Placed]:
    try:
        logs = read_logs(path, report)
    except OSError as error:
        report.miss(path, error.strerror or "cannot be read")
        return
    placed = [(log, time) for log in logs if (time := timeline(log)) is not None]
    if not placed:
        report.miss(path, "no :::MLLOG record with an instant")
        return
    report.files += 1
    beside = _system_beside(path, report)
    for log, time in placed:
        # The description that was written for people names one system alike in all its runs.
        yield log, time, {**_without_placeholders(log.sysjson), **beside}


def _system_beside(path: Path, report: Report) -> Mapping[str, Any]:
    file = path.parent / SYSTEM
    if not file.is_file():
        return {}
    try:
        description = json.loads(file.read_text("utf-8-sig", "replace"))
    except (OSError, ValueError, RecursionError):
        report.note(file, "not JSON, so the hardware is unknown")
        return {}
    return _without_placeholders(description) if isinstance(description, dict) else {}


def _without_placeholders(system: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value
        for name, value in system.items()
        if value not in ("", None) and not _PLACEHOLDER.search(str(value))
    }


def _placed(runs: Iterable[_Placed]) -> Iterator[Run]:
    """Give each run its cycle and its names, these from its neighbours where it died before."""
    allocations: dict[tuple[str, ...], list[_Placed]] = {}
    for number, run in enumerate(sorted(runs, key=lambda run: run[1].begin)):
        log = run[0]
        key = (log.slurm_id, log.nodes) if log.slurm_id else ("", "", str(number))
        allocations.setdefault(key, []).append(run)
    for trials in allocations.values():
        benchmarks = [_text(log.value("submission_benchmark")) for log, _, _ in trials]
        platforms = [_text(log.value("submission_platform")) for log, _, _ in trials]
        named = [name or _first(benchmarks) for name in benchmarks]
        for (log, time, system), benchmark, platform in zip(trials, named, platforms, strict=True):
            peers = {
                (other.trial, placed.begin)
                for (other, placed, _), name in zip(trials, named, strict=True)
                if name == benchmark
            }
            yield Run(
                log,
                time,
                system,
                benchmark,
                platform=platform or _first(platforms) or _text(log.system),
                cycle=_cycle(log.trial, time.begin, peers),
            )


def _first(names: Iterable[str]) -> str:
    return next(filter(None, names), "")


def _cycle(trial: Trial | None, begin: int, peers: set[tuple[Trial | None, int]]) -> int:
    """By its number, where every run of the allocation has one of its own; else by its begin.

    Copies of one log begin together and are one run.
    """
    numbers = {number for number, _ in peers}
    if trial is not None and None not in numbers and len(numbers) == len(peers):
        return max(trial[0] - 1, 0)
    return sorted({at for _, at in peers}).index(begin)


def _events(run: Run, job: str | None, report: Report) -> Iterator[WireEvent]:
    name = job_name(run)
    launch = run.log.slurm_id or ("" if job is None else name[:_LONGEST_LAUNCH])
    common: WireEvent = {"job": job or name}
    yield {**common, "type": "job", "at": rfc3339(run.time.begin), **_facts(run)}
    if launch:
        common["launch"] = launch
    if run.log.slurm_id:
        common["cycle"] = run.cycle
    for event in _attempt(run, report):
        yield {**common, **event}


def _attempt(run: Run, report: Report) -> Iterator[WireEvent]:
    log, time = run.log, run.time
    began: WireEvent = {"type": "attempt_started", "at": rfc3339(time.begin), **_size(run.system)}
    yield {**began, "attributes": _settings(log)}
    yield from phase_spans(time, samples_done(time, log))
    evaluated, unfinished = evaluations(log)
    if unfinished:
        report.note(log.path, f"{unfinished} eval_start without eval_stop")
    yield from evaluation_spans(time, evaluated)
    if not log.slurm_id or log.trial == (1, 1):
        # Trials begin anew at step 0, which within one job would read as repeated training.
        yield from progress(time, log)
    last: WireEvent = {"at": rfc3339(time.end)}
    end = ending(log, launcher_saw_it=time.has_outer_stop)
    if end is None:
        yield {"type": "heartbeat", **last}
    else:
        yield {"type": "attempt_ended", **last, **end}


def job_name(run: Run) -> str:
    """Benchmark, platform and allocation or start: the same wherever the file lies."""
    began = re.sub(r"[-:]|\d{3}(?=Z)", "", rfc3339(run.time.begin))
    which = f"slurm{run.log.slurm_id}" if run.log.slurm_id else began
    parts = (run.benchmark or "mlperf", run.platform, which)
    return "-".join(_slug(part) for part in parts if part)


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._]+", "-", text).strip("-.")[:60]


def _text(value: object) -> str:
    """A name from the log, empty if it is none or was never filled in."""
    if not isinstance(value, str) or _PLACEHOLDER.search(value):
        return ""
    return clean(value)


def _facts(run: Run) -> WireEvent:
    log, system = run.log, run.system
    size = _size(system)
    facts = {
        "team": _text(log.value("submission_org")) or _text(system.get("submitter")),
        "model": run.benchmark,
        "cluster": _text(system.get("system_name")) or run.platform,
        "hardware": _text(system.get("accelerator_model_name")),
        "kind": "mlperf",
        "gpus": size.get("gpus"),
    }
    labels = {
        "framework": _text(system.get("framework")),
        "division": _text(log.value("submission_division")),
        "status": _text(log.value("submission_status")),
    }
    stated = {name: value for name, value in facts.items() if value}
    return {**stated, "labels": {name: value for name, value in labels.items() if value}}


def _size(system: Mapping[str, Any]) -> dict[str, int]:
    """Hosts, and accelerators over all of them, as far as the system's description says."""
    hosts = _leading_int(system.get("number_of_nodes"))
    each = _leading_int(system.get("accelerators_per_node"))
    size = {"hosts": hosts, "gpus": hosts * each}
    return {name: count for name, count in size.items() if count}


def _leading_int(value: object) -> int:
    match = re.match(r"\s*(\d{1,7})\b", str(value))
    return int(match[1]) if match else 0


def _settings(log: Log) -> dict[str, Any]:
    settings: dict[str, Any] = {"log": clean(log.path.name)}
    for key in ("seed", "global_batch_size"):
        value = log.value(key)
        if isinstance(value, int) and abs(value) < 1 << 53:
            settings[key] = value
    if log.trial is not None:
        settings["trial"] = f"{log.trial[0]} of {log.trial[1]}"
    return settings
