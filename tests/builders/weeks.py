"""Four weeks of a small fleet, as wire events, in the last of which compiles take longer."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

WEEK = "2026-W08"
_MONDAY = datetime(2026, 2, 16, tzinfo=UTC)
_LOOP_MINUTES = 600
_SAVE_EVERY = 60
_TOKENS_A_MINUTE = 3_000_000


@dataclass(frozen=True, slots=True)
class Kind:
    """What jobs of one kind have in common."""

    model: str
    team: str
    cluster: str
    hardware: str
    gpus: int | None
    parameters: int | None = None

    @property
    def facts(self) -> dict[str, Any]:
        """Members of the ``job`` event."""
        named = {name: getattr(self, name) for name in self.__slots__}
        return {name: value for name, value in named.items() if value is not None}


LARGE = Kind("llm-70b", "pretraining", "north", "h100", 64, 70_000_000_000)
SMALL = Kind("vision|v2", "perception", "south", "a100", 8)
UNKNOWN = Kind("probe", "research", "south", "a100", None)


class JobEvents:
    """Collects the events of one job; instants are minutes after its begin."""

    def __init__(self, job: str, begin: datetime) -> None:
        self.job = job
        self.begin = begin
        self.events: list[dict[str, Any]] = []

    def at(self, minute: float) -> str:
        """Return the instant so many minutes after the begin."""
        return (self.begin + timedelta(minutes=minute)).isoformat().replace("+00:00", "Z")

    def add(self, kind: str, minute: float, **members: Any) -> None:
        """Add an event."""
        self.events.append({"type": kind, "job": self.job, "at": self.at(minute), **members})

    def add_span(self, phase: str, start: float, end: float, **members: Any) -> None:
        """Add a span."""
        self.add("span", end, phase=phase, start=self.at(start), **members)


def fleet() -> Iterator[list[dict[str, Any]]]:
    """Yield each job of the four weeks."""
    for weeks_ago in (3, 2, 1, 0):
        compile_minutes = 40 if weeks_ago == 0 else 20
        for day in range(3 if weeks_ago < 2 else 1):
            begin = _MONDAY + timedelta(days=day, weeks=-weeks_ago)
            name = f"{begin:%m%d}"
            yield life(f"llm-{name}", begin, LARGE, compile_minutes, fails=day > 0)
            yield life(f"vision-{name}", begin, SMALL, 10)
    yield life("probe", _MONDAY + timedelta(days=3), UNKNOWN, 5)


def life(
    name: str, begin: datetime, kind: Kind, compile_minutes: int, *, fails: bool = False
) -> list[dict[str, Any]]:
    """Return a job that trains for ten hours and may fail once, half an hour after a save."""
    job = JobEvents(name, begin)
    job.add("job", 0, **kind.facts)
    if kind.gpus is None:
        job.add("attempt_started", 5)
    else:
        job.add("attempt_started", 5, gpus=kind.gpus)
    job.add_span("scheduling", 0, 5)
    job.add_span("hardware_setup", 5, 10)
    loop = _start(job, 10, compile_minutes)
    if not fails:
        _train(job, loop, 0, _LOOP_MINUTES)
        _end(job, loop + _LOOP_MINUTES)
        return job.events
    _train(job, loop, 0, 330)
    message = "NCCL watchdog thread terminated: Xid 79, GPU has fallen off the bus"
    job.add("attempt_ended", loop + 330, outcome="failed", exit_code=1, message=message)
    again = loop + 340
    job.add("attempt_started", again, attempt=1, gpus=kind.gpus)
    loop = _start(job, again, compile_minutes, attempt=1)
    job.add("checkpoint_restored", loop, step=300, attempt=1)
    _train(job, loop, 300, _LOOP_MINUTES, attempt=1)
    _end(job, loop + _LOOP_MINUTES - 300, attempt=1)
    return job.events


def _start(job: JobEvents, minute: float, compile_minutes: int, **members: Any) -> float:
    job.add_span("launcher_init", minute, minute + 15, **members)
    loop = minute + 15 + compile_minutes
    job.add_span("pt2_compile", minute + 15, loop, **members)
    job.add("phase_started", loop, phase="train_loop", **members)
    return loop


def _train(job: JobEvents, loop: float, first: int, last: int, **members: Any) -> None:
    """Do a step a minute, with a report every half an hour and a save every hour.

    Each step waits three seconds for its batch.
    """
    for step in range(first + 1, last + 1):
        minute = loop + step - first
        if step % 30 == 0 or step == first + 1:
            tokens = step * _TOKENS_A_MINUTE
            waited = {"data_wait_seconds": 3.0 * (step - first)}
            job.add("progress", minute, step=step, tokens=tokens, attributes=waited, **members)
        if step % _SAVE_EVERY == 0:
            job.add_span("checkpoint_blocking", minute - 0.5, minute, **members)
            job.add("checkpoint_saved", minute, step=step, **members)


def _end(job: JobEvents, minute: float, **members: Any) -> None:
    job.add("phase_ended", minute, phase="train_loop", **members)
    job.add_span("shutdown", minute, minute + 5, **members)
    job.add("attempt_ended", minute + 5, outcome="completed", **members)
    job.add("job_ended", minute + 5, outcome="completed")
