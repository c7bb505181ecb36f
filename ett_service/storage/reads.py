"""What is known about one job, as it was accepted."""

from collections.abc import Collection, Iterator
from typing import TypeVar

from sqlalchemy import Connection, bindparam, exists, select

from ett_service.core.event import Event
from ett_service.storage import tables
from ett_service.storage.body import decode_body

T = TypeVar("T")

_event, _producer, _job, _store = tables.event, tables.producer, tables.job, tables.store

_EVENTS = select(_event.c.type, _event.c.body).where(
    _event.c.project_id == bindparam("project_id"), _event.c.job == bindparam("job")
)
_EVENTS_OF_BATCHES = _EVENTS.where(_event.c.batch.in_(bindparam("batches", expanding=True)))
_OFFSETS = select(_producer.c.producer, _producer.c.offset_us).where(
    _producer.c.project_id == bindparam("project_id"), _producer.c.job == bindparam("job")
)
_JOB_EXISTS = select(
    exists().where(_job.c.project_id == bindparam("project_id"), _job.c.job == bindparam("job"))
)
_STORE_EPOCH = select(_store.c.value).where(_store.c.name == "store_epoch")

#: Values in one IN list; both engines take many more.
_AT_ONCE = 500


def events(
    conn: Connection, project_id: int, job: str, batches: Collection[int] | None = None
) -> list[Event]:
    """Return the job's events in no order, of these *batches* only where they are given."""
    of_the_job = {"project_id": project_id, "job": job}
    if batches is None:
        rows = conn.execute(_EVENTS, of_the_job)
        return [decode_body(kind, body) for kind, body in rows]
    found: list[Event] = []
    for some in _pieces(batches):
        rows = conn.execute(_EVENTS_OF_BATCHES, {**of_the_job, "batches": some})
        found += [decode_body(kind, body) for kind, body in rows]
    return found


def offsets(conn: Connection, project_id: int, job: str) -> dict[str, int]:
    """Return the microseconds to add to each producer's instants."""
    rows = conn.execute(_OFFSETS, {"project_id": project_id, "job": job})
    return {row.producer: row.offset_us for row in rows}


def job_exists(conn: Connection, project_id: int, job: str) -> bool:
    """Whether an event of *job* was ever accepted."""
    return bool(conn.execute(_JOB_EXISTS, {"project_id": project_id, "job": job}).scalar_one())


def store_epoch(conn: Connection) -> str:
    """Return the name that tells this store from one that takes its place."""
    epoch: str = conn.execute(_STORE_EPOCH).scalar_one()
    return epoch


def _pieces(values: Collection[T]) -> Iterator[list[T]]:
    every = list(values)
    for start in range(0, len(every), _AT_ONCE):
        yield every[start : start + _AT_ONCE]
