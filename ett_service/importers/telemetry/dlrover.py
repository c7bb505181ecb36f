"""DLRover's training events to wire events: ``[time] [pid] [id] [target] [name] [TYPE] {...}``.

A file is of one rank, and a process in it one life. Which lives of several ranks are one attempt
the service decides, as for processes that report themselves. Files of one folder are one job.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from ett_service.core.intervals import rfc3339
from ett_service.importers.files import pieces_of, runs_of
from ett_service.importers.importer import (
    Fact,
    ImportedRun,
    Report,
    clean,
    identified,
    job_name,
    launch_name,
    word,
)
from ett_service.importers.logs.local_times import LocalTimes
from ett_service.importers.thinning import Thinner, most_points

EVENTS: Final = ("events_*.log", "events_*.log.gz")
"""The files that are looked for in a folder."""

_LINE = re.compile(
    r"\[(?P<event_time>[^\]]{19,40})\] ?(?:\[(?P<pid>\d{1,10})\] ?)?\[(?P<id>[^\]]*)\] ?"
    r"\[(?P<target>[^\]]*)\] ?\[(?P<name>[^\]]*)\] ?"
    r"\[(?P<event_type>BEGIN|END|INSTANT)\] ?(?P<content>.*)",
    re.DOTALL,
)
_RANK = re.compile(r"events_(\d{1,7})\.log")
_AGENTS: Final = ("dlrover-agent", "dlrover-master")
PHASES: Final[Mapping[str, str]] = {
    "#evaluate": "evaluation",
    "#predict": "evaluation",
    "#save": "checkpoint_blocking",
}
STAGES: Final[Mapping[str, tuple[str, str]]] = {
    "#init": ("launcher_init", "init"),
    "#load_dataset": ("launcher_init", "preproc_creation"),
    "#load_ckpt": ("launcher_init", "checkpoint_restore"),
    "#persist_ckpt": ("checkpoint_blocking", "persist"),
    "#rendezvous": ("launcher_init", "rendezvous"),
    "#network_check": ("launcher_init", "network_check"),
    "#pre_check": ("launcher_init", "pre_check"),
}
"""What durations become, by their names; a stage owns no time."""

_EDGES: Final = {"BEGIN": "phase_started", "END": "phase_ended"}
_FIRSTS: Final = frozenset({"#start", "#init"})
_MOST: Final = 2**53 - 1
_LONGEST_MESSAGE: Final = 2000


class _JsonLine(msgspec.Struct):
    """A line of its JSON formatter."""

    event_time: str
    target: str
    name: str
    event_type: str
    content: dict[str, Any]
    pid: int | str = ""


_EVENT = msgspec.json.Decoder(_JsonLine)
_CONTENT = msgspec.json.Decoder(dict[str, Any])


@dataclass(slots=True)
class _Record:
    """A line that was read."""

    at_us: int
    line: int
    pid: str
    is_agent: bool
    name: str
    type: str
    content: Mapping[str, Any]


@dataclass(slots=True)
class _TrainerProcess:
    """One process of the trainer."""

    pid: str
    producer: str
    has_start: bool = False  #: whether its start was heard
    is_started: bool = False  #: whether that is over, so that the next start is of another life
    has_loop: bool = False
    steps: Thinner[Fact] = field(default_factory=Thinner)


@dataclass(slots=True)
class _Log:
    """What a file says so far."""

    job: str
    rank: int | None
    facts: list[Fact] = field(default_factory=list)
    lives: list[_TrainerProcess] = field(default_factory=list)
    saves: list[Fact] = field(default_factory=list)  #: durable, unless others say when they are
    persists: bool = False
    unused: Counter[str] = field(default_factory=Counter)

    def fact(self, kind: str, record: _Record, **members: Any) -> Fact:
        """Return what a record of the present life says."""
        return self.fact_of(self.lives[-1], kind, record, **members)

    def fact_of(self, life: _TrainerProcess, kind: str, record: _Record, **members: Any) -> Fact:
        """Return what a record of one life says."""
        own = {"job": self.job, "producer": life.producer}
        rank = {} if self.rank is None else {"rank": self.rank}
        event = {"type": kind, "at": rfc3339(record.at_us), **own, **rank, **members}
        return Fact(event, record.line)


def read(
    paths: Sequence[Path], job: str | None = None, zone: tzinfo | None = None
) -> tuple[Iterator[ImportedRun], Report]:
    """Read files of events and folders of them; their times are those of *zone*."""
    return runs_of(paths, EVENTS, partial(_of_file, job=job, zone=zone))


def _of_file(
    path: Path, report: Report, *, job: str | None, zone: tzinfo | None
) -> Iterator[ImportedRun]:
    rank = _RANK.search(path.name)
    name = job or job_name(path.absolute().parent.name, "dlrover")
    log = _Log(name, int(rank[1]) if rank else None)
    for record in _records(path, LocalTimes(path, zone, report), report):
        _take(log, record)
    most = most_points(len(log.lives))
    facts = [*log.facts, *(point for life in log.lives for point in life.steps.points(most))]
    if not log.persists:
        facts += log.saves
    if not facts:
        report.miss(path, "no event of DLRover's")
        return
    report.files += 1
    if log.unused:
        names = ", ".join(f"{name} ({count})" for name, count in log.unused.most_common(10))
        report.note(path, f"not used: {names}")
    yield ImportedRun(path, name, identified("dlrover", facts))


def _records(path: Path, times: LocalTimes, report: Report) -> Iterator[_Record]:
    for line, piece in pieces_of(path):
        try:
            record = _record(piece, line, times)
        except ValueError as error:
            report.skip(path, line, str(error))
            continue
        if record is not None:
            report.records += 1
            yield record


def _record(piece: bytes, line: int, times: LocalTimes) -> _Record | None:
    """Read a line as either of DLRover's formatters writes it; None for an empty one.

    Raises ``ValueError`` with what is wrong.
    """
    text = piece.decode("utf-8", "replace").strip()
    if not text:
        return None
    parts = None if text.startswith("{") else _LINE.match(text)
    try:
        if parts is not None:
            members: dict[str, Any] = {
                **parts.groupdict(),
                "content": _CONTENT.decode(parts["content"]),
            }
        else:
            event = _EVENT.decode(text)
            members = {**msgspec.structs.asdict(event), "pid": str(event.pid)}
    except (msgspec.DecodeError, RecursionError):
        raise ValueError("no event" if parts is None else "its content is no JSON object") from None
    at_us = times.at_us(members["event_time"], line)
    if at_us is None:
        raise ValueError("no instant")
    return _Record(
        at_us,
        line,
        members["pid"] or "",
        members["target"] in _AGENTS,
        members["name"],
        members["event_type"],
        members["content"],
    )


def _take(log: _Log, record: _Record) -> None:
    if record.is_agent:
        _take_of_agent(log, record)
        return
    life = _life_of(log, record)
    if record.name == "#step":
        _take_step(log, life, record)
    elif record.name in PHASES:
        _take_phase(log, record)
    elif record.name in STAGES and record.type in _EDGES:
        _take_stage(log, record)
    elif (record.name, record.type) == ("#train", "END"):
        log.facts.append(log.fact("phase_ended", record, phase="train_loop"))
    elif record.name == "#finish":
        log.facts.append(log.fact("attempt_ended", record, outcome="completed"))
    elif record.name not in _FIRSTS and record.name != "#train":
        log.unused[word(record.name, 100)] += 1


def _life_of(log: _Log, record: _Record) -> _TrainerProcess:
    """Return the process that a record is of, which may begin with it."""
    is_start = record.name in _FIRSTS and record.type != "END"
    life = log.lives[-1] if log.lives else None
    if life is None or life.pid != record.pid or (is_start and life.is_started):
        producer = f"dlrover-{launch_name(record.at_us)}-{record.pid}"
        life = _TrainerProcess(record.pid, producer, has_start=is_start)
        log.lives.append(life)
        log.facts.append(log.fact("attempt_started", record))
        if is_start:
            log.facts.append(log.fact("phase_started", record, phase="launcher_init"))
    life.is_started |= not is_start
    return life


def _take_step(log: _Log, life: _TrainerProcess, record: _Record) -> None:
    if not life.has_loop and record.type == "BEGIN":
        life.has_loop = True
        if life.has_start:
            log.facts.append(log.fact("phase_ended", record, phase="launcher_init"))
        log.facts.append(log.fact("phase_started", record, phase="train_loop"))
    step = _step(record)
    if step is not None and record.type == "END":
        life.steps.add(record.at_us, partial(log.fact_of, life, "progress", record, step=step))


def _take_phase(log: _Log, record: _Record) -> None:
    if record.type in _EDGES:
        log.facts.append(log.fact(_EDGES[record.type], record, phase=PHASES[record.name]))
    step = _step(record)
    if record.name == "#save" and record.type == "END" and step is not None:
        log.saves.append(log.fact("checkpoint_saved", record, step=step))


def _take_stage(log: _Log, record: _Record) -> None:
    phase, stage = STAGES[record.name]
    log.facts.append(log.fact(_EDGES[record.type], record, phase=phase, stage=stage))
    log.persists |= record.name == "#persist_ckpt"
    step = _step(record)
    if record.type == "END" and step is not None:
        if record.name == "#persist_ckpt":
            log.facts.append(log.fact("checkpoint_saved", record, step=step))
        elif record.name == "#load_ckpt":
            log.facts.append(log.fact("checkpoint_restored", record, step=step))


def _step(record: _Record) -> int | None:
    step = record.content.get("global_step")
    if isinstance(step, bool) or not isinstance(step, int) or not 0 <= step <= _MOST:
        return None
    return step


def _take_of_agent(log: _Log, record: _Record) -> None:
    """What an agent or the master says is of no rank: it is the whole attempt's."""
    event = {"at": rfc3339(record.at_us), "job": log.job}
    if record.name in STAGES and record.type in _EDGES:
        phase, stage = STAGES[record.name]
        part = {"type": _EDGES[record.type], "phase": phase, "stage": stage}
        log.facts.append(Fact({**event, **part}, record.line))
    elif record.name == "#process_fail":
        text = record.content.get("error_msg") or record.content.get("errmsg")
        message = clean(str(text or ""), _LONGEST_MESSAGE)
        ended = {"type": "attempt_ended", "outcome": "failed", **event}
        log.facts.append(Fact({**ended, **({"message": message} if message else {})}, record.line))
    elif record.name == "#process_succeeded":
        ended = {"type": "attempt_ended", "outcome": "completed", **event}
        log.facts.append(Fact(ended, record.line))
    else:
        log.unused[word(record.name, 100)] += 1
