"""What is known about one job, as it was accepted."""

from collections.abc import Collection, Iterator
from functools import cache
from typing import Any, TypeVar

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    Text,
    bindparam,
    exists,
    func,
    select,
    tuple_,
)
from sqlalchemy.dialects.postgresql import ARRAY

from ett_service.core.event import Event
from ett_service.storage import tables
from ett_service.storage.body import decode_body

T = TypeVar("T")
Pair = tuple[str, str]
PairOfColumns = tuple[ColumnElement[str], ColumnElement[str]]

_event, _producer, _job, _store = tables.event, tables.producer, tables.job, tables.store

_EVENTS = select(_event.c.type, _event.c.body).where(
    _event.c.project_id == bindparam("project_id"), _event.c.job == bindparam("job")
)
_EVENTS_OF_BATCHES = _EVENTS.where(_event.c.batch.in_(bindparam("batches", expanding=True)))
_KEPT_BODIES = select(_event.c.job, _event.c.id, _event.c.body).where(
    _event.c.project_id == bindparam("project_id"), _event.c.batch != bindparam("batch")
)
_OFFSETS = select(_producer.c.producer, _producer.c.offset_us).where(
    _producer.c.project_id == bindparam("project_id"), _producer.c.job == bindparam("job")
)
_KNOWN_OFFSETS = select(_producer.c.job, _producer.c.producer, _producer.c.offset_us).where(
    _producer.c.project_id == bindparam("project_id")
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


def kept_bodies(
    conn: Connection, project_id: int, keys: Collection[Pair], *, but_of_batch: int
) -> dict[Pair, str]:
    """Return by job and id the bodies of those *keys* that other batches brought."""
    asked = {"project_id": project_id, "batch": but_of_batch}
    rows = _among(conn, _KEPT_BODIES, (_event.c.job, _event.c.id), asked, keys)
    return {(job, event_id): body for job, event_id, body in rows}


def known_offsets(conn: Connection, project_id: int, keys: Collection[Pair]) -> dict[Pair, int]:
    """Return by job and producer the offsets of those *keys* that have one."""
    asked = {"project_id": project_id}
    rows = _among(conn, _KNOWN_OFFSETS, (_producer.c.job, _producer.c.producer), asked, keys)
    return {(job, producer): offset_us for job, producer, offset_us in rows}


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


def _among(
    conn: Connection,
    rows: Select[*tuple[Any, ...]],
    pair: PairOfColumns,
    asked: dict[str, Any],
    keys: Collection[Pair],
) -> Iterator[Row[*tuple[Any, ...]]]:
    """Yield those *rows* whose *pair* of columns is among *keys*."""
    if conn.dialect.name == "postgresql":
        firsts, seconds = [key[0] for key in keys], [key[1] for key in keys]
        statement = rows.where(tuple_(*pair).in_(_unnested()))
        yield from conn.execute(statement, {**asked, "firsts": firsts, "seconds": seconds})
        return
    statement = rows.where(tuple_(*pair).in_(bindparam("keys", expanding=True)))
    for some in _pieces(keys):
        yield from conn.execute(statement, {**asked, "keys": some})


@cache
def _unnested() -> Select[Any, Any]:
    """PostgreSQL looks arrays up in an index, and long lists one by one."""
    arrays = [bindparam(name, type_=ARRAY(Text)) for name in ("firsts", "seconds")]
    return select(func.unnest(*arrays).table_valued("first", "second").render_derived())


def _pieces(values: Collection[T]) -> Iterator[list[T]]:
    every = list(values)
    for start in range(0, len(every), _AT_ONCE):
        yield every[start : start + _AT_ONCE]
