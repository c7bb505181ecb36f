"""What torchrun's agents leave behind, to wire events: error files, and events as JSON lines.

torch writes the error file of a worker with its instant, but its agents' events with a timestamp
of 0: their lines are read where something has put a time before them.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import tzinfo
from functools import partial
from pathlib import Path
from typing import Any, Final

from ett_service.core.intervals import SECOND_US, rfc3339
from ett_service.importers.files import blocks_of, pieces_of, runs_of
from ett_service.importers.importer import (
    Fact,
    ImportedRun,
    Report,
    WireEvent,
    clean,
    identified,
)
from ett_service.importers.logs.local_times import LocalTimes

FILES: Final = ("*error*.json", "*.jsonl", "*events*.log", "*.jsonl.gz")
"""The files that are looked for in a folder."""

_STATUS: Final = "torchelastic.worker.status."
_STATUS_KEY: Final = _STATUS.encode()
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?")
_ATTEMPT = re.compile(r"(?:^|/)attempt_(\d{1,9})/(\d{1,9})/[^/]*$")
_RAISED = re.compile(r"^((?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*): ", re.MULTILINE)
_STAGES: Final = {"RENDEZVOUS": "rendezvous", "ASSIGN_WORKER_RANKS": "assign_worker_ranks"}
_LONGEST_MESSAGE: Final = 2000
_LONGEST_RECORD: Final = 1 << 20
_FIRST_S: Final = 946_684_800  #: 2000; what lies before is a clock that was never set
_LAST_S: Final = 253_402_300_799


def read(
    paths: Sequence[Path], job: str | None = None, zone: tzinfo | None = None
) -> tuple[Iterator[ImportedRun], Report]:
    """Read error files, event logs and folders of them; prefixed times are those of *zone*."""
    return runs_of(paths, FILES, partial(_of_file, job=job, zone=zone))


def _of_file(
    path: Path, report: Report, *, job: str | None, zone: tzinfo | None
) -> Iterator[ImportedRun]:
    unread = len(report.unread)
    facts = list(_facts(path, LocalTimes(path, zone, report), report))
    if not facts:
        if len(report.unread) == unread:
            report.miss(path, "no record of torchelastic with an instant")
        return
    report.files += 1
    name = job or _job_name(path, facts)
    named = [Fact({"job": name, **fact.event}, fact.line) for fact in facts]
    yield ImportedRun(path, name, identified("torchelastic", named))


def _job_name(path: Path, facts: Sequence[Fact]) -> str:
    """The folder that torchrun made for its run, else the second of the first instant."""
    attempt = _ATTEMPT.search(path.as_posix())
    if attempt is not None:
        return f"torchelastic-{clean(path.parents[2].name) or 'run'}"[:200]
    began = min(fact.event["at"] for fact in facts)
    return f"torchelastic-{re.sub('[-:]|[.][0-9]*', '', began)}"


def _facts(path: Path, times: LocalTimes, report: Report) -> Iterator[Fact]:
    whole = _small_json(path)
    if whole is not None and "message" in whole and "name" not in whole:
        report.records += 1
        yield from _of_error_file(path, whole, report)
        return
    without_time = 0
    for number, piece in pieces_of(path):
        record = _record(path, number, piece, report)
        if record is None:
            continue
        at_us = _instant_us(record, piece, number, times)
        if at_us is None:
            without_time = without_time or number
        else:
            yield from _of_event(record, at_us, number)
    if without_time:
        report.miss(path, f"line {without_time}: {_NO_INSTANT}")


_NO_INSTANT: Final = (
    "the agent's events have no instant (timestamp 0), so those that nothing has put a time "
    "before are not imported; import the error files of its log folder"
)


def _small_json(path: Path) -> dict[str, Any] | None:
    """Return the one object that a small file is, else None."""
    pieces, size = [], 0
    for _, block in blocks_of(path):
        pieces.append(block)
        size += len(block)
        if size > _LONGEST_RECORD:
            return None
    try:
        whole = json.loads(b"".join(pieces).decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return whole if isinstance(whole, dict) else None


def _of_error_file(path: Path, whole: Mapping[str, Any], report: Report) -> Iterator[Fact]:
    error = (
        whole["message"] if isinstance(whole["message"], dict) else {"message": whole["message"]}
    )
    extra = error.get("extraInfo")
    extra = extra if isinstance(extra, dict) else {}
    seconds = _seconds(extra.get("timestamp"))
    if seconds is None:
        report.miss(path, "the error file has no timestamp of its own")
        return
    message = str(error.get("message") or "")
    attempt = _ATTEMPT.search(path.as_posix())
    ended: WireEvent = {"type": "attempt_ended", "at": rfc3339(round(seconds * SECOND_US))}
    if attempt is not None:
        ended |= {"cycle": int(attempt[1]), "attributes": {"local_rank": int(attempt[2])}}
    yield Fact({**ended, "outcome": "failed", **_evidence(message, extra.get("py_callstack"))}, 1)


def _evidence(message: str, callstack: object) -> WireEvent:
    """Return what was raised, in the members of an end."""
    text = "\n".join(part for part in (message, callstack) if isinstance(part, str) and part)
    evidence: WireEvent = {"message": text[:_LONGEST_MESSAGE]} if text else {}
    raised = _RAISED.findall(text)
    return {**evidence, "exception": raised[0]} if raised else evidence


def _record(path: Path, number: int, piece: bytes, report: Report) -> dict[str, Any] | None:
    """Return a record of a worker's state; others are only counted."""
    start = piece.find(b"{")
    if start < 0 or piece.find(_STATUS_KEY, start) < 0:
        is_other = start >= 0 and piece.rstrip().endswith(b"}")
        report.records += is_other
        if not is_other and not piece.isspace():
            report.skip(path, number, "no record of torchelastic")
        return None
    try:
        record = json.loads(piece[start:].decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        report.skip(path, number, "its JSON is cut or damaged")
        return None
    report.records += 1
    return record if isinstance(record, dict) else None


def _instant_us(
    record: Mapping[str, Any], piece: bytes, number: int, times: LocalTimes
) -> int | None:
    seconds = _seconds(record.get("timestamp"))
    if seconds is not None:
        return round(seconds * SECOND_US)
    prefix = _TIME.search(piece.partition(b"{")[0].decode("utf-8", "replace"))
    return times.at_us(prefix[0], number) if prefix is not None else None


def _seconds(value: object) -> float | None:
    try:
        seconds = float(value) if isinstance(value, int | float | str) else 0.0
    except ValueError:
        return None
    return seconds if _FIRST_S <= seconds < _LAST_S else None


def _of_event(record: Mapping[str, Any], at_us: int, line: int) -> Iterator[Fact]:
    name, metadata = str(record.get("name")), record.get("metadata")
    if not name.startswith(_STATUS) or not isinstance(metadata, dict):
        return
    state = name.removeprefix(_STATUS)
    common = {"at": rfc3339(at_us), **_place(metadata)}
    if record.get("source") == "WORKER":
        if state == "START":
            yield Fact({"type": "attempt_started", **common}, line)
        return
    common.pop("rank", None)
    if state in _STAGES:
        length_ms = metadata.get("duration_ms")
        length_us = round(length_ms * 1000) if isinstance(length_ms, int | float) else 0
        span = {"type": "span", "start": rfc3339(at_us - length_us), "phase": "launcher_init"}
        yield Fact({**span, **common, "stage": _STAGES[state]}, line)
    elif state == "SUCCEEDED":
        yield Fact({"type": "attempt_ended", **common, "outcome": "completed"}, line)
    elif state == "FAILED":
        failed = {"type": "attempt_ended", **common, "outcome": "failed"}
        yield Fact({**failed, **_evidence(str(metadata.get("raw_error") or ""), None)}, line)


def _place(metadata: Mapping[str, Any]) -> WireEvent:
    place: WireEvent = {}
    names = (("cycle", "agent_restarts"), ("rank", "global_rank"))
    for member, name in names:
        value = metadata.get(name)
        if isinstance(value, int) and 0 <= value < 1 << 31:
            place[member] = value
    host = metadata.get("hostname")
    if isinstance(host, str) and host:
        place["host"] = clean(host)
    return place
