"""Logs of MLPerf Training as text: ``:::MLLOG`` records and what the launcher printed around them.

One file may hold several runs, as the output of a Slurm job does that works through its trials.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from ett_service.importers.files import Line, lines_of
from ett_service.importers.importer import Report, clean
from ett_service.importers.logged_run import Allocation, Log, LogLine, Moment

_MARK: Final = ":::MLLOG"
_FIRST_MS: Final = 946_684_800_000  #: 2000; what lies before is a clock that was never set
_LAST_MS: Final = 253_402_300_799_999  #: the end of the year 9999
_SEARCHED: Final = 2000  #: characters of a line
_KEPT_ERRORS = 40
_LONGEST_ERROR = 300

_WORD = r"(?:'(?:[^']*)'|\"(?:[^\"]*)\"|\S+)"
_LAUNCHER_LINE = re.compile(
    r"RUNANDTIME_START (?P<start>\d{10,11})\b"
    r"|RUNANDTIME_STOP (?P<stop>\d{10,11})\b"
    r"|Beginning trial (?P<trial>\d{1,6}) of (?P<trials>\d{1,6})"
    rf"|:::DLPAL {_WORD} (?P<dlpal>\d{{1,20}}) \d+ (?P<nodes>{_WORD}) {_WORD} (?P<system>{_WORD})"
    r"|:::SYSJSON (?P<sysjson>\{.*\})"
    r"|\bSLURM_JOB_?ID[ =](?P<slurm>\d{1,20})"
    r"|\b(?:STEP |JOB |StepId=)(?P<step>\d{1,20})(?:\.\S+)?(?: ON\b|\s*$)"
)
_LONGEST_LAUNCHER_LINE: Final = 1 << 16  #: a description of a system is one
_ERROR_LINE = re.compile(
    r"slurmstepd: error:|srun: error:|(?:Error|Exception)\b|\bXid\b|oom[-_]kill"
)


def read_logs(path: Path, report: Report) -> list[Log]:
    """Read one file. Raises ``Unreadable`` if it cannot be read."""
    logs = [Log(path)]
    for line in lines_of(path):
        if _MARK in line.text:
            _take_records(logs, line, path, report)
        else:
            _take_line(logs, line)
    return _with_remarks_joined(logs)


def _take_records(logs: list[Log], line: Line, path: Path, report: Report) -> None:
    """Ranks write at once, so one line may hold several records, whole or cut."""
    text, end = line.text, 0
    while (begin := text.find(_MARK, end)) >= 0:
        end = begin + len(_MARK)
        sent = _parsed(text, end)
        if isinstance(sent, str):
            report.skip(path, line.number, sent)
            continue
        at_us = _instant_us(sent.time_ms)
        if at_us is None:
            report.skip(path, line.number, clean(f"{sent.key} has no usable time_ms", 80))
        else:
            report.records += 1
        about = sent.metadata if isinstance(sent.metadata, dict) else {}
        in_seconds = at_us is None and _is_in_seconds(sent.time_ms)
        _take_record(logs, LogLine(at_us, sent.key, sent.value, about, line.number, in_seconds))


class _Sent(Struct):
    """What is read of a record's JSON."""

    key: Any = None
    time_ms: Any = None
    value: Any = None
    metadata: Any = None


_SENT: Final = msgspec.json.Decoder(_Sent)
_JSON: Final = json.JSONDecoder()


def _parsed(line: str, place: int) -> _Sent | str:
    """The JSON object that follows the mark, or why there is none."""
    begin = line.find("{", place)
    if begin < 0 or line[place:begin].strip():
        return "no JSON object after :::MLLOG"
    try:
        sent = _SENT.decode(line[begin:])
    except (ValueError, RecursionError):  # most often another record follows
        try:
            record, _ = _JSON.raw_decode(line, begin)
        except (ValueError, RecursionError):
            return "the JSON after :::MLLOG is truncated or malformed"
        sent = _Sent(*map(record.get, _Sent.__struct_fields__))
    return sent if isinstance(sent.key, str) else "a record without a key"


def _instant_us(time_ms: object) -> int | None:
    if isinstance(time_ms, bool) or not isinstance(time_ms, int | float):
        return None
    return int(time_ms * 1000) if _FIRST_MS <= time_ms <= _LAST_MS else None


def _is_in_seconds(time_ms: object) -> bool:
    return isinstance(time_ms, int | float) and _FIRST_MS <= time_ms * 1000 <= _LAST_MS


def _take_record(logs: list[Log], record: LogLine) -> None:
    at_us, stopped_us = record.at_us, logs[-1].stopped_us
    opens = record.key in ("cache_clear", "init_start") or record.key.startswith("submission_")
    if opens and at_us is not None and stopped_us is not None and at_us > stopped_us:
        _next(logs)
    logs[-1].take(record)


def _take_line(logs: list[Log], line: Line) -> None:
    match = _LAUNCHER_LINE.search(line.text, 0, _LONGEST_LAUNCHER_LINE)
    is_trace_of_shell = line.text.startswith("+")
    if match is not None:
        _take_launcher_line(logs, match, line, is_trace_of_shell)
    if not is_trace_of_shell and _ERROR_LINE.search(line.text, 0, _SEARCHED):
        for errors in (logs[-1].errors, logs[-1].last_errors):
            if len(errors) < _KEPT_ERRORS:
                errors.append(clean(line.text, _LONGEST_ERROR))


def _take_launcher_line(
    logs: list[Log], match: re.Match[str], line: Line, is_trace_of_shell: bool
) -> None:
    words = {name: text for name, text in match.groupdict().items() if text is not None}
    if "start" in words or "stop" in words:
        _take_window(logs, words, line)
    elif not line.is_whole:
        return  # its numbers and names may go on
    elif "trial" in words:
        trial = (int(words["trial"]), int(words["trials"]))
        log = logs[-1]
        if log.stopped_us is not None or log.trial not in (None, trial):
            log = _next(logs)
        log.trial = trial
    elif "sysjson" in words:
        logs[-1].sysjson = logs[-1].sysjson or _object(words["sysjson"])
    elif not is_trace_of_shell:
        _take_allocation(logs[-1], words)


def _take_window(logs: list[Log], words: Mapping[str, str], line: Line) -> None:
    log = logs[-1]
    if "stop" in words:
        log.outer_stop = Moment(int(words["stop"]) * 1_000_000, line.number)
        return
    start_us = int(words["start"]) * 1_000_000
    if log.outer_start is not None:
        if log.outer_start.at_us == start_us:
            return
        log = _next(logs)
    log.outer_start = Moment(start_us, line.number)
    log.began = True


def _take_allocation(log: Log, words: Mapping[str, str]) -> None:
    """Learn where the run is. What is said only once its loop began is of the next runs alone."""
    allocation = log.next_allocation
    if "dlpal" in words:
        nodes, system = (words[name].strip("'\"") for name in ("nodes", "system"))
        allocation = Allocation(words["dlpal"], nodes, system)
    elif not allocation.slurm_id:
        allocation = allocation._replace(slurm_id=words.get("slurm", "") or words.get("step", ""))
    log.next_allocation = allocation
    if not log.has_loop and log.stopped_us is None:
        log.allocation = allocation


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return dict(value) if isinstance(value, dict) else {}


def _next(logs: list[Log]) -> Log:
    allocation = logs[-1].next_allocation
    logs.append(Log(logs[-1].path, allocation, allocation))
    return logs[-1]


def _with_remarks_joined(logs: list[Log]) -> list[Log]:
    """What looked like a next run but never began belongs to the one before."""
    joined = [logs[0]]
    for log in logs[1:]:
        if log.began:
            joined.append(log)
        else:
            joined[-1].join(log)
    return joined
