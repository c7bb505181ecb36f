"""One MLPerf run as wire events: phases, evaluations, progress and its end."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from ett_service.core.intervals import rfc3339
from ett_service.importers.importer import WireEvent, clean
from ett_service.importers.mllog import Log, Record

_LARGEST: Final = (1 << 53) - 1

Interval = tuple[int, int]
"""``[start, end)`` in microseconds since the epoch."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """Where the phases of one run lie, in microseconds; what the log does not say is None."""

    begin: int
    end: int
    init: int | None  #: the first ``init_start``
    loop: Interval | None
    has_outer_start: bool
    has_outer_stop: bool


def timeline(log: Log) -> Timeline | None:
    """Place a run in time; None if nothing in its log has an instant.

    The launcher's window, where it is known, bounds everything: ranks' clocks and remarks made
    before it started the run do not stretch it.
    """
    times = [record.at_us for record in log.records if record.at_us is not None]
    begins = [log.outer_start_us] if log.outer_start_us is not None else times
    if not begins:
        return None
    begin = min(begins)
    last = max([begin, *times])
    end = last if log.outer_stop_us is None else max(begin, log.outer_stop_us)

    def clipped(instants: list[int]) -> int | None:
        return min(max(min(instants), begin), end) if instants else None

    loop_begin = clipped(log.times("run_start"))
    loop = None
    if loop_begin is not None:
        stop = last if log.run_stop_us is None else log.run_stop_us
        loop = (loop_begin, max(loop_begin, min(stop, end)))
    return Timeline(
        begin,
        end,
        clipped(log.times("init_start")),
        loop,
        has_outer_start=log.outer_start_us is not None,
        has_outer_stop=log.outer_stop_us is not None,
    )


def phase_spans(run: Timeline, done: dict[str, int]) -> Iterator[WireEvent]:
    """The stations that the log bounds on both sides, or that the end of the run cut short.

    *done* is reported with the loop.
    """
    loop_begin = run.loop[0] if run.loop else run.end
    if run.has_outer_start and (run.init is not None or run.loop is None):
        setup_end = run.end if run.init is None else run.init
        yield from _span({"phase": "hardware_setup"}, (run.begin, setup_end))
    if run.init is not None:
        yield from _span({"phase": "launcher_init"}, (run.init, loop_begin))
    if run.loop is not None:
        attributes = {"attributes": done} if done else {}
        yield from _span({"phase": "train_loop", **attributes}, run.loop)
        if run.has_outer_stop:
            yield from _span({"phase": "shutdown"}, (run.loop[1], run.end))


def evaluations(log: Log) -> tuple[list[Interval], int]:
    """The union of all ``eval_start`` to ``eval_stop``, and how many starts have no stop.

    Ranks evaluate at once, so a stop belongs to the latest start that is still open: where all
    have both, the union is the time during which any of them evaluated.
    """
    edges = sorted(
        (record.at_us, record.key == "eval_stop")
        for record in log.records
        if record.key in ("eval_start", "eval_stop") and record.at_us is not None
    )
    opened: list[int] = []
    pairs = []
    for at, is_stop in edges:
        if not is_stop:
            opened.append(at)
        elif opened:
            pairs.append((opened.pop(), at))
    return _union(pairs), len(opened)


def _union(intervals: Iterable[Interval]) -> list[Interval]:
    union: list[Interval] = []
    for start, end in sorted(intervals):
        if union and start <= union[-1][1]:
            union[-1] = (union[-1][0], max(union[-1][1], end))
        else:
            union.append((start, end))
    return union


def evaluation_spans(run: Timeline, evaluated: list[Interval]) -> Iterator[WireEvent]:
    """Evaluation inside the loop is a phase; outside it, a stage of the station it lies in."""
    if run.loop is None:
        return
    parts = (
        ({"phase": "launcher_init", "stage": "evaluation"}, (run.begin, run.loop[0])),
        ({"phase": "evaluation"}, run.loop),
        ({"phase": "shutdown", "stage": "evaluation"}, (run.loop[1], run.end)),
    )
    for what, (low, high) in parts:
        for start, end in evaluated:
            yield from _span(what, (max(start, low), min(end, high)))


def _span(what: dict[str, Any], interval: Interval) -> Iterator[WireEvent]:
    start, end = interval
    if start < end:
        yield {"type": "span", "start": rfc3339(start), "at": rfc3339(end), **what}


def progress(run: Timeline, log: Log) -> Iterator[WireEvent]:
    """Steps and samples done, wherever a record of the loop says so.

    Every ``samples_count`` is a lower bound (some blocks give at their end the count of their
    begin), so only one above all before it is news.
    """
    if run.loop is None:
        return
    batch = _count(log.value("global_batch_size"))
    done = 0
    timed = [(record.at_us, record) for record in log.records if record.at_us is not None]
    for at, record in sorted(timed, key=lambda pair: pair[0]):
        samples = samples_of(record, batch)
        if samples is None or samples <= done or not run.loop[0] <= at <= run.loop[1]:
            continue
        done = samples
        step = samples // batch if batch else samples
        yield {"type": "progress", "at": rfc3339(at), "step": step, "samples": samples}


def samples_of(record: Record, batch: int | None) -> int | None:
    """How many samples the run had trained on when it wrote *record*, as far as that tells."""
    samples = _count(record.metadata.get("samples_count"))
    step = _count(record.metadata.get("step_num"))
    if samples is None and step is not None and batch:
        return min(step * batch, _LARGEST)
    return samples


def _count(value: object) -> int | None:
    """A count as logs write it, an integer or ``1152.0``; None if it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # Its size first: what is not finite has no integer, and some integers are no float.
    return int(value) if 0 <= value <= _LARGEST and value == int(value) else None


def samples_done(run: Timeline, log: Log) -> dict[str, int]:
    """Where progress got to by the end of the loop, empty if the log never says."""
    totals = list(progress(run, log))
    return {name: totals[-1][name] for name in ("step", "samples")} if totals else {}


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
_RAISED = re.compile(r"^(?:\s*\d+:)?\s*(?:\[rank\d+\]:)?\s*[A-Za-z_.]*(?:Error|Exception): ")


def ending(log: Log, *, launcher_saw_it: bool) -> dict[str, Any] | None:
    """Return the members of ``attempt_ended``; None where the log just stops.

    A run that stopped as it wanted is completed, whatever became of it in its shutdown.
    """
    status = _status(log)
    if status == "success":
        return {"outcome": "completed"}
    if status == "aborted":
        return {"outcome": "completed", "reason": "missed its quality target"}
    if status is not None:
        return {"outcome": "failed", "reason": clean(f"run_stop with status {status}")}
    evidence = _launcher_word(log.errors)
    if evidence or launcher_saw_it or any(_RAISED.match(line) for line in log.last_errors):
        message = "\n".join(log.last_errors or log.errors)[:_LONGEST_MESSAGE]
        return {"outcome": "failed", **({"message": message} if message else {}), **evidence}
    return None


def _status(log: Log) -> str | None:
    """What the last ``run_stop`` says; one without a word is taken for a success."""
    stops = [record for record in log.records if record.key == "run_stop"]
    if not stops:
        return None
    last = max(stops, key=lambda record: record.at_us or 0)
    value = last.value if last.value in ("success", "aborted") else None
    status = last.metadata.get("status") or value or log.value("status")
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
