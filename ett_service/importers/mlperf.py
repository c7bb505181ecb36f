"""MLPerf Training result logs, with the systems that they come from, to wire events.

A run is an attempt. The runs of one Slurm allocation (the benchmark's trials) are the cycles of
one job; any other run is a job of its own. What a run is called depends on its own log alone, as
far as that says: its trials may be imported one by one, and its log again when it is longer.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from ett_service.core.intervals import rfc3339
from ett_service.importers.files import Unreadable, files_under
from ett_service.importers.importer import (
    Fact,
    ImportedRun,
    Report,
    WireEvent,
    clean,
    distinct,
    identified,
)
from ett_service.importers.logged_run import Log, Moment
from ett_service.importers.mllog import read_logs
from ett_service.importers.mlperf_run import (
    Timeline,
    ending,
    evaluation_spans,
    evaluations,
    is_over,
    phase_edges,
    progress,
    samples_done,
    timeline,
)

BESIDE = "system.json"
"""The description that may lie beside a log."""

_FOLDER = "systems"
_PLACEHOLDER = re.compile("PLACEHOLDER|UNKNOWN_MLPERF", re.IGNORECASE)
_HIGHEST = 4

RESULTS = ("result_*.txt", "result_*.txt.gz")
"""The logs that are looked for in a folder."""

_LONGEST_LAUNCH = 100
_SECOND_US = 1_000_000


def description(folder: Path, report: Report) -> dict[str, Any]:
    """Read the description of the system whose logs lie in *folder*; empty where there is none.

    It lies beside them, or, as in published results, in the organisation's folder ``systems``
    under the system's name: ``ORG/systems/NAME.json`` of ``ORG/results/NAME/BENCHMARK``.
    """
    for path in (folder / BESIDE, *_of_organisation(folder)):
        if path.is_file():
            return _read(path, report)
    return {}


def filled_in(system: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what was never filled in."""
    return {
        name: value
        for name, value in system.items()
        if value not in ("", None) and not is_placeholder(str(value))
    }


def is_placeholder(text: str) -> bool:
    """Whether a form's own text stands where a name should."""
    return _PLACEHOLDER.search(text) is not None


def size(system: Mapping[str, Any]) -> dict[str, int]:
    """Hosts, and accelerators over all of them, as far as the system's description says."""
    hosts = _leading_int(system.get("number_of_nodes"))
    each = _leading_int(system.get("accelerators_per_node"))
    counts = {"hosts": hosts, "gpus": hosts * each}
    return {name: count for name, count in counts.items() if count}


def _of_organisation(folder: Path) -> Iterator[Path]:
    named = [path for path in (folder.absolute(), *folder.absolute().parents) if path.name]
    for system in named[:_HIGHEST]:
        for above in list(system.parents)[:2]:
            yield above / _FOLDER / f"{system.name}.json"


def _read(path: Path, report: Report) -> dict[str, Any]:
    try:
        system = json.loads(path.read_text("utf-8-sig", "replace"))
    except (OSError, ValueError, RecursionError):
        report.note(path, "not JSON, so the hardware is unknown")
        return {}
    return filled_in(system) if isinstance(system, dict) else {}


def _leading_int(value: object) -> int:
    match = re.match(r"\s*(\d{1,7})\b", str(value))
    return int(match[1]) if match else 0


@dataclass(frozen=True, slots=True)
class Run:
    """One run, as its own log names it; names that it does not give are empty."""

    log: Log
    time: Timeline
    system: Mapping[str, Any]
    benchmark: str
    platform: str

    @property
    def allocation(self) -> tuple[str, str]:
        """What names its allocation, but for other clusters that count alike."""
        return self.log.allocation.slurm_id, self.log.allocation.nodes

    @property
    def is_named(self) -> bool:
        """Whether its own log says all that names its job."""
        return bool(self.benchmark and self.platform)

    @property
    def is_settled(self) -> bool:
        """Whether nothing that its log may yet say changes the name of its job."""
        if is_over(self.log):
            return True
        has_crashed = self.time.init is not None and ending(self.log, launcher_saw_it=False)
        is_placed = self.allocation[0] or self.log.has_loop or has_crashed
        return self.is_named and bool(is_placed)

    @property
    def began(self) -> Moment:
        """The begin that names it: the launcher's, else the first that its file names."""
        return self.log.outer_start or self.log.first or self.time.begin


@dataclass(slots=True)
class _Neighbours:
    """What the runs of a folder say of the allocations that they share."""

    names: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)
    trials: dict[tuple[object, ...], int] = field(default_factory=dict)
    """When the first run of each benchmark and trial number of an allocation began."""

    def names_of(self, run: Run) -> tuple[str, str]:
        """Return benchmark and platform of a run, from its neighbours where it says neither."""
        benchmark, platform = run.benchmark, run.platform
        if run.allocation[0]:
            near = self.names.get(run.allocation, ("", ""))
            benchmark = benchmark or near[0]
            platform = platform or near[1] or _text(run.log.allocation.system)
            self.names.setdefault(run.allocation, (benchmark, platform))
        return benchmark, platform or _text(run.log.allocation.system)

    def cycle(self, run: Run, benchmark: str, report: Report) -> int:
        """Return the run's place in its allocation: its trial number, else the second it began."""
        began = run.began.at_us
        if run.log.trial is not None:
            first = self.trials.setdefault((run.allocation, benchmark, run.log.trial), began)
            if first == began:
                return max(run.log.trial[0] - 1, 0)
            number = run.log.trial[0]
            report.note(run.log.path, f"trial {number} of its allocation was run before")
        return began // _SECOND_US


def read(paths: Sequence[Path], job: str | None = None) -> tuple[Iterator[ImportedRun], Report]:
    """Read logs and folders of them; with *job*, all runs are attempts of that one."""
    report = Report()
    return distinct(_all_runs(paths, job, report)), report


def _all_runs(paths: Sequence[Path], job: str | None, report: Report) -> Iterator[ImportedRun]:
    files = files_under(paths, RESULTS, report)
    for folder, logs in groupby(files, key=lambda path: path.parent):
        yield from _of_folder(folder, logs, job, report)


def _of_folder(
    folder: Path, logs: Iterator[Path], job: str | None, report: Report
) -> Iterator[ImportedRun]:
    """Import the named runs, then those that died before their names, which neighbours have."""
    system = description(folder, report)
    neighbours = _Neighbours()
    nameless = []
    for path in logs:
        for run in _runs(path, system, report):
            if run.allocation[0] and not run.is_named:
                nameless.append(run)
            else:
                yield _imported(run, job, neighbours, report)
    for run in sorted(nameless, key=lambda run: not run.benchmark):
        yield _imported(run, job, neighbours, report)


def _runs(path: Path, beside: Mapping[str, Any], report: Report) -> Iterator[Run]:
    try:
        logs = read_logs(path, report)
    except Unreadable as error:
        report.miss(path, str(error))
        return
    placed = [(log, time) for log in logs if (time := timeline(log)) is not None]
    if not placed:
        line = next((log.line_in_seconds for log in logs if log.line_in_seconds), None)
        if line is None:
            report.miss(path, "no :::MLLOG record with an instant")
        else:
            report.refuse(path, line, _IN_SECONDS)
        return
    report.files += 1
    for log, time in placed:
        # The description that was written for people names one system alike in all its runs.
        system = {**filled_in(log.sysjson), **beside}
        names = (_text(log.values.get(f"submission_{what}")) for what in ("benchmark", "platform"))
        run = Run(log, time, system, *names)
        if log.line_in_seconds is not None:
            report.refuse(path, log.line_in_seconds, _IN_SECONDS)
        elif not run.is_settled:
            report.postpone(path, _UNSETTLED)
        else:
            yield run


_IN_SECONDS = "time_ms is in seconds, not in milliseconds, so nothing of this run is imported"
_UNSETTLED = (
    "it has neither its loop nor an end yet, so the name of its job is not certain: import it "
    "again when it is longer"
)


def _imported(run: Run, job: str | None, neighbours: _Neighbours, report: Report) -> ImportedRun:
    benchmark, platform = neighbours.names_of(run)
    name = job_name(run, benchmark, platform)
    if not benchmark and job is None:
        report.note(
            run.log.path,
            f"its log names no benchmark, so the name of its job, {name}, is provisional: import "
            "it together with the other runs of its allocation, or name it with --job",
        )
    common: WireEvent = {"job": job or name}
    at_begin = {"at": rfc3339(run.time.begin.at_us)}
    facts = [Fact({**common, "type": "job", **at_begin, **_facts(run, benchmark, platform)}, 0)]
    launch = run.log.allocation.slurm_id or ("" if job is None else name[:_LONGEST_LAUNCH])
    if launch:
        common["launch"] = launch
    if run.allocation[0]:
        common["cycle"] = neighbours.cycle(run, benchmark, report)
    facts += [Fact({**common, **fact.event}, fact.line) for fact in _attempt(run, report)]
    placed = [fact if fact.line else Fact(fact.event, run.time.begin.line) for fact in facts]
    return ImportedRun(run.log.path, job or name, identified("mlperf", placed))


def _attempt(run: Run, report: Report) -> Iterator[Fact]:
    log, time = run.log, run.time
    started: WireEvent = {"type": "attempt_started", "at": rfc3339(time.begin.at_us)}
    yield Fact({**started, **size(run.system), "attributes": _settings(log)})
    points = list(progress(time, log))
    yield from phase_edges(time, samples_done(points))
    evaluated, unfinished = evaluations(log)
    if unfinished:
        report.note(log.path, f"{unfinished} eval_start without eval_stop")
    yield from evaluation_spans(time, evaluated)
    if not log.allocation.slurm_id or log.trial == (1, 1):
        # Trials begin anew at step 0, which within one job would read as repeated training.
        yield from points
    last: WireEvent = {"at": rfc3339(time.end.at_us)}
    end = ending(log, launcher_saw_it=time.has_outer_stop)
    if end is None:
        yield Fact({"type": "heartbeat", **last}, time.end.line)
    else:
        yield Fact({"type": "attempt_ended", **last, **end}, time.end.line)


def job_name(run: Run, benchmark: str, platform: str) -> str:
    """Benchmark, platform and allocation or start: the same wherever the file lies."""
    began = re.sub(r"[-:]|\d{3}(?=Z)", "", rfc3339(run.began.at_us))
    slurm_id = run.log.allocation.slurm_id
    parts = (benchmark or "mlperf", platform, f"slurm{slurm_id}" if slurm_id else began)
    return "-".join(_slug(part) for part in parts if part)


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._]+", "-", text).strip("-.")[:60]


def _text(value: object) -> str:
    """A name from the log, empty if it is none or was never filled in."""
    return clean(value) if isinstance(value, str) and not is_placeholder(value) else ""


def _facts(run: Run, benchmark: str, platform: str) -> WireEvent:
    values, system = run.log.values, run.system
    facts = {
        "team": _text(values.get("submission_org")) or _text(system.get("submitter")),
        "model": benchmark,
        "cluster": _text(system.get("system_name")) or platform,
        "hardware": _text(system.get("accelerator_model_name")),
        "kind": "mlperf",
        "gpus": size(system).get("gpus"),
    }
    labels = {
        "framework": _text(system.get("framework")),
        "division": _text(values.get("submission_division")),
        "status": _text(values.get("submission_status")),
    }
    stated = {name: value for name, value in facts.items() if value}
    return {**stated, "labels": {name: value for name, value in labels.items() if value}}


def _settings(log: Log) -> dict[str, Any]:
    settings: dict[str, Any] = {"log": clean(log.path.name.removesuffix(".gz"))}
    for key in ("seed", "global_batch_size"):
        value = log.values.get(key)
        if isinstance(value, int) and abs(value) < 1 << 53:
            settings[key] = value
    if log.trial is not None:
        settings["trial"] = f"{log.trial[0]} of {log.trial[1]}"
    return settings
