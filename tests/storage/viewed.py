"""Reading the public views as anybody may."""

from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import text

from ett_service.core.events import (
    AttemptEnded,
    AttemptStarted,
    CheckpointSaved,
    Event,
    JobFacts,
    PhaseEnded,
    PhaseStarted,
    SpanOver,
)
from ett_service.core.words import Outcome, Phase
from ett_service.storage.engine.store import Store
from tests.builders.clock import HOUR, MINUTE, NOON
from tests.builders.record import event, progress

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def all_of(name: str) -> str:
    return "SELECT * FROM " + name  # noqa: S608 - names of the schema


def read(store: Store, query: str, **values: Any) -> list[dict[str, Any]]:
    with store.reading() as conn:
        return [dict(row) for row in conn.execute(text(query), values).mappings()]


def instant(us: int, dialect: str) -> object:
    at = EPOCH + timedelta(microseconds=us)
    return at if dialect != "sqlite" else at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def trained_twice() -> list[Event]:
    """A job that fails 20 minutes after a save, and is then still at it two hours later."""
    saving = {"phase": Phase.CHECKPOINT_BLOCKING}
    return [
        event(JobFacts, team="nlp", hardware="h100", name="the long one"),
        event(AttemptStarted, gpus=64),
        event(PhaseStarted, phase=Phase.LAUNCHER_INIT),
        event(
            SpanOver,
            NOON + 4 * MINUTE,
            start=NOON + MINUTE,
            phase=Phase.LAUNCHER_INIT,
            stage="pre_train",
        ),
        event(PhaseStarted, NOON + 5 * MINUTE, phase=Phase.TRAIN_LOOP),
        *(progress(step, NOON + (5 + step) * MINUTE) for step in range(1, 25)),
        event(PhaseStarted, NOON + 30 * MINUTE, **saving),
        event(PhaseEnded, NOON + 31 * MINUTE, **saving),
        event(
            CheckpointSaved, NOON + 32 * MINUTE, step=24, bytes=7, duration_seconds=61.5, id="saved"
        ),
        *(progress(step, NOON + (5 + step) * MINUTE) for step in range(26, 47)),
        event(AttemptEnded, NOON + 52 * MINUTE, outcome=Outcome.FAILED, signal=9),
        event(AttemptStarted, NOON + HOUR, attempt=1, gpus=32),
        event(PhaseStarted, NOON + HOUR + 3 * MINUTE + 1, attempt=1, phase=Phase.TRAIN_LOOP),
        progress(60, NOON + 2 * HOUR, attempt=1),
    ]
