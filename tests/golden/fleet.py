"""What happens beside the demo's fleet: starts that got slower, and jobs of the last hours.

All of it is drawn from one seed, and written as it is sent.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

Event = dict[str, Any]

NOW = datetime(2026, 3, 9, 6, tzinfo=UTC)
"""A Monday: the week before is over, and searches of whole days end six hours earlier."""

CLUSTER = "fir"
_DAYS = 40
_JOBS_A_DAY = 3
_SLOWER = 2.5


@dataclass(frozen=True)
class _Cohort:
    """Jobs of a model whose launcher is slower from *since* to *until* days before the end."""

    model: str
    since: int
    until: int = 0
    factor: float = _SLOWER


_COHORTS = (
    _Cohort("llm-slow", 7),
    _Cohort("llm-mended", 14, 7),
    _Cohort("llm-quick", 7, factor=1 / _SLOWER),
    _Cohort("llm-fresh", 3),
)

MARKER = {
    "id": "trainer-4.2",
    "at": "2026-03-02T00:00:00Z",
    "kind": "deploy",
    "title": "Trainer 4.2",
    "labels": {"model": "llm-slow"},
}

BEAT = {"type": "heartbeat", "job": "live-odd", "at": "2026-03-08T01:00:00Z", "id": "beat"}


def instant(at: datetime) -> str:
    """Write an instant as events have it."""
    return at.isoformat(timespec="microseconds").replace("+00:00", "Z")


def history() -> list[Event]:
    """Return forty days of short jobs."""
    draws = Random(5)
    midnight = NOW.replace(hour=0)
    events: list[Event] = []
    for cohort in _COHORTS:
        for days in range(_DAYS, 0, -1):
            slow = cohort.until < days <= cohort.since
            for number in range(_JOBS_A_DAY):
                at = midnight - timedelta(days=days, hours=-24 * number / _JOBS_A_DAY)
                init_s = draws.gauss(90, 9) * (cohort.factor if slow else 1.0)
                job = f"{cohort.model}-{days:02}-{number}"
                events += _short(job, cohort.model, at, init_s, "4.2" if days <= 7 else "4.1")
    return events


def _short(job: str, model: str, at: datetime, init_s: float, version: str) -> Iterator[Event]:
    """Yield a job of eight accelerators that compiles, trains for half an hour and ends."""
    attempt = _Attempt(job, at)
    facts = {"cluster": CLUSTER, "model": model, "team": "golden", "hardware": "H100", "gpus": 8}
    yield attempt.event("job", 0, **facts, kind="finetune", code_version=version)
    yield attempt.event("attempt_started", 0, gpus=8, **attempt.place)
    yield attempt.span("launcher_init", 0, init_s)
    yield attempt.event("phase_started", init_s, phase="train_loop", **attempt.place)
    yield attempt.event("progress", init_s + 1800, step=100, **attempt.place)
    yield attempt.event("attempt_ended", init_s + 1800, outcome="completed", **attempt.place)
    yield attempt.event("job_ended", init_s + 1800, outcome="completed")


def recent() -> list[Event]:
    """Return jobs of the last hours: those move the counters, as they are sent live."""
    return [
        *_failed_and_resumed(),
        *_preempted(),
        *_hung(),
        *_odd(),
        *_open("live-running", 1.0),
        *_open("live-silent", 8.0),
        *_open("live-lost", 60.0),
        *_queued(),
    ]


_COLD = {
    "compile_id": "0/0",
    "function": "forward",
    "direction": "forward",
    "compile_cache": "cold",
}
_AGAIN = {
    **_COLD,
    "compile_id": "0/1",
    "recompile_reason": "0/0: tensor 'x' size mismatch at index 0. expected 4, actual 6",
    "varying": ["L['x']:0", "L['k']"],
}


@dataclass(frozen=True)
class _Attempt:
    """Writes events of one attempt, placed by seconds after its begin."""

    job: str
    began: datetime
    number: int = 0

    @property
    def place(self) -> Mapping[str, int]:
        return {"attempt": self.number}

    def event(self, kind: str, seconds: float, /, **members: object) -> Event:
        at = instant(self.began + timedelta(seconds=seconds))
        return {"type": kind, "job": self.job, "at": at, **members}

    def span(self, phase: str, start: float, end: float, /, **members: object) -> Event:
        begun = instant(self.began + timedelta(seconds=start))
        return self.event("span", end, phase=phase, start=begun, **self.place, **members)

    def start(self) -> Iterator[Event]:
        """Yield the way to the loop, which begins after 400 s."""
        yield self.event("attempt_started", 0, gpus=16, hosts=2, **self.place)
        yield self.span("scheduling", -30, 0)
        yield self.span("hardware_setup", 0, 40)
        yield self.span("launcher_init", 40, 150, stage="process_group_init")
        yield self.span("launcher_init", 40, 200)
        yield self.span("pt2_compile", 200, 330, stage="inductor", attributes=_COLD)
        yield self.span("pt2_compile", 200, 400)
        yield self.event("phase_started", 400, phase="train_loop", **self.place)


def _facts(attempt: _Attempt, **more: object) -> Event:
    facts = {"cluster": "larch", "model": "llm-live", "team": "golden", "hardware": "H200"}
    more = {"parameters": 7_000_000_000, "precision": "bf16", **more}
    return attempt.event("job", -60, **facts, gpus=16, kind="pretrain", owner="ada", **more)


def _trained(attempt: _Attempt, seconds: float, step: int, *, tokens: int = 1000) -> Event:
    return attempt.event("progress", seconds, step=step, tokens=step * tokens, **attempt.place)


def _failed_and_resumed() -> Iterator[Event]:
    first = _Attempt("live-failed", NOW - timedelta(hours=20))
    second = _Attempt(first.job, first.began + timedelta(seconds=4200), 1)
    labels = {"run": "nightly"}
    yield _facts(first, name="Nightly", image="trainer:4.2", code_version="4.2", labels=labels)
    yield from first.start()
    yield _trained(first, 400, 0)
    yield first.span("checkpoint_blocking", 1600, 1620)
    yield first.event("checkpoint_saved", 1650, step=100, bytes=10**9, **first.place)
    yield _trained(first, 1600, 100)
    yield first.span("stalled", 2000, 2100)
    yield first.span("evaluation", 2200, 2300)
    yield _trained(first, 4000, 250)
    died = {"exit_code": 1, "message": "NVRM: Xid (PCI:0000:9d:00): 79, GPU has fallen off"}
    yield first.event("attempt_ended", 4010, outcome="failed", **died, **first.place)
    yield from second.start()
    yield second.event("checkpoint_restored", 390, step=100, **second.place)
    yield _trained(second, 2000, 250)
    yield second.span("pt2_compile", 5000, 5030, stage="inductor", attributes=_AGAIN)
    yield _trained(second, 9000, 900)
    yield second.event("phase_ended", 9000, phase="train_loop", **second.place)
    yield second.span("shutdown", 9000, 9100, stage="model_publish")
    yield second.span("shutdown", 9000, 9120)
    yield second.event("attempt_ended", 9120, outcome="completed", exit_code=0, **second.place)
    yield second.event("job_ended", 9120, outcome="completed")


def _preempted() -> Iterator[Event]:
    attempt = _Attempt("live-preempted", NOW - timedelta(hours=9))
    yield _facts(attempt)
    yield from attempt.start()
    yield _trained(attempt, 7000, 500)
    gave_way = {"scheduler_state": "PREEMPTED", "preempted_by": "live-running"}
    yield attempt.event("attempt_ended", 7200, outcome="preempted", **gave_way, **attempt.place)
    oom = {"exit_code": 1, "exception": "torch.OutOfMemoryError", "message": "out of memory"}
    again = _Attempt(attempt.job, attempt.began + timedelta(hours=3), 1)
    yield from again.start()
    yield again.event("attempt_ended", 600, outcome="failed", **oom, **again.place)


def _hung() -> Iterator[Event]:
    """Yield an attempt that falls silent for an hour before its watchdog ends it."""
    first = _Attempt("live-hung", NOW - timedelta(hours=14))
    second = _Attempt(first.job, first.began + timedelta(hours=2), 1)
    yield _facts(first)
    yield from first.start()
    for step in (100, 200, 300):
        yield _trained(first, 10 * step, step)
    yield first.event("checkpoint_saved", 2000, step=150, **first.place)
    died = {"exit_code": 134, "signal": 6, "message": "Watchdog caught collective operation"}
    yield first.event("attempt_ended", 6600, outcome="failed", **died, **first.place)
    yield from second.start()
    yield second.event("checkpoint_restored", 390, step=150, **second.place)
    yield _trained(second, 2000, 300)
    yield second.event("attempt_ended", 2400, outcome="completed", **second.place)
    yield second.event("job_ended", 2400, outcome="completed")


def _odd() -> Iterator[Event]:
    """Yield a job of unknown accelerators that contradicts itself and is cancelled."""
    first = _Attempt("live-odd", NOW - timedelta(hours=30))
    second = _Attempt(first.job, first.began + timedelta(seconds=3000), 1)
    yield first.event("job", 0, model="llm-live", cluster="larch", owner="ada")
    yield first.event("job", 9, owner="grace", code_version="4.0")
    yield first.event("attempt_started", 0, **first.place)
    yield first.event("phase_started", 10, phase="launcher_init", **first.place)
    yield first.span("launcher_init", 5, 90, stage="device_init")
    yield first.event("phase_ended", 20, phase="pt2_compile", **first.place)  # it never began
    yield first.event("phase_started", 100, phase="train_loop", rank=0, host="a", **first.place)
    yield first.event("progress", 700, step=50, samples=400, rank=0, seq=9, **first.place)
    yield first.event("progress", 600, step=60, samples=300, rank=1, seq=8, **first.place)
    yield first.span("pt2_compile", 200, 260)
    yield first.span("checkpoint_blocking", 250, 300)  # over the compile
    yield first.event("checkpoint_saved", 280, step=40, duration_seconds=900, **first.place)
    yield second.event("attempt_started", 0, gpus=4, reason="requeue", **second.place)
    yield second.span("launcher_init", -3600, 60)  # it began before its attempt
    yield second.event("phase_started", 60, phase="train_loop", **second.place)
    yield second.event("progress", 900, step=80, attributes={"loss": 2}, **second.place)
    yield BEAT  # of the first one, after the next one began
    yield second.event("attempt_ended", 1000, outcome="cancelled", reason="by hand", **second.place)
    yield second.event("job_ended", 1000, outcome="cancelled")


def _open(job: str, minutes: float) -> Iterator[Event]:
    """Yield an attempt of the last three hours, last seen so many minutes before now."""
    attempt = _Attempt(job, NOW - timedelta(hours=3))
    yield _facts(attempt)
    yield from attempt.start()
    for step in (100, 500, 600):
        yield _trained(attempt, 10 * step, step)
    yield attempt.event("heartbeat", 3 * 3600 - 60 * minutes, **attempt.place)


def _queued() -> Iterator[Event]:
    attempt = _Attempt("live-queued", NOW - timedelta(minutes=20))
    yield _facts(attempt)
    yield attempt.event("phase_started", 0, phase="queued", **attempt.place)
