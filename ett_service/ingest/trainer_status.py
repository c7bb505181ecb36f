"""What a trainer's status says, as Kubeflow defines it, and the events that it becomes.

``{"trainerStatus": {"lastUpdatedTime", "progressPercentage", "metrics": [{"name", "value"}]}}`` is
sent when training begins, without a step, then with ``current_step`` every few seconds, and with
100 percent at the end. Nothing in it separates one process from the next, so that each one without
a step is the begin of a life.
"""

import hashlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct
from sqlalchemy import Connection

from ett_service.core.words import Outcome, Phase
from ett_service.ingest import accept as batches
from ett_service.ingest.accept import Verdicts
from ett_service.ingest.decode import read_made
from ett_service.ingest.members import Frame
from ett_service.ingest.wire import Instant
from ett_service.storage.record.events import stored_ids

_STEP = "current_step"
_TOKENS = "num_input_tokens_seen"
_DONE = 100
_DIGITS = 15

EventMembers = dict[str, Any]


class TrainerMetric(Struct):
    """A figure of a trainer, of which the step and the tokens are read."""

    name: str
    value: str | int | float


class TrainerStatus(Struct, rename="camel"):
    """How far a trainer is."""

    last_updated_time: Instant
    progress_percentage: int | None = None
    estimated_remaining_seconds: int | None = None
    metrics: list[TrainerMetric] | None = None


class TrainerStatusUpdate(Struct, rename="camel"):
    """What trainers post to Kubeflow, and here."""

    trainer_status: TrainerStatus


class Trainer(NamedTuple):
    """Whose status it is."""

    job: str
    launch: str = ""
    attempt: int = 0


def trainer_status_schema() -> dict[str, Any]:
    """Return the JSON schemas by name, for OpenAPI."""
    _, schemas = msgspec.json.schema_components(
        (TrainerStatusUpdate,), ref_template="#/components/schemas/{name}"
    )
    return schemas


def accept(
    conn: Connection,
    trainer: Trainer,
    status: TrainerStatus,
    *,
    project_id: int,
    frame: Frame,
) -> Verdicts:
    """Keep what is new in *status*, in the caller's transaction.

    A step whose begin never arrived begins the life itself: the callback sends nothing twice.
    """
    seen = _name(trainer, "seen")
    is_seen = bool(stored_ids(conn, project_id, {(trainer.job, seen)}))
    events = list(_events(trainer, status, is_begun=is_seen))
    if not is_seen:
        events.append(_event(trainer, status, "heartbeat", id=seen))
    return batches.accept(
        conn, read_made(events, frame), project_id=project_id, now_us=frame.now_us
    )


def _events(trainer: Trainer, status: TrainerStatus, *, is_begun: bool) -> Iterator[EventMembers]:
    step = _figure(status, _STEP)
    is_over = status.progress_percentage == _DONE
    if not is_begun or (step is None and not is_over):
        life = _name(trainer, status.last_updated_time)
        yield _event(trainer, status, "attempt_started", producer=life)
        yield _event(trainer, status, "phase_started", phase=Phase.TRAIN_LOOP.value)
    if step is not None:
        yield _event(trainer, status, "progress", step=step, tokens=_figure(status, _TOKENS))
    if is_over:
        yield _event(trainer, status, "phase_ended", phase=Phase.TRAIN_LOOP.value)
        for kind in ("attempt_ended", "job_ended"):
            yield _event(trainer, status, kind, outcome=Outcome.COMPLETED.value)


def _event(trainer: Trainer, status: TrainerStatus, kind: str, **members: Any) -> EventMembers:
    """Return an event of the rank that reports: the first one."""
    identity = {"launch": trainer.launch, "attempt": trainer.attempt, "rank": 0}
    stated = {name: value for name, value in members.items() if value is not None}
    return {
        "type": kind,
        "job": trainer.job,
        "at": status.last_updated_time,
        **identity,
        **stated,
    }


def _figure(status: TrainerStatus, name: str) -> int | None:
    """Return a whole number from 0, None where the trainer says none."""
    for metric in status.metrics or ():
        text = str(metric.value)
        if metric.name == name and text.isascii() and text.isdigit() and len(text) <= _DIGITS:
            return int(text)
    return None


def _name(trainer: Trainer, *words: str) -> str:
    content = msgspec.json.encode([trainer.launch, trainer.attempt, *words])
    return f"kubeflow:{hashlib.sha256(content).hexdigest()[:24]}"
