"""Logs of MLPerf Training as text: ``:::MLLOG`` records and what the launcher printed around them.

One file may hold several runs, as the output of a Slurm job does that works through its trials.
Of a run only what it may be asked for is kept, so that a long log needs little memory.
"""

import json
import re
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Struct

from ett_service.importers.files import Line, lines_of
from ett_service.importers.importer import Report, clean

LARGEST: Final = (1 << 53) - 1
"""Counts go no further."""

_MARK: Final = ":::MLLOG"
_FIRST_MS: Final = 946_684_800_000  #: 2000; what lies before is a clock that was never set
_LAST_MS: Final = 253_402_300_799_999  #: the end of the year 9999
_SEARCHED: Final = 2000  #: characters of a line
_KEPT_ERRORS = 40
_LONGEST_ERROR = 300
_MOST_COUNTS = 1 << 17

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
_ASKED: Final = frozenset(
    {
        "submission_benchmark", "submission_platform", "submission_org", "submission_division",
        "submission_status", "status", "seed", "global_batch_size",
    }
)  # fmt: skip
"""Keys whose first value is kept."""

_EDGES: Final = frozenset({"init_start", "run_start", "run_stop"})
_TRAINING: Final = frozenset(
    {"block_start", "block_stop", "epoch_start", "epoch_stop", "tracked_stats"}
)
TRAINING: Final = "training"
"""The key under which the instants of all records of training are kept."""

_PLACED: Final = _EDGES | {"eval_start", "eval_stop"}
_NUMBERS: Final = ("epoch_num", "samples_count", "step_num")

Trial = tuple[int, int]
"""Which run of its allocation, counted from 1, and of how many."""


class Moment(NamedTuple):
    """An instant in microseconds, and the line that names it."""

    at_us: int
    line: int


class LogLine(Struct, frozen=True, gc=False):
    """One ``:::MLLOG`` line; ``at_us`` is None where its timestamp says nothing."""

    at_us: int | None
    key: str
    value: Any
    metadata: Mapping[str, Any]
    line: int = 0
    in_seconds: bool = False  #: whether the timestamp would be one in seconds


class EvaluationEdge(NamedTuple):
    """The begin or end of an evaluation; edges order by time, begins first."""

    at_us: int
    is_stop: bool
    line: int
    number: tuple[str, float] | None  #: what it calls itself, such as its epoch


class Count(NamedTuple):
    """Samples and steps that the run had trained on; -1 where it does not say."""

    at_us: int
    samples: int
    step: int
    line: int


class Stop(NamedTuple):
    """What the latest ``run_stop`` says."""

    at_us: int  #: 0 where it has no instant
    status: Any
    value: Any


class Allocation(NamedTuple):
    """Where the launcher says that it runs; empty where it does not."""

    slurm_id: str = ""
    nodes: str = ""  #: the list of the allocation's nodes, as Slurm writes it
    system: str = ""  #: the launcher's name of the system


NOWHERE: Final = Allocation()
"""Where a run is of which no launcher says so."""


@dataclass(slots=True)
class Log:
    """One run as its log tells it, nothing concluded yet."""

    path: Path
    allocation: Allocation = NOWHERE
    next_allocation: Allocation = NOWHERE  #: of the run that follows in the file
    records: int = 0
    first: Moment | None = None  #: the first instant of a record that the file names
    values: dict[str, Any] = field(default_factory=dict)  #: the first of each key
    begins: dict[str, Moment] = field(default_factory=dict)  #: the earliest of each edge's key
    ends: dict[str, Moment] = field(default_factory=dict)  #: and the latest; "" is any key
    evaluations: list[EvaluationEdge] = field(default_factory=list)
    counts: "array[int]" = field(default_factory=lambda: array("q"))
    stop: Stop | None = None
    line_in_seconds: int | None = None  #: the first that names a time in seconds
    errors: list[str] = field(default_factory=list)  #: lines that speak of one, the first few
    last_errors: list[str] = field(default_factory=list)  #: those after the last record
    outer_start: Moment | None = None
    outer_stop: Moment | None = None
    trial: Trial | None = None
    sysjson: dict[str, Any] = field(default_factory=dict)
    began: bool = False  #: whether there is a run in it, and not only remarks
    has_loop: bool = False  #: whether it says that its loop began

    @property
    def stopped_us(self) -> int | None:
        """The instant after which what begins is the next run; None while this one goes on."""
        stop = self.outer_stop or self.ends.get("run_stop")
        return None if stop is None else stop.at_us

    def progress(self) -> list[Count]:
        """Return what records say of samples and steps, in order of time."""
        number = iter(self.counts)
        return sorted(map(Count._make, zip(number, number, number, number, strict=True)))

    def take(self, record: LogLine) -> None:
        """Add a record."""
        key, metadata = record.key, record.metadata
        self.records += 1
        self.last_errors.clear()
        if key in _ASKED:
            self.values.setdefault(key, record.value)
        if key in _PLACED:
            self.began |= key in ("init_start", "run_start")
            self.has_loop |= key == "run_start"
            if record.in_seconds and self.line_in_seconds is None:
                self.line_in_seconds = record.line
        if key == "run_stop":
            stop = Stop(record.at_us or 0, metadata.get("status"), record.value)
            self.stop = stop if self.stop is None else max(self.stop, stop, key=lambda s: s.at_us)
        if record.at_us is not None:
            self._take_instant(key, metadata, Moment(record.at_us, record.line))

    def _take_instant(self, key: str, metadata: Mapping[str, Any], at: Moment) -> None:
        self.first = self.first or at
        self._extend("", at)
        if key in _EDGES:
            self._extend(key, at)
        elif key in _TRAINING:
            self._extend(TRAINING, at)
        elif key in _PLACED:
            number = _number(metadata)
            self.evaluations.append(EvaluationEdge(at.at_us, key == "eval_stop", at.line, number))
        samples = count_of(metadata.get("samples_count"))
        step = count_of(metadata.get("step_num"))
        if samples is not None or step is not None:
            unknown = -1
            samples = unknown if samples is None else samples
            self._count(at.at_us, samples, unknown if step is None else step, at.line)

    def _extend(self, key: str, at: Moment) -> None:
        begin, end = self.begins.get(key), self.ends.get(key)
        if begin is None or at.at_us < begin.at_us:
            self.begins[key] = at
        if end is None or at.at_us > end.at_us:
            self.ends[key] = at

    def _count(self, *count: int) -> None:
        self.counts.extend(count)
        if len(self.counts) > _MOST_COUNTS * len(count):
            every_second = self.progress()[::2]
            self.counts = array("q", (number for each in every_second for number in each))

    def join(self, remarks: "Log") -> None:
        """Add what looked like a run of its own but never began."""
        self.records += remarks.records
        self.first = self.first or remarks.first
        self.values = {**remarks.values, **self.values}
        for moments in (remarks.begins, remarks.ends):
            for key, at in moments.items():
                self._extend(key, at)
        self.evaluations += remarks.evaluations
        self.counts.extend(remarks.counts)
        stops = [stop for stop in (self.stop, remarks.stop) if stop is not None]
        self.stop = max(stops, key=lambda stop: stop.at_us, default=None)
        self.line_in_seconds = self.line_in_seconds or remarks.line_in_seconds
        self.errors += remarks.errors
        self.last_errors = (
            remarks.last_errors if remarks.records else self.last_errors + remarks.last_errors
        )


def _number(metadata: Mapping[str, Any]) -> tuple[str, float] | None:
    for name in _NUMBERS:
        number = metadata.get(name)
        if isinstance(number, int | float) and not isinstance(number, bool):
            return name, number
    return None


def count_of(value: object) -> int | None:
    """Return a count as logs write it, an integer or ``1152.0``; None if it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # Its size first: what is not finite has no integer, and some integers are no float.
    return int(value) if 0 <= value <= LARGEST and value == int(value) else None


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
