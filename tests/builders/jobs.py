"""A job that fails and goes on, as wire events: ninety minutes whose numbers are known."""

import hashlib
from collections.abc import Sequence
from typing import Any

from ett_service.core.intervals import rfc3339
from tests.builders.clock import MINUTE, NOON


def at(minute: float) -> str:
    """Return the instant so many minutes after noon, as it is sent."""
    return rfc3339(NOON + round(minute * MINUTE))


def wire_event(kind: str, minute: float, job: str = "llm-70b", **members: Any) -> dict[str, Any]:
    """Build a wire event so many minutes after noon; its id is unique."""
    event = {"type": kind, "job": job, "at": at(minute), **members}
    return {**event, "id": hashlib.sha256(repr(event).encode()).hexdigest()[:16]}


def wire_span(phase: str, start: float, end: float, **members: Any) -> dict[str, Any]:
    """Build a span from one minute after noon to another."""
    return wire_event("span", end, phase=phase, start=at(start), **members)


def compiled_job(name: str, start: int, compiling: int, **facts: Any) -> list[dict[str, Any]]:
    """Return a job on 8 accelerators that compiles for so many minutes and trains for 30."""
    middle, end = start + compiling, start + compiling + 30
    return [
        wire_event("job", start, job=name, gpus=8, **facts),
        wire_span("pt2_compile", start, middle, job=name),
        wire_span("train_loop", middle, end, job=name),
        wire_event("attempt_ended", end, job=name, outcome="completed"),
    ]


def failing_job(job: str = "llm-70b", **facts: Any) -> list[dict[str, Any]]:
    """Return a job of eight accelerators that fails once.

    Attempt 0: scheduling 0 to 1, hardware 1 to 3, init 3 to 8, compile 8 to 10, then a loop that
    blocks for a checkpoint of step 100 from 19 to 20 and fails at 30, at step 200. Attempt 1
    begins at 32, initialises to 35, trains from step 100 on, reaches step 200 at 45, is finished
    at 60 and shuts down until 62.
    """
    named: dict[str, Any] = {"job": job}
    first, second = {"attempt": 0, **named}, {"attempt": 1, **named}
    described = {"model": "llm-70b", "cluster": "a", "team": "pretraining", "gpus": 8, **facts}
    return [
        wire_event("job", 0, **named, **described),
        wire_span("scheduling", 0, 1, **first),
        wire_event("attempt_started", 1, gpus=8, **first),
        wire_span("hardware_setup", 1, 3, **first),
        wire_span("launcher_init", 3, 8, **first),
        wire_span("pt2_compile", 8, 10, **first),
        wire_event("phase_started", 10, phase="train_loop", **first),
        wire_event("progress", 10, step=0, **first),
        wire_span("checkpoint_blocking", 19, 20, **first),
        wire_event("checkpoint_saved", 20, step=100, **first),
        wire_event("progress", 20, step=100, **first),
        wire_event("progress", 30, step=200, **first),
        wire_event("attempt_ended", 30, outcome="failed", exit_code=137, **first),
        wire_event("attempt_started", 32, gpus=8, **second),
        wire_span("launcher_init", 32, 35, **second),
        wire_event("phase_started", 35, phase="train_loop", **second),
        wire_event("checkpoint_restored", 35, step=100, **second),
        wire_event("progress", 45, step=200, **second),
        wire_event("progress", 60, step=350, **second),
        wire_event("phase_ended", 60, phase="train_loop", **second),
        wire_span("shutdown", 60, 62, **second),
        wire_event("attempt_ended", 62, outcome="completed", **second),
        wire_event("job_ended", 62, outcome="completed", **named),
    ]


def steps_taking(minutes: Sequence[int], gpus: int = 8) -> list[dict[str, Any]]:
    """A job of a loop in which each 60 steps take so many minutes, and 10 minutes before it."""
    now, events = 10, [wire_event("attempt_started", 0, gpus=gpus)]
    events.append(wire_event("phase_started", 10, phase="train_loop"))
    events.append(wire_event("progress", 10, step=0))
    for place, length in enumerate(minutes):
        now += length
        events.append(wire_event("progress", now, step=60 * (place + 1)))
    events.append(wire_event("phase_ended", now, phase="train_loop"))
    return [*events, wire_event("attempt_ended", now, outcome="completed")]


def repeated_job(job: str = "llm-70b") -> list[dict[str, Any]]:
    """Return a job that completes after ten minutes, and is begun again by another launch.

    Each run initialises for two minutes and trains for eight; three hours lie between them.
    """
    return [
        event
        for launch, begun in (("a", 0.0), ("b", 190.0))
        for event in _completed_run(job, launch, begun)
    ]


def _completed_run(job: str, launch: str, begun: float) -> list[dict[str, Any]]:
    named: dict[str, Any] = {"job": job, "launch": launch}
    return [
        wire_event("attempt_started", begun, gpus=8, **named),
        wire_span("launcher_init", begun, begun + 2, **named),
        wire_span("train_loop", begun + 2, begun + 10, **named),
        wire_event("attempt_ended", begun + 10, outcome="completed", **named),
        wire_event("job_ended", begun + 10, outcome="completed", job=job),
    ]
