"""JSON lines of nv-one-logger's file exporter to wire events.

A file is one life of one rank: an application span, spans inside it, and what it measured. Files of
one session are attempts of one job, each a launch named by the start of its application.
"""

import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from ett_service.core.intervals import rfc3339
from ett_service.importers.files import json_objects, runs_of
from ett_service.importers.importer import (
    Fact,
    ImportedRun,
    Report,
    WireEvent,
    clean,
    identified,
    job_name,
    launch_name,
)
from ett_service.importers.thinning import Thinner

RECORDS = ("*.jsonl", "*.json", "*.log", "*.jsonl.gz", "*.json.gz", "*.log.gz")
"""The files that are looked for in a folder."""

PHASES: Final[Mapping[str, str]] = {
    "training_loop": "train_loop",
    "validation_loop": "evaluation",
    "testing_loop": "evaluation",
    "checkpoint_save_sync": "checkpoint_blocking",
    "checkpoint_save_async": "checkpoint_blocking",
}
STAGES: Final[Mapping[str, tuple[str, str]]] = {
    "distributed_code_initialization": ("launcher_init", "process_group_init"),
    "data_loader_initialization": ("launcher_init", "preproc_creation"),
    "model_initialization": ("launcher_init", "train_module_creation"),
    "optimizer_initialization": ("launcher_init", "optimizer_init"),
    "checkpoint_load": ("launcher_init", "checkpoint_restore"),
    "checkpoint_save_finalization": ("checkpoint_blocking", "finalize"),
}
"""What spans become, by their names; a stage owns no time."""

_APPLICATION, _ITERATION, _LOADING = "application", "training_single_iteration", "data_loading"
_IGNORED: Final = frozenset(
    {
        "validation_single_iteration", "TESTING_SINGLE_ITERATION",
        "testing_single_iteration", "model_forward", "model_backward", "zero_grad",
        "optimizer_update",
    }
)  # fmt: skip
_BRIEF = re.compile(rb'"name": ?"(?:training_single_iteration|data_loading)"')
_LAST_MS: Final = 100_000_000_000_000
_FIRST_MS: Final = 946_684_800_000
_MOST: Final = 2**53 - 1
_MOST_GPUS: Final = 1_000_000
_LONGEST_MESSAGE: Final = 2000
_REMEMBERED: Final = 1000

Attributes = dict[str, Any]


class Happening(msgspec.Struct):
    """An event of a span, or one of its edges."""

    name: str = ""
    attributes: Attributes = {}


class Stamp(msgspec.Struct, frozen=True):
    """The attributes that every event and every whole span has."""

    timestamp_msec: float | None = None
    duration_msec: float | None = None


class SpanStop(msgspec.Struct, frozen=True):
    """The end of a span."""

    attributes: Stamp = Stamp()


class Brief(msgspec.Struct):
    """What is read of an iteration, and of its wait for data: nearly all lines."""

    type: str
    id: str = ""
    name: str = ""
    attributes: Stamp = Stamp()
    stop_event: SpanStop = SpanStop()


class SpanRecord(msgspec.Struct):
    """Any other line."""

    type: str
    id: str = ""
    span_id: str = ""
    name: str = ""
    attributes: Attributes = {}
    start_event: Happening | None = None
    stop_event: Happening | None = None
    event: Happening | None = None


@dataclass(slots=True)
class _Life:
    """What a file says so far."""

    report: Report
    path: Path
    facts: list[Fact] = field(default_factory=list)
    iterations: Thinner[Fact] = field(default_factory=Thinner)
    updates: Thinner[Fact] = field(default_factory=Thinner)
    began_us: int | None = None
    application: str = ""  #: id of its span
    ended: tuple[int, int] | None = None  #: instant and line
    error: tuple[int, int, Attributes] | None = None
    has_failed: bool = False  #: its error is of the whole application
    identity: Attributes = field(default_factory=dict)  #: of its initialization
    first_step: int = 0
    iterations_done: int = 0
    iterated_us: int = 0  #: the latest end of an iteration
    is_in_loop: bool = False
    waited_s: float = 0.0
    recent: set[str] = field(default_factory=set)  #: ids of the last iterations and waits
    recent_order: deque[str] = field(default_factory=deque)

    def is_again(self, span: str) -> bool:
        """Whether one of the last iterations or waits had this id: it was delivered twice."""
        if span in self.recent:
            return bool(span)
        self.recent.add(span)
        self.recent_order.append(span)
        if len(self.recent_order) > _REMEMBERED:
            self.recent.discard(self.recent_order.popleft())
        return False

    def say(self, kind: str, at_us: int, line: int, **members: Any) -> None:
        """Add a fact."""
        self.facts.append(Fact({"type": kind, "at": rfc3339(at_us), **members}, line))


def read(paths: Sequence[Path], job: str | None = None) -> tuple[Iterator[ImportedRun], Report]:
    """Read exported files and folders of them; with *job*, all are of that one."""
    return runs_of(paths, RECORDS, partial(_of_file, job=job))


def _of_file(path: Path, report: Report, *, job: str | None) -> Iterator[ImportedRun]:
    life = _Life(report, path)
    for line, record in json_objects(path, report, _decode):
        _take(life, record, line)
    if not life.facts:
        report.miss(path, "no span of one-logger")
        return
    report.files += 1
    yield _imported(life, job)


_decode_brief = msgspec.json.Decoder(Brief).decode
_decode_any = msgspec.json.Decoder(SpanRecord).decode


def _decode(text: bytes) -> Brief | SpanRecord:
    if _BRIEF.search(text) is None:
        return _decode_any(text)
    return _decode_brief(text)


def _take(life: _Life, record: Brief | SpanRecord, line: int) -> None:
    try:
        if isinstance(record, Brief):
            is_known = _taken_briefly(life, record, line)
        else:
            is_known = _READERS.get(record.type, _unknown)(life, record, line)
    except ValueError as error:
        life.report.skip(life.path, line, str(error))
        return
    if is_known:
        life.report.records += 1
    else:
        life.report.skip(life.path, line, "no record of one-logger that is known")


def _unknown(_life: _Life, _record: SpanRecord, _line: int) -> bool:
    return False


def _taken_briefly(life: _Life, record: Brief, line: int) -> bool:
    if record.type == "start" or life.is_again(record.id):
        return True
    if record.name == _ITERATION:
        at_us = _microseconds(record.stop_event.attributes.timestamp_msec)
        life.iterations_done += 1
        step = life.first_step + life.iterations_done
        # One that is delivered late has been done by the latest instant.
        life.iterated_us = at_us = max(at_us, life.iterated_us)
        life.iterations.add(at_us, partial(_progress, at_us, line, step, life.waited_s))
    elif record.name == _LOADING:
        life.waited_s += max(0.0, record.attributes.duration_msec or 0.0) / 1000
    return record.type in ("complete", "stop")


def _instant(happening: Happening | None) -> int:
    """Return microseconds. Raises ``ValueError`` where there is no instant."""
    return _microseconds(happening.attributes.get("timestamp_msec") if happening else None)


def _microseconds(ms: object) -> int:
    if isinstance(ms, bool) or not isinstance(ms, int | float) or not _FIRST_MS <= ms <= _LAST_MS:
        raise ValueError("no timestamp_msec in milliseconds since 1970")
    return round(ms * 1000)


def _started(life: _Life, record: SpanRecord, line: int) -> bool:
    at_us = _instant(record.start_event)
    if record.name == _APPLICATION:
        life.began_us, life.application = at_us, record.id
        life.say("phase_started", at_us, line, phase="launcher_init")
    elif record.name in PHASES:
        if record.name == "training_loop":
            life.is_in_loop = True
            life.say("phase_ended", at_us, line, phase="launcher_init")
            life.first_step = _count(record.attributes.get("train_iterations_start")) or 0
            if life.first_step:
                life.say("progress", at_us, line, step=life.first_step)
        life.say("phase_started", at_us, line, phase=PHASES[record.name])
    elif record.name in STAGES:
        phase, stage = STAGES[record.name]
        life.say("phase_started", at_us, line, phase=phase, stage=stage)
    elif record.name not in _IGNORED:
        return _custom(life, record, "phase_started", at_us, line)
    return True


def _stopped(life: _Life, record: SpanRecord, line: int) -> bool:
    at_us = _instant(record.stop_event)
    if record.name == _APPLICATION:
        life.ended = at_us, line
    elif record.name in PHASES:
        life.say("phase_ended", at_us, line, phase=PHASES[record.name])
    elif record.name in STAGES:
        phase, stage = STAGES[record.name]
        life.say("phase_ended", at_us, line, phase=phase, stage=stage)
    elif record.name not in _IGNORED:
        return _custom(life, record, "phase_ended", at_us, line)
    return True


def _custom(life: _Life, record: SpanRecord, kind: str, at_us: int, line: int) -> bool:
    """A span of the user's own: a stage of the loop, or of starting."""
    stage = clean(record.name, 100)
    phase = "train_loop" if life.is_in_loop else "launcher_init"
    if stage:
        life.say(kind, at_us, line, phase=phase, stage=stage)
    return bool(stage)


def _complete(life: _Life, record: SpanRecord, line: int) -> bool:
    _instant(record.stop_event)
    return _started(life, record, line) and _stopped(life, record, line)


def _happened(life: _Life, record: SpanRecord, line: int) -> bool:
    at_us = _instant(record.event)
    assert record.event is not None  # it has an instant
    attributes = record.event.attributes
    match record.event.name:
        case "one_logger_initialization":
            life.identity = attributes
        case "training_metrics_update":
            done = _count(attributes.get("current_iteration"))
            if done is None:
                raise ValueError("an update without current_iteration")
            life.updates.add(
                at_us,
                partial(_progress, at_us, line, done + 1, life.waited_s, **_samples(attributes)),
            )
        case "save_checkpoint_success":
            step = _count(attributes.get("productive_train_iterations"))
            if step is None:
                step = _count(attributes.get("current_iteration"))
            if step is not None:
                life.say("checkpoint_saved", at_us, line, step=step)
        case _:
            pass
    return True


def _progress(at_us: int, line: int, step: int, waited_s: float, **totals: int) -> Fact:
    event = {"type": "progress", "at": rfc3339(at_us), "step": step, **totals}
    waited = {"attributes": {"data_wait_seconds": waited_s}} if waited_s else {}
    return Fact({**event, **waited}, line)


def _samples(attributes: Attributes) -> dict[str, int]:
    begin = _count(attributes.get("train_samples_start"))
    done = _count(attributes.get("num_train_samples"))
    return {} if begin is None or done is None else {"samples": min(begin + done, _MOST)}


def _count(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _MOST:
        return None
    return value


def _failed(life: _Life, record: SpanRecord, line: int) -> bool:
    at_us = _instant(record.event)
    assert record.event is not None  # it has an instant
    life.error = at_us, line, record.event.attributes
    life.has_failed |= bool(record.span_id) and record.span_id == life.application
    return True


def _lost(life: _Life, _record: SpanRecord, line: int) -> bool:
    life.report.note(life.path, f"line {line}: one-logger says that data is missing")
    return True


_READERS: Final[Mapping[str, Callable[[_Life, SpanRecord, int], bool]]] = {
    "start": _started,
    "stop": _stopped,
    "complete": _complete,
    "event": _happened,
    "application_error": _failed,
    "telemetry_data_error": _lost,
}


def _imported(life: _Life, job: str | None) -> ImportedRun:
    session = life.identity.get("session_tag")
    name = job or job_name(session if isinstance(session, str) else "", "one-logger")
    first = min(fact.event["at"] for fact in life.facts)
    members: WireEvent = {"job": name}
    if life.began_us is not None:
        members["launch"] = launch_name(life.began_us)
    rank = life.identity.get("rank")
    if isinstance(rank, int) and 0 <= rank < 1 << 31:
        members["rank"] = rank
    gpus = _count(life.identity.get("world_size"))
    size = {"gpus": gpus} if gpus and gpus <= _MOST_GPUS else {}
    own = [Fact({"type": "attempt_started", "at": first, **size}, life.facts[0].line)]
    points = life.updates.points() or life.iterations.points()
    facts = [*own, *life.facts, *points, *_ending(life)]
    described = (Fact({**fact.event, **members}, fact.line) for fact in facts)
    return ImportedRun(life.path, name, identified("one-logger", described))


def _ending(life: _Life) -> Iterator[Fact]:
    """An application that stops is over; an error that no end follows was its end."""
    if life.ended is None and life.error is None:
        return
    at_us, line = life.ended or (life.error or (0, 0))[:2]
    ended = {"type": "attempt_ended", "at": rfc3339(at_us)}
    if life.error is None or (life.ended is not None and not life.has_failed):
        yield Fact({**ended, "outcome": "completed"}, line)
        return
    attributes = life.error[2]
    message = attributes.get("exception_message") or attributes.get("error_message")
    evidence = {
        "exception": clean(str(attributes.get("exception_type") or "")),
        "message": clean(str(message or ""), _LONGEST_MESSAGE),
    }
    stated = {key: text for key, text in evidence.items() if text}
    yield Fact({**ended, "outcome": "failed", **stated}, line)
