"""Events on the wire and as decoded, with defaults for what a test leaves open."""

import itertools
from typing import Any, TypeVar

from ett_service.core.events import (
    AttemptEnded,
    AttemptStarted,
    CheckpointSaved,
    Event,
    PhaseStarted,
    Progress,
    SpanOver,
)
from ett_service.core.words import Outcome, Phase
from tests.builders.clock import MINUTE, NOON, SECOND

E = TypeVar("E", bound=Event)

_numbers = itertools.count()


def event(kind: type[E], at: int = NOON, **members: Any) -> E:
    """Build a decoded event; its id is unique unless given."""
    return kind(**{"id": f"e-{next(_numbers)}", "at": at, **members})


def progress(step: int, at: int = NOON, **members: Any) -> Progress:
    """Build a report that *step* is done."""
    return event(Progress, at, step=step, **members)


def wire(kind: str = "heartbeat", **members: Any) -> dict[str, Any]:
    """Build an event on the wire; None removes a member."""
    sent = {"type": kind, "job": "llm-70b", "at": "2026-03-01T12:00:00Z", **members}
    return {name: value for name, value in sent.items() if value is not None}


def restarted_job() -> list[Event]:
    """A job that failed in training and trains again."""
    return [
        event(AttemptStarted, gpus=8),
        event(PhaseStarted, NOON + MINUTE, phase=Phase.TRAIN_LOOP),
        *(progress(step, NOON + MINUTE + step * SECOND) for step in range(20)),
        event(SpanOver, NOON + MINUTE, phase=Phase.LAUNCHER_INIT, stage="device_init", start=NOON),
        event(CheckpointSaved, NOON + MINUTE + 20 * SECOND, step=20),
        event(AttemptEnded, NOON + 3 * MINUTE, outcome=Outcome.FAILED),
        event(AttemptStarted, NOON + 4 * MINUTE, attempt=1),
        event(PhaseStarted, NOON + 5 * MINUTE, attempt=1, phase=Phase.TRAIN_LOOP),
        progress(1, NOON + 6 * MINUTE, attempt=1),
    ]
