"""Whether the process lives, and whether it can do its work."""

from typing import Any, Literal

from anyio import to_thread
from fastapi import APIRouter, Request, Response
from pydantic import Field
from sqlalchemy.exc import SQLAlchemyError

from ett_service.api.answers import Answer, Instant
from ett_service.api.deps import State
from ett_service.api.load.admission import Admission
from ett_service.api.state import AppState, Waker
from ett_service.core.errors import EttError
from ett_service.storage.engine.migrate import schema_is_current
from ett_service.storage.metrics import gauge_values

router = APIRouter(tags=["health"])

PartHealth = Literal["ok", "failed", "stalled", "elsewhere", "unknown"]


class Health(Answer):
    """The process answers."""

    status: Literal["ok"] = "ok"


class Readiness(Answer):
    """Whether the service can do its work, part by part."""

    ready: bool
    parts: dict[Literal["store", "schema", "worker", "disk"], PartHealth] = Field(
        description="`elsewhere`: the worker runs in another process. `stalled`: of ten jobs or "
        "more it could fold none; events are taken nevertheless. The `disk` fails while less "
        "than `min_free_bytes` are free beside a SQLite file, or it takes no writes."
    )
    waiting_jobs: int | None = Field(description="Jobs with events that are not folded in yet.")
    waiting_since: Instant | None = Field(description="When the oldest of these events came.")


_NOT_READY: dict[int | str, dict[str, Any]] = {
    503: {"description": "A part failed", "model": Readiness}
}


@router.get("/healthz", operation_id="read_health")
async def read_health() -> Health:
    """Return 200 while the process answers, however busy it is."""
    return Health()


@router.get("/readyz", operation_id="read_readiness", responses=_NOT_READY)
async def read_readiness(request: Request, state: State, response: Response) -> Readiness:
    """Check that the store can be read and has room, its schema is current and the worker runs."""
    admission: Admission = request.state.admission
    readiness = await to_thread.run_sync(_readiness, state, limiter=admission.health)
    response.status_code = 200 if readiness.ready else 503
    return readiness


def _readiness(state: AppState) -> Readiness:
    worker: PartHealth = "elsewhere"
    if state.worker is not None:
        worker = _worker(state.worker)
    try:
        with state.store.reading() as conn:
            current = schema_is_current(conn)
            waiting = gauge_values.waiting(conn) if current else None
    except (EttError, SQLAlchemyError):
        parts: tuple[PartHealth, PartHealth] = ("failed", "unknown")
        current, waiting = False, None
    else:
        parts = ("ok", "ok" if current else "failed")
    store, schema = parts
    disk = _disk(state)
    return Readiness.model_validate(
        {
            "ready": current and "failed" not in (worker, disk),
            "parts": {"store": store, "schema": schema, "worker": worker, "disk": disk},
            "waiting_jobs": waiting.jobs if waiting else None,
            "waiting_since": waiting.since_us if waiting else None,
        }
    )


def _worker(worker: Waker) -> PartHealth:
    if not worker.alive:
        return "failed"
    return "ok" if worker.folds else "stalled"


def _disk(state: AppState) -> PartHealth:
    try:
        state.store.require_room()
    except EttError:
        return "failed"
    return "ok"
