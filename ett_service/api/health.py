"""Whether the process lives, and whether it can do its work."""

from typing import Any, Literal

from fastapi import APIRouter, Response
from pydantic import ConfigDict, Field
from sqlalchemy.exc import SQLAlchemyError

from ett_service.api.answers import Answer
from ett_service.api.deps import AppParts
from ett_service.api.state import Parts
from ett_service.core.errors import EttError
from ett_service.storage.engine.migrate import schema_is_current
from ett_service.storage.record import dirty_marks

router = APIRouter(tags=["health"])

State = Literal["ok", "failed", "elsewhere", "unknown"]


class Health(Answer):
    """The process answers."""

    model_config = ConfigDict(json_schema_extra={"example": {"status": "ok"}})

    status: Literal["ok"] = "ok"


class Readiness(Answer):
    """Whether the service can do its work, part by part."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "ready": True,
                "parts": {"store": "ok", "schema": "ok", "worker": "ok"},
                "waiting_jobs": 0,
            }
        }
    )

    ready: bool
    parts: dict[Literal["store", "schema", "worker"], State] = Field(
        description="`elsewhere`: other processes work on this database."
    )
    waiting_jobs: int | None = Field(description="Jobs with events that are not in their numbers.")


_NOT_READY: dict[int | str, dict[str, Any]] = {
    503: {"description": "A part failed", "model": Readiness}
}


@router.get("/healthz", operation_id="read_health")
def read_health() -> Health:
    """Tell that the process answers."""
    return Health()


@router.get("/readyz", operation_id="read_readiness", responses=_NOT_READY)
def read_readiness(parts: AppParts, response: Response) -> Readiness:
    """Tell whether the store can be read, its schema fits, and the worker runs."""
    readiness = _readiness(parts)
    response.status_code = 200 if readiness.ready else 503
    return readiness


def _readiness(parts: Parts) -> Readiness:
    worker: State = "elsewhere"
    if parts.worker is not None:
        worker = "ok" if parts.worker.alive else "failed"
    try:
        with parts.store.reading() as conn:
            current = schema_is_current(conn)
            waiting = dirty_marks.count(conn) if current else None
    except (EttError, SQLAlchemyError):
        states: tuple[State, State] = ("failed", "unknown")
        current, waiting = False, None
    else:
        states = ("ok", "ok" if current else "failed")
    store, schema = states
    return Readiness(
        ready=current and worker != "failed",
        parts={"store": store, "schema": schema, "worker": worker},
        waiting_jobs=waiting,
    )
