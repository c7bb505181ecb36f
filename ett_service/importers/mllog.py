"""Logs of MLPerf Training as text: ``:::MLLOG`` records and what the launcher printed around them.

One file may hold several runs, as the output of a Slurm job does that works through its trials.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final

from ett_service.importers.importer import Report, clean

_MARK: Final = ":::MLLOG"
_FIRST_MS: Final = 946_684_800_000  #: 2000; what lies before is a clock that was never set
_LAST_MS: Final = 253_402_300_799_999  #: the end of the year 9999
_LONGEST_LINE: Final = 1 << 20
_SEARCHED: Final = 2000  #: characters of a line
_KEPT_ERRORS = 40
_LONGEST_ERROR = 300

_LAUNCHER_LINE = re.compile(
    r"RUNANDTIME_START (?P<start>\d{1,11})\b"
    r"|RUNANDTIME_STOP (?P<stop>\d{1,11})\b"
    r"|Beginning trial (?P<trial>\d{1,6}) of (?P<trials>\d{1,6})"
    r"|:::DLPAL \S+ (?P<dlpal>\d{1,20}) \d+ (?P<nodes>[^\s']+) \S+ (?P<system>[^\s']+)"
    r"|:::SYSJSON (?P<sysjson>\{.*\})"
    r"|\bSLURM_JOB_?ID[ =](?P<slurm>\d{1,20})"
    r"|\b(?:STEP |JOB |StepId=)(?P<step>\d{1,20})(?:\.\S+)?(?: ON\b|\s*$)"
)
_ERROR_LINE = re.compile(
    r"slurmstepd: error:|srun: error:|\b[A-Za-z_.]*(?:Error|Exception)\b|\bXid\b|oom[-_]kill"
)

Trial = tuple[int, int]
"""Which run of its allocation, counted from 1, and of how many."""


@dataclass(frozen=True, slots=True)
class Record:
    """One ``:::MLLOG`` line; ``at_us`` is None where its timestamp says nothing."""

    at_us: int | None
    key: str
    value: Any
    metadata: Mapping[str, Any]


@dataclass(slots=True)
class Log:
    """One run as its log tells it, nothing concluded yet."""

    path: Path
    records: list[Record] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)  #: lines that speak of one, the first few
    last_errors: list[str] = field(default_factory=list)  #: those after the last record
    outer_start_us: int | None = None
    outer_stop_us: int | None = None
    slurm_id: str = ""
    nodes: str = ""  #: the list of the allocation's nodes, as Slurm writes it
    system: str = ""  #: the launcher's name of the system
    trial: Trial | None = None
    sysjson: dict[str, Any] = field(default_factory=dict)
    run_stop_us: int | None = None  #: the latest

    def times(self, key: str) -> list[int]:
        """The instants of all records with this key."""
        return [r.at_us for r in self.records if r.key == key and r.at_us is not None]

    def value(self, key: str) -> Any:
        """The first value that the run gave for this key, None if it gave none."""
        return next((r.value for r in self.records if r.key == key), None)

    @property
    def began(self) -> bool:
        """Whether there is a run in it, and not only remarks."""
        return self.outer_start_us is not None or any(
            r.key in ("init_start", "run_start") for r in self.records
        )

    @property
    def stopped_us(self) -> int | None:
        """The instant after which what begins is the next run; None while this one goes on."""
        return self.outer_stop_us or self.run_stop_us

    def take(self, record: Record) -> None:
        """Add a record."""
        self.records.append(record)
        self.last_errors.clear()
        if record.key == "run_stop" and record.at_us is not None:
            self.run_stop_us = max(record.at_us, self.run_stop_us or 0)


def read_logs(path: Path, report: Report) -> list[Log]:
    """Read one file. Raises ``OSError`` if it cannot be read."""
    logs = [Log(path)]
    with path.open("rb") as file:
        for number, line in _lines(file):
            if _MARK in line:
                for record in _records(line, path, number, report):
                    _take_record(logs, record)
            else:
                _take_line(logs, line)
    return _with_remarks_joined(logs)


def _lines(file: BinaryIO) -> Iterator[tuple[int, str]]:
    """Numbered lines; what is no text may be one without end and comes in pieces."""
    number = 1
    while piece := file.readline(_LONGEST_LINE):
        yield number, piece.decode("utf-8", "replace")
        number += piece.endswith(b"\n")


def _records(line: str, path: Path, number: int, report: Report) -> Iterator[Record]:
    """Ranks write at once, so one line may hold several records, whole or cut."""
    for marked in re.finditer(_MARK, line):
        record = _parsed(line, marked.end())
        if isinstance(record, str):
            report.skip(path, number, record)
            continue
        at_us = _instant_us(record.get("time_ms"))
        if at_us is None:
            report.skip(path, number, clean(f"{record['key']} has no usable time_ms", 80))
        else:
            report.records += 1
        metadata = record.get("metadata")
        yield Record(
            at_us,
            record["key"],
            record.get("value"),
            metadata if isinstance(metadata, dict) else {},
        )


_JSON = json.JSONDecoder()


def _parsed(line: str, place: int) -> dict[str, Any] | str:
    """The JSON object that follows the mark, or why there is none."""
    begin = line.find("{", place)
    if begin < 0 or line[place:begin].strip():
        return "no JSON object after :::MLLOG"
    try:
        record, _ = _JSON.raw_decode(line, begin)
    except (ValueError, RecursionError):
        return "the JSON after :::MLLOG is truncated or malformed"
    if not isinstance(record.get("key"), str):
        return "a record without a key"
    return dict(record)


def _instant_us(time_ms: object) -> int | None:
    if isinstance(time_ms, bool) or not isinstance(time_ms, int | float):
        return None
    return int(time_ms * 1000) if _FIRST_MS <= time_ms <= _LAST_MS else None


def _take_record(logs: list[Log], record: Record) -> None:
    log = logs[-1]
    opens = record.key in ("cache_clear", "init_start") or record.key.startswith("submission_")
    if opens and record.at_us is not None:
        stopped = log.stopped_us
        if stopped is not None and record.at_us > stopped:
            log = _next(logs)
    log.take(record)


def _take_line(logs: list[Log], line: str) -> None:
    match = _LAUNCHER_LINE.search(line)
    if match is not None:
        _take_launcher_line(logs, match)
    is_trace_of_shell = line.startswith("+")
    if not is_trace_of_shell and _ERROR_LINE.search(line, 0, _SEARCHED):
        for errors in (logs[-1].errors, logs[-1].last_errors):
            if len(errors) < _KEPT_ERRORS:
                errors.append(clean(line, _LONGEST_ERROR))


def _take_launcher_line(logs: list[Log], match: re.Match[str]) -> None:
    log = logs[-1]
    words = {name: text for name, text in match.groupdict().items() if text is not None}
    if "trial" in words:
        trial = (int(words["trial"]), int(words["trials"]))
        if log.stopped_us is not None or log.trial not in (None, trial):
            log = _next(logs)
        log.trial = trial
    elif "start" in words:
        start_us = int(words["start"]) * 1_000_000
        if log.outer_start_us not in (None, start_us):
            log = _next(logs)
        log.outer_start_us = start_us or None
    elif "stop" in words:
        log.outer_stop_us = int(words["stop"]) * 1_000_000 or None
    elif "sysjson" in words:
        log.sysjson = log.sysjson or _object(words["sysjson"])
    elif "dlpal" in words:
        log.slurm_id, log.nodes, log.system = words["dlpal"], words["nodes"], words["system"]
    else:
        log.slurm_id = log.slurm_id or words.get("slurm", "") or words.get("step", "")


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return dict(value) if isinstance(value, dict) else {}


def _next(logs: list[Log]) -> Log:
    before = logs[-1]
    logs.append(
        Log(before.path, slurm_id=before.slurm_id, nodes=before.nodes, system=before.system)
    )
    return logs[-1]


def _with_remarks_joined(logs: list[Log]) -> list[Log]:
    """What looked like a next run but never began belongs to the one before."""
    joined = [logs[0]]
    for log in logs[1:]:
        if log.began:
            joined.append(log)
        else:
            for record in log.records:
                joined[-1].take(record)
            joined[-1].errors += log.errors
            joined[-1].last_errors += log.last_errors
    return joined
