"""One MLPerf run as wire events: phases, evaluations, progress and its end.

A log may be imported while it grows. Stations are therefore sent by their edges, and an end only
where the log has one: what a part of a log says, the whole log says, too.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from ett_service.core.intervals import rfc3339
from ett_service.importers.importer import Fact, clean
from ett_service.importers.logged_run import (
    LARGEST,
    TRAINING,
    Count,
    EvaluationEdge,
    Log,
    Moment,
    count_of,
)


class LoggedSpan(NamedTuple):
    """``[start, end)`` in microseconds since the epoch, and the line that ends it."""

    start: int
    end: int
    line: int


@dataclass(frozen=True, slots=True)
class Timeline:
    """Where the phases of one run lie; what the log does not say is None."""

    begin: Moment
    end: Moment  #: the launcher's stop, else the last instant heard
    init: Moment | None  #: the first ``init_start``
    loop: Moment | None  #: the first ``run_start``
    first_stop: Moment | None  #: of the loop: the first ``run_stop``
    last_stop: Moment | None  #: and the last; where the launcher stopped without, the last record
    trained: Moment | None  #: the last record of training
    has_outer_start: bool
    has_outer_stop: bool


def timeline(log: Log) -> Timeline | None:
    """Place a run in time; None if nothing in its log has an instant.

    The launcher's window, where it is known, bounds everything: ranks' clocks and remarks made
    before it started the run do not stretch it.
    """
    begin = log.outer_start or log.begins.get("")
    if begin is None:
        return None
    last = max(begin, log.ends.get("", begin), key=lambda moment: moment.at_us)
    end = last if log.outer_stop is None else log.outer_stop
    end = Moment(max(begin.at_us, end.at_us), end.line)

    def clipped(at: Moment | None) -> Moment | None:
        return at and Moment(min(max(at.at_us, begin.at_us), end.at_us), at.line)

    loop = clipped(log.begins.get("run_start"))

    def after_loop(at: Moment | None) -> Moment | None:
        stop = clipped(at if at is not None or log.outer_stop is None else last)
        return stop and Moment(max(stop.at_us, loop.at_us if loop else stop.at_us), stop.line)

    return Timeline(
        begin,
        end,
        clipped(log.begins.get("init_start")),
        loop,
        after_loop(log.begins.get("run_stop")),
        after_loop(log.ends.get("run_stop")),
        clipped(log.ends.get(TRAINING)),
        has_outer_start=log.outer_start is not None,
        has_outer_stop=log.outer_stop is not None,
    )


def phase_edges(run: Timeline, done: dict[str, int]) -> Iterator[Fact]:
    """Begins and ends of the stations, as far as the log has them.

    *done* is reported with the end of the loop.
    """
    if run.has_outer_start and (run.init or (run.loop is None and run.has_outer_stop)):
        yield from _station("hardware_setup", run.begin, run.init)
    if run.init is not None:
        yield from _station("launcher_init", run.init, run.loop)
    if run.loop is None:
        return
    attributes = {"attributes": done} if done else {}
    yield from _station("train_loop", run.loop, run.first_stop, attributes)
    if run.first_stop is not None and run.last_stop is not None:
        last = LoggedSpan(run.first_stop.at_us, *run.last_stop)
        yield from _span({"phase": "train_loop", **attributes}, last)
        if run.has_outer_stop and run.last_stop.at_us < run.end.at_us:
            yield from _station("shutdown", run.last_stop, run.end)


def _station(
    phase: str, start: Moment, end: Moment | None, attributes: dict[str, Any] | None = None
) -> Iterator[Fact]:
    if end is None or start.at_us <= end.at_us:
        began = {"type": "phase_started", "at": rfc3339(start.at_us), "phase": phase}
        yield Fact(began, start.line)
    if end is not None and start.at_us <= end.at_us:
        ended = {"type": "phase_ended", "at": rfc3339(end.at_us), "phase": phase}
        yield Fact({**ended, **(attributes or {})}, end.line)


def evaluations(log: Log) -> tuple[list[LoggedSpan], int]:
    """The union of all ``eval_start`` to ``eval_stop``, and how many starts have no stop.

    Ranks evaluate at once, and evaluations may overlap. A stop belongs to the latest open start of
    its own number, such as its epoch; without one to the latest open start: where all have both,
    the union is the time during which any of them evaluated.
    """
    opened: list[EvaluationEdge] = []
    pairs = []
    for edge in sorted(log.evaluations, key=lambda edge: edge[:3]):
        if not edge.is_stop:
            opened.append(edge)
        elif opened:
            start = opened.pop(_partner(edge, opened))
            pairs.append(LoggedSpan(start.at_us, edge.at_us, edge.line))
    return _union(pairs), len(opened)


def _partner(stop: EvaluationEdge, opened: list[EvaluationEdge]) -> int:
    alike = (place for place, start in enumerate(opened) if start.number == stop.number)
    return max(alike, default=len(opened) - 1)


def _union(stretches: Iterable[LoggedSpan]) -> list[LoggedSpan]:
    union: list[LoggedSpan] = []
    for each in sorted(stretches):
        if union and each.start <= union[-1].end:
            end, line = max(union[-1][1:], each[1:])
            union[-1] = LoggedSpan(union[-1].start, end, line)
        else:
            union.append(each)
    return union


def evaluation_spans(run: Timeline, evaluated: list[LoggedSpan]) -> Iterator[Fact]:
    """Evaluation inside the loop is a phase; outside it, a stage of the station it lies in.

    While the log has no end of the loop, evaluation after all training may lie outside it: some
    benchmarks evaluate only then. It is left out until the log says, or trains on.
    """
    if run.loop is None:
        return
    begin, loop, end = run.begin.at_us, run.loop.at_us, run.end.at_us
    stop = run.last_stop or _surely_in_loop(run, evaluated) or run.loop
    parts = [
        ({"phase": "launcher_init", "stage": "evaluation"}, (begin, loop)),
        ({"phase": "evaluation"}, (loop, stop.at_us)),
    ]
    if run.last_stop is not None:
        parts.append(({"phase": "shutdown", "stage": "evaluation"}, (stop.at_us, end)))
    for what, (low, high) in parts:
        for start, stop_of_it, line in evaluated:
            yield from _span(what, LoggedSpan(max(start, low), min(stop_of_it, high), line))


def _surely_in_loop(run: Timeline, evaluated: list[LoggedSpan]) -> Moment | None:
    """The instant up to which an open log's evaluation is inside the loop."""
    trains_on = evaluated and run.trained and run.trained.at_us >= evaluated[0].end
    return run.end if trains_on else run.trained


def _span(what: dict[str, Any], stretch: LoggedSpan) -> Iterator[Fact]:
    start, end, line = stretch
    if start < end:
        yield Fact({"type": "span", "start": rfc3339(start), "at": rfc3339(end), **what}, line)


def progress(run: Timeline, log: Log) -> Iterator[Fact]:
    """Steps and samples done, wherever a record of the loop says so.

    Every ``samples_count`` is a lower bound (some blocks give at their end the count of their
    begin), so only one above all before it is news.
    """
    if run.loop is None:
        return
    stop = run.end if run.last_stop is None else run.last_stop
    batch = count_of(log.values.get("global_batch_size"))
    done = 0
    for count in log.progress():
        samples = _samples(count, batch)
        if samples > done and run.loop.at_us <= count.at_us <= stop.at_us:
            done = samples
            step = samples // batch if batch else samples
            at = {"type": "progress", "at": rfc3339(count.at_us)}
            yield Fact({**at, "step": step, "samples": samples}, count.line)


def _samples(count: Count, batch: int | None) -> int:
    """How many samples the run had trained on, as far as its record tells; else 0."""
    if count.samples >= 0:
        return count.samples
    return min(count.step * batch, LARGEST) if batch else 0


def samples_done(points: Sequence[Fact]) -> dict[str, int]:
    """Where progress got to by the end of the loop, empty if the log never says."""
    return {name: points[-1].event[name] for name in ("step", "samples")} if points else {}


_LONGEST_MESSAGE: Final = 2000

_CANCELLED = re.compile(r"\*\*\* .{0,200}CANCELLED AT \S+(?: DUE TO (?P<why>[A-Z ]{1,40}))? \*\*\*")
_STATES = {
    None: "CANCELLED",
    "TIME LIMIT": "TIMEOUT",
    "PREEMPTION": "PREEMPTED",
    "NODE FAILURE": "NODE_FAIL",
}
_EXITED = re.compile(r"\btasks? [\d,-]+: (?:Exited with exit code (?P<code>\d{1,3})|(?P<word>\w+))")
_SIGNALS = {"Killed": 9, "Aborted": 6, "Segmentation": 11, "Bus": 7}
_TERMINATED = 143
_GAVE_UP: Final = ("aborted", "abort")  #: it stopped by itself, before its quality target
_RAISED = re.compile(r"^(?:\s*\d+:)?\s*(?:\[rank\d+\]:)?\s*[A-Za-z_.]*(?:Error|Exception): ")


def ending(log: Log, *, launcher_saw_it: bool) -> dict[str, Any] | None:
    """Return the members of ``attempt_ended``; None where the log just stops.

    A run that reached its target is completed, whatever became of it in its shutdown. One that
    gave up is a failure, and none of the infrastructure.
    """
    status = _status(log)
    if status == "success":
        return {"outcome": "completed"}
    if status in _GAVE_UP:
        return {"outcome": "failed", "origin": "user", "reason": "missed its quality target"}
    if status is not None:
        return {"outcome": "failed", "reason": clean(f"run_stop with status {status}")}
    evidence = _launcher_word(log.errors)
    if evidence or launcher_saw_it or any(_RAISED.match(line) for line in log.last_errors):
        message = "\n".join(log.last_errors or log.errors)[:_LONGEST_MESSAGE]
        return {"outcome": "failed", **({"message": message} if message else {}), **evidence}
    return None


def is_over(log: Log) -> bool:
    """Whether the log has the end of its run, and not only a line that speaks of an error."""
    return log.outer_stop is not None or log.stop is not None or bool(_launcher_word(log.errors))


def _status(log: Log) -> str | None:
    """What the last ``run_stop`` says; one without a word is taken for a success."""
    if log.stop is None:
        return None
    value = log.stop.value if log.stop.value in ("success", *_GAVE_UP) else None
    status = log.stop.status or value or log.values.get("status")
    return status.lower() if isinstance(status, str) else "success"


def _launcher_word(errors: list[str]) -> dict[str, Any]:
    """What Slurm says: the state it ended the step in, and how the first task went."""
    evidence: dict[str, Any] = {}
    for line in errors:
        cancelled = _CANCELLED.search(line)
        if cancelled is not None:
            evidence.setdefault("scheduler_state", _STATES.get(cancelled["why"], "FAILED"))
        elif "exit_code" not in evidence and "signal" not in evidence:
            evidence |= _exit(line)
    return evidence | _outcome(evidence.get("scheduler_state"))


def _exit(line: str) -> dict[str, Any]:
    exited = _EXITED.search(line)
    if exited is None:
        return {}
    if exited["code"] is not None:
        code = int(exited["code"])
        return {} if code == _TERMINATED else {"exit_code": code}
    if exited["word"] == "Out":
        return {"scheduler_state": "OUT_OF_MEMORY"}
    return {"signal": _SIGNALS[exited["word"]]} if exited["word"] in _SIGNALS else {}


def _outcome(state: str | None) -> dict[str, str]:
    if state == "CANCELLED":
        return {"outcome": "cancelled"}
    if state == "PREEMPTED":
        return {"outcome": "preempted"}
    if state == "TIMEOUT":
        # A benchmark runs until it converges: the limit is the site's, not the program's.
        return {"outcome": "failed", "origin": "infra", "cause": "scheduler_timeout"}
    return {}
