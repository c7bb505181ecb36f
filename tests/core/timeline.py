"""Events by the second, for examples that a reader can follow."""

from collections.abc import Sequence
from dataclasses import replace

from ett_service.core.events import (
    AttemptEnded,
    AttemptStarted,
    CheckpointSaved,
    Event,
    JobEnded,
    PhaseStarted,
    Progress,
    SpanOver,
)
from ett_service.core.words import Origin, Outcome, Phase

SECOND = 1_000_000


def span(
    phase: Phase, start_s: float, end_s: float, attempt: int = 0, stage: str | None = None
) -> Event:
    """A phase that is over, or a stage of it, in seconds."""
    start, end = int(start_s * SECOND), int(end_s * SECOND)
    return SpanOver(
        id=f"{phase}-{stage}-{start}-{end}-{attempt}",
        at=end,
        start=start,
        attempt=attempt,
        phase=phase,
        stage=stage,
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


def of_launch(launch: str, *events: Event) -> list[Event]:
    """Return events as those of a launch, each with an id of its own."""
    return [replace(event, id=f"{launch}-{event.id}", launch=launch) for event in events]


def trained(launch: str, at_s: float, steps: Sequence[int] = (1, 2, 3)) -> list[Event]:
    """Ten seconds to start, then sixty in the loop, of which the last step ends."""
    marks = [progress(at_s + 10 + 20 * (place + 1), step) for place, step in enumerate(steps)]
    return of_launch(
        launch,
        started(at_s, gpus=8),
        span(Phase.TRAIN_LOOP, at_s + 10, at_s + 70),
        *marks,
        ended(at_s + 80, Outcome.COMPLETED),
    )


def over(at_s: float, outcome: Outcome = Outcome.COMPLETED) -> Event:
    """Return the end of the job."""
    return JobEnded(id=f"over-{at_s}", at=int(at_s * SECOND), outcome=outcome)


def queued(at_s: float) -> Event:
    """Return the begin of a wait in the queue."""
    return PhaseStarted(id=f"queued-{at_s}", at=int(at_s * SECOND), phase=Phase.QUEUED)
