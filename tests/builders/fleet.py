"""Small fleets with known figures, folded and stored as by the worker."""

from collections.abc import Sequence
from typing import Any

from ett_service.core.events import (
    AttemptEnded,
    AttemptStarted,
    Event,
    JobFacts,
    PhaseStarted,
    SpanOver,
)
from ett_service.core.words import Origin, Outcome, Phase
from ett_service.storage.engine.store import Store
from ett_service.storage.record.dirty_marks import JobKey
from tests.builders.clock import HOUR, MINUTE, NOON
from tests.builders.ledgers import deliver, refreshed
from tests.builders.record import event, progress

LATER = NOON + 400 * 24 * HOUR
"""An instant after the end of every job here."""


def store_job(store: Store, project_id: int, job: str, events: Sequence[Event]) -> JobKey:
    """Store the job's events and its ledger."""
    key = JobKey(project_id, job)
    deliver(store, key, events)
    refreshed(store, key, LATER)
    return key


def calm_job(
    at: int,
    *,
    initialising: int = 0,
    compiling: int = 0,
    training: int = 0,
    publishing: int = 0,
    gpus: int | None = 8,
    **facts: Any,
) -> list[Event]:
    """Return a job of one attempt that begins *at* an instant; its phases last so many minutes."""
    events: list[Event] = [event(JobFacts, at, **facts), event(AttemptStarted, at, gpus=gpus)]
    lengths = {
        Phase.LAUNCHER_INIT: initialising,
        Phase.PT2_COMPILE: compiling,
        Phase.TRAIN_LOOP: training,
        Phase.SHUTDOWN: publishing,
    }
    now = at
    for phase, minutes in lengths.items():
        start, now = now, now + minutes * MINUTE
        if minutes:
            events.append(event(SpanOver, now, start=start, phase=phase))
    if publishing:
        start = now - publishing * MINUTE
        events.append(
            event(SpanOver, now, start=start, phase=Phase.SHUTDOWN, stage="model_publish")
        )
    events.append(event(AttemptEnded, now, cycle=0, outcome=Outcome.COMPLETED))
    return events


def failing_job(at: int, origin: Origin = Origin.INFRA, **facts: Any) -> list[Event]:
    """Return a job on 8 accelerators that begins *at* an instant and fails once.

    It initialises for 10 minutes, trains a step a minute, fails after 50 without a save; 5
    minutes later it initialises again for 10, restores step 30, and repeats 20 minutes of the
    40 that it trains then. E2E is 115 minutes, 70 of them effective.
    """
    began = at + 65 * MINUTE
    return [
        event(JobFacts, at, **facts),
        event(AttemptStarted, at, gpus=8),
        event(SpanOver, at + 10 * MINUTE, start=at, phase=Phase.LAUNCHER_INIT),
        event(SpanOver, at + 60 * MINUTE, start=at + 10 * MINUTE, phase=Phase.TRAIN_LOOP),
        *(progress(step, at + (10 + step) * MINUTE) for step in range(51)),
        event(AttemptEnded, at + 60 * MINUTE, cycle=0, outcome=Outcome.FAILED, origin=origin),
        event(AttemptStarted, began, attempt=1, gpus=8),
        event(SpanOver, began + 10 * MINUTE, start=began, attempt=1, phase=Phase.LAUNCHER_INIT),
        event(PhaseStarted, began + 10 * MINUTE, attempt=1, phase=Phase.TRAIN_LOOP),
        *(progress(30 + step, began + (10 + step) * MINUTE, attempt=1) for step in range(41)),
        event(AttemptEnded, began + 50 * MINUTE, attempt=1, cycle=0, outcome=Outcome.COMPLETED),
    ]
