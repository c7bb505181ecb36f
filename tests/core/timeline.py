"""Events by the second, for examples that a reader can follow."""

from ett_service.core.events import (
    AttemptEnded,
    AttemptStarted,
    CheckpointSaved,
    Event,
    Progress,
    SpanOver,
)
from ett_service.core.words import Origin, Outcome, Phase

SECOND = 1_000_000


def span(phase: Phase, start_s: float, end_s: float, attempt: int = 0) -> Event:
    """A phase that is over, in seconds."""
    start, end = int(start_s * SECOND), int(end_s * SECOND)
    return SpanOver(
        id=f"{phase}-{start}-{end}-{attempt}", at=end, start=start, attempt=attempt, phase=phase
    )


def started(at_s: float, attempt: int = 0, gpus: int | None = None) -> Event:
    """Return the start of an attempt."""
    return AttemptStarted(
        id=f"start-{at_s}-{attempt}", at=int(at_s * SECOND), attempt=attempt, gpus=gpus
    )


def ended(at_s: float, outcome: Outcome, attempt: int = 0, origin: Origin | None = None) -> Event:
    """Return the end of an attempt."""
    return AttemptEnded(
        id=f"end-{at_s}-{attempt}",
        at=int(at_s * SECOND),
        attempt=attempt,
        cycle=0,
        outcome=outcome,
        origin=origin,
    )


def progress(at_s: float, step: int, attempt: int = 0) -> Event:
    """Return a report that a step is done."""
    return Progress(
        id=f"step-{at_s}-{step}-{attempt}", at=int(at_s * SECOND), step=step, attempt=attempt
    )


def saved(at_s: float, step: int, attempt: int = 0) -> Event:
    """Return a checkpoint that is durable."""
    return CheckpointSaved(
        id=f"save-{at_s}-{step}-{attempt}", at=int(at_s * SECOND), step=step, attempt=attempt
    )
