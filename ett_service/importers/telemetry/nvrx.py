"""NVRx's cycle files and logs, of its launcher and of restarts in process, to wire events.

Neither says what the trainer does: they give attempts, their starts, failures and restarts, which
meet the trainer's own events in one job.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from sys import intern
from typing import Any, Final, NamedTuple

import msgspec

from ett_service.core.intervals import rfc3339
from ett_service.importers.files import Unreadable, blocks_of, files_under, json_objects, lines_in
from ett_service.importers.importer import (
    Fact,
    ImportedRun,
    Report,
    distinct,
    identified,
    job_name,
    word,
)
from ett_service.importers.instants import microseconds
from ett_service.importers.telemetry import nvrx_inprocess

FILES: Final = ("cycle_info.*", "nvrx_log_*", "*.log", "*.out", "*.log.gz", "*.out.gz")
"""The files that are looked for in a folder."""

_CYCLES: Final = "cycle_info."
_LONGEST_LAUNCH: Final = 100
_MOST_ORDINAL: Final = 2**31 - 1
_SLURM_ID = re.compile(r"(?:^|[-_.])(\d{3,12})(?:\.(?:out|log|gz))+$")
_EVENT = re.compile(
    rb"- Cycle: (?P<cycle>\d{1,9}) Event: (?P<event>[a-z_]+) Node: (?P<node>\S+) "
    rb"Rank: \S+ Time: (?P<at>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{1,6}) UTC"
)
_SPANS: Final = (
    ("rendezvous_started", "worker_start_completed", None),
    ("rendezvous_started", "rendezvous_completed", "rendezvous"),
    ("rendezvous_started", "health_check_completed", "health_check"),
    ("worker_start_started", "worker_start_completed", "worker_launch"),
    ("attribution_get_started", "attribution_get_completed", "attribution"),
)
"""Parts of starting by the events that bound them, on each node; None for all of it."""
_KNOWN: Final = frozenset(
    {"failure_detected", "worker_terminated", *(name for span in _SPANS for name in span[:2])}
)


class CycleFile(msgspec.Struct):
    """A file ``cycle_info.JOB.ATTEMPT.CYCLE``."""

    job_id: str
    attempt_index: int
    cycle_number: int
    cycle_start_time: str
    cycle_end_time: str = ""
    active_nodes: str = ""


class _Cycle(NamedTuple):
    path: Path
    line: int
    file: CycleFile


class LauncherEvent(NamedTuple):
    """An event of the launcher on one node."""

    at_us: int
    line: int
    cycle: int
    event: str
    node: str


@dataclass(slots=True)
class _Node:
    """The latest instant of each event on one node, in one cycle."""

    seen: dict[str, int] = field(default_factory=dict)
    failed_us: int | None = None


def read(paths: Sequence[Path], job: str | None = None) -> tuple[Iterator[ImportedRun], Report]:
    """Read cycle files, launcher logs and folders of them; with *job*, all are of that one."""
    report = Report()
    return distinct(_all_runs(paths, job, report)), report


def _all_runs(paths: Sequence[Path], job: str | None, report: Report) -> Iterator[ImportedRun]:
    cycles: list[_Cycle] = []
    for path in files_under(paths, FILES, report):
        try:
            if path.name.startswith(_CYCLES):
                cycles += _cycle_files(path, report)
                continue
            log = _of_lines(path, report)
        except Unreadable as error:
            report.miss(path, str(error))
            continue
        if log is not None:
            report.files += 1
            yield _of_log(path, log, job)
        else:
            report.miss(path, "no event of NVRx's launcher, and no restart in process")
    yield from _of_cycles(cycles, job, report)


def _cycle_files(path: Path, report: Report) -> Iterator[_Cycle]:
    for line, file in json_objects(path, report, msgspec.json.Decoder(CycleFile).decode):
        if not (
            0 <= file.attempt_index <= _MOST_ORDINAL and 0 <= file.cycle_number <= _MOST_ORDINAL
        ):
            report.skip(path, line, "no attempt and cycle that can be counted")
            continue
        report.files += 1
        report.records += 1
        yield _Cycle(path, line, file)


def _of_cycles(cycles: Sequence[_Cycle], job: str | None, report: Report) -> Iterator[ImportedRun]:
    """A cycle that another follows in its attempt was ended by a failure."""
    ordinals: dict[tuple[str, int], int] = {}
    for _, _, file in cycles:
        key = file.job_id, file.attempt_index
        ordinals[key] = max(file.cycle_number, ordinals.get(key, 0))
    for path, line, file in cycles:
        start_us = _utc(file.cycle_start_time)
        if start_us is None:
            report.skip(path, line, "no cycle_start_time in UTC")
            continue
        is_last = file.cycle_number == ordinals[file.job_id, file.attempt_index]
        name = job or _slurm_job(file.job_id)
        launch = word(file.job_id, _LONGEST_LAUNCH)
        members: dict[str, Any] = {"job": name, **({"launch": launch} if launch else {})}
        members |= {"attempt": file.attempt_index, "cycle": file.cycle_number}
        facts = [
            Fact({**event, **members}, line)
            for event in _events_of(file, start_us, is_last=is_last)
        ]
        yield ImportedRun(path, name, identified("nvrx", facts))


def _events_of(file: CycleFile, start_us: int, *, is_last: bool) -> Iterator[dict[str, Any]]:
    hosts = count_nodes(file.active_nodes)
    size = {"hosts": hosts} if hosts else {}
    yield {"type": "attempt_started", "at": rfc3339(start_us), **size}
    end_us = _utc(file.cycle_end_time)
    if end_us is not None:
        end = {"at": rfc3339(max(end_us, start_us))}
        if is_last:
            yield {"type": "heartbeat", **end}
        else:
            yield {
                "type": "attempt_ended",
                **end,
                "outcome": "failed",
                "reason": "another cycle follows",
            }


def _slurm_job(job_id: str) -> str:
    """A job that only Slurm names is called as the client calls it."""
    return job_name(f"slurm-{job_id}" if job_id.isdigit() else job_id, "nvrx")


def _utc(text: str) -> int | None:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return microseconds(at) if at.tzinfo is not None else None


_RANGES = re.compile(r"\[([\d,\s-]{1,10000})\]")
_MOST_HOSTS: Final = 1_000_000


def count_nodes(nodes: str) -> int:
    """Count the nodes of a list such as ``n[001-004,007],m1``; 0 if it cannot be counted."""
    count = 0
    for name in filter(None, re.split(r",(?![^\[]*\])", nodes)):
        factor = 1
        for ranges in _RANGES.findall(name):
            factor *= sum(map(_length, ranges.split(",")))
        count += factor
    return count if count <= _MOST_HOSTS else 0


def _length(part: str) -> int:
    first, _, last = part.strip().partition("-")
    if not first.isdigit() or (last and not last.isdigit()):
        return 0
    return max(0, int(last or first) - int(first) + 1)


_EVENT_MARK: Final = b" Event: "


def _candidates(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that may be events: few of a log are."""
    for first, block in blocks_of(path):
        for mark in (_EVENT_MARK, nvrx_inprocess.MARK):
            if mark in block:
                yield from (each for each in lines_in(first, block) if mark in each[1])


def _of_lines(path: Path, report: Report) -> Iterator[Fact] | None:
    """Return what a log says, of whichever of the two restarts something; None for nothing."""
    moments: list[LauncherEvent] = []
    records: list[nvrx_inprocess.RankException] = []
    for line, piece in _candidates(path):
        record = nvrx_inprocess.record_of(line, piece)
        if record is not None:
            report.records += 1
            records.append(record)
        elif (moment := _moment(path, line, piece, report)) is not None:
            report.records += 1
            moments.append(moment)
    if moments and records:
        report.note(path, "restarts in process inside cycles of the launcher are left out")
        records = []
    if moments:
        return _facts(moments)
    restarts = list(nvrx_inprocess.restarts(records))
    return iter(restarts) if restarts else None


def _moment(path: Path, line: int, piece: bytes, report: Report) -> LauncherEvent | None:
    match = _EVENT.search(piece)
    if match is None:
        if b"- Cycle: " in piece and _EVENT_MARK in piece:
            report.skip(path, line, "an event of NVRx without its instant")
        return None
    event = intern(match["event"].decode())
    at = _utc(match["at"].decode() + "+00:00")
    if at is None or event not in _KNOWN:
        report.skip(path, line, "no instant" if at is None else f"an unknown event {event}")
        return None
    node = intern(match["node"].decode("utf-8", "replace"))
    return LauncherEvent(at, line, int(match["cycle"]), event, node)


def _of_log(path: Path, facts: Iterable[Fact], job: str | None) -> ImportedRun:
    slurm_id = _SLURM_ID.search(path.name)
    own = f"slurm-{slurm_id[1]}" if slurm_id else f"nvrx-{path.name.split('.')[0]}"
    name = job or job_name(own, "nvrx")
    members = {"job": name, **({"launch": slurm_id[1]} if slurm_id else {})}
    whole = (Fact({**fact.event, **members}, fact.line) for fact in facts)
    return ImportedRun(path, name, identified("nvrx", whole))


def _facts(moments: list[LauncherEvent]) -> Iterator[Fact]:
    """The launcher counts a failure as it detects it, so that its cycle is the one that follows."""
    nodes: dict[tuple[int, str], _Node] = {}
    moments.sort(reverse=True)
    while moments:
        moment = moments.pop()  # what is told needs not be held
        at = {"at": rfc3339(moment.at_us), "cycle": moment.cycle}
        node = nodes.setdefault((moment.cycle, moment.node), _Node())
        if moment.event in ("failure_detected", "worker_terminated"):
            yield from _failure(moment, node)
        elif moment.event == "rendezvous_started":
            yield Fact({"type": "attempt_started", **at}, moment.line)
        else:
            yield Fact({"type": "heartbeat", **at, "host": word(moment.node)}, moment.line)
        for begin, end, stage in _SPANS:
            if moment.event == end and begin in node.seen:
                span = {"type": "span", "start": rfc3339(node.seen[begin]), **at}
                part = {"phase": "launcher_init", **({"stage": stage} if stage else {})}
                yield Fact({**span, **part}, moment.line)
        node.seen[moment.event] = moment.at_us


def _failure(moment: LauncherEvent, node: _Node) -> Iterator[Fact]:
    at = {"at": rfc3339(moment.at_us), "cycle": max(0, moment.cycle - 1)}
    if moment.event == "failure_detected":
        node.failed_us = moment.at_us
    elif node.failed_us is None:
        yield Fact({"type": "heartbeat", **at, "cycle": moment.cycle}, moment.line)
        return
    else:
        for stage in ({}, {"stage": "teardown"}):
            span = {"type": "span", "start": rfc3339(node.failed_us), **at, "phase": "shutdown"}
            yield Fact({**span, **stage}, moment.line)
    reason = f"NVRx: failure detected on {word(moment.node, 100)}"
    ended = {"type": "attempt_ended", **at, "outcome": "failed", "reason": reason}
    yield Fact(ended, moment.line)
