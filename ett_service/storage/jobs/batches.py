"""Job batches: what is stored of many jobs, read and rewritten in few statements."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

import msgspec
from sqlalchemy import ColumnElement, Connection, Table, bindparam, delete, func, insert, select
from sqlalchemy.dialects.postgresql import ARRAY

from ett_service.core.events import Event
from ett_service.core.ledger.clock import TOLERANCE_US
from ett_service.storage.jobs.ledger_rows import Columns, Head
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.storage.record.events import DECODERS
from ett_service.storage.schema import (
    correction,
    dirty,
    event,
    job,
    job_history,
    job_ledger,
    metadata,
    producer,
    store,
)

_NAME = "recompute"


class RecomputePosition(NamedTuple):
    """What is done: all jobs up to this one, in the order of their keys."""

    last: JobKey
    jobs: int
    events: int


def read(conn: Connection) -> RecomputePosition | None:
    """Return where the last recomputation was cut off; None if it came to its end."""
    text = conn.scalar(select(store.c.value).where(store.c.name == _NAME))
    return None if text is None else msgspec.json.decode(text, type=RecomputePosition)


def write(conn: Connection, position: RecomputePosition | None) -> None:
    """Note how far it has come; None that it came to its end."""
    conn.execute(delete(store).where(store.c.name == _NAME))
    if position is not None:
        text = msgspec.json.encode(position).decode()
        conn.execute(insert(store), {"name": _NAME, "value": text})


def _of_jobs(table: Table) -> tuple[ColumnElement[bool], ...]:
    return (
        table.c.project_id == bindparam("project_id"),
        table.c.job.in_(bindparam("jobs", expanding=True)),
    )


_EVENT_COUNT = (
    select(func.count())
    .where(event.c.project_id == job.c.project_id, event.c.job == job.c.job)
    .scalar_subquery()
)
_NEXT = (
    select(job.c.project_id, job.c.job, func.coalesce(job_ledger.c.event_count, _EVENT_COUNT))
    .outerjoin(
        job_ledger,
        (job_ledger.c.project_id == job.c.project_id) & (job_ledger.c.job == job.c.job),
    )
    .order_by(job.c.project_id, job.c.job)
    .limit(bindparam("most"))
)
_LATER_IN_PROJECT = (job.c.project_id == bindparam("of_project"), job.c.job > bindparam("after"))
_LATER_PROJECTS = job.c.project_id > bindparam("of_project")

_LOCK = (
    select(job.c.job)
    .where(*_of_jobs(job))
    .order_by(job.c.project_id, job.c.job)
    .with_for_update(key_share=True)
)
_TAKE = delete(dirty).where(*_of_jobs(dirty))
_EVENTS = select(event.c.job, event.c.type, event.c.body).where(*_of_jobs(event))
_CORRECTIONS = select(producer.c.job, producer.c.producer, producer.c.offset_us).where(
    *_of_jobs(producer), func.abs(producer.c.offset_us) > TOLERANCE_US
)
_CORRECTED = (
    select(correction.c.job)
    .where(*_of_jobs(correction), correction.c.taken_back_us.is_(None))
    .distinct()
)
_OF_HISTORY = select(job_history.c.job).where(*_of_jobs(job_history))
_HEADS = select(
    job_ledger.c.job,
    job_ledger.c.revision,
    job_ledger.c.formula_version,
    job_ledger.c.event_count,
    job_ledger.c.folded_us,
    job_ledger.c.due_us,
).where(*_of_jobs(job_ledger))


def following(conn: Connection, after: JobKey | None, most: int) -> list[tuple[JobKey, int]]:
    """Return up to *most* jobs in the order of their keys, each with how many events it has."""
    if after is None:
        return _keyed(conn, _NEXT, {"most": most})
    place = {"of_project": after.project_id, "after": after.job}
    found = _keyed(conn, _NEXT.where(*_LATER_IN_PROJECT), {**place, "most": most})
    if len(found) < most:
        place = {"of_project": after.project_id}
        left = most - len(found)
        found += _keyed(conn, _NEXT.where(_LATER_PROJECTS), {**place, "most": left})
    return found


def count(conn: Connection) -> int:
    """Return how many jobs there are."""
    return conn.scalar(select(func.count()).select_from(job)) or 0


def lock(conn: Connection, project_id: int, jobs: Sequence[str]) -> list[str]:
    """Lock the jobs until the transaction ends, and return those that are still there."""
    return list(conn.scalars(_LOCK, _of(project_id, jobs)))


def take_marks(conn: Connection, project_id: int, jobs: Sequence[str]) -> None:
    """Delete the marks of the jobs."""
    conn.execute(_TAKE, _of(project_id, jobs))


def heads(conn: Connection, project_id: int, jobs: Sequence[str]) -> dict[str, Head]:
    """Read the heads of those that have a ledger."""
    return {name: Head(*row) for name, *row in conn.execute(_HEADS, _of(project_id, jobs))}


def events(
    conn: Connection, project_id: int, jobs: Sequence[str]
) -> Iterator[tuple[str, list[Event]]]:
    """Yield all events of each job, in no order.

    They are decoded job by job: the events of one fit into a processor's cache, those of all of
    them do not.
    """
    bodies: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for name, kind, body in conn.execute(_EVENTS, _of(project_id, jobs)).all():
        bodies[name].append((kind, body))
    for name in jobs:
        yield name, [DECODERS[kind](body) for kind, body in bodies.pop(name, ())]


def clock_corrections(
    conn: Connection, project_id: int, jobs: Sequence[str]
) -> dict[str, dict[str, int]]:
    """Read the offsets that folds apply, as ``clocks.corrections`` does for one job."""
    found: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for name, sender, offset_us in conn.execute(_CORRECTIONS, _of(project_id, jobs)):
        found[name][sender] = offset_us
    return found


def corrected(conn: Connection, project_id: int, jobs: Sequence[str]) -> set[str]:
    """Return those about which a correction stands."""
    return set(conn.scalars(_CORRECTED, _of(project_id, jobs)))


def of_history(conn: Connection, project_id: int, jobs: Sequence[str]) -> set[str]:
    """Return those that a batch of ``history`` ever touched."""
    return set(conn.scalars(_OF_HISTORY, _of(project_id, jobs)))


def _keyed(conn: Connection, statement: Any, place: dict[str, Any]) -> list[tuple[JobKey, int]]:
    return [(JobKey(*row[:2]), row[2]) for row in conn.execute(statement, place)]


def _of(project_id: int, jobs: Sequence[str]) -> dict[str, object]:
    return {"project_id": project_id, "jobs": list(jobs)}


Values: TypeAlias = tuple[Any, ...]
"""A row, or its primary key, which is where a row begins."""


@dataclass(slots=True)
class Changes:
    """What is to be written, by the name of its table."""

    gone: defaultdict[str, list[Values]] = field(default_factory=lambda: defaultdict(list))
    put: defaultdict[str, list[Values]] = field(default_factory=lambda: defaultdict(list))

    def compare(self, table: Table, before: Iterable[Values], after: Sequence[Values]) -> None:
        """Gather what has to be written where *before* is stored and *after* is to be."""
        key = _key_length(table)
        stored = {row[:key]: row for row in before}
        rows = [row for row in after if stored.get(row[:key]) != row] if stored else after
        self.put[table.name] += rows
        if stored:
            kept = {row[:key] for row in after} - {row[:key] for row in rows}
            self.gone[table.name] += stored.keys() - kept

    def write(self, conn: Connection) -> None:
        """Delete what is gone, then insert the rest."""
        delete, insert = _WAYS[conn.dialect.name]
        for table in metadata.sorted_tables:
            if gone := self.gone.get(table.name):
                delete(conn, table, gone)
            if put := self.put.get(table.name):
                insert(conn, table, put)


def in_order(table: Table, project_id: int, job: str, rows: Iterable[Columns]) -> list[Values]:
    """Turn rows without project and job into values in the order of the table's columns."""
    values = _values(table)
    return [(project_id, job, *values(row)) for row in rows]


def stored(conn: Connection, table: Table, project_id: int, jobs: Collection[str]) -> list[Values]:
    """Read all rows of these jobs."""
    wanted = {"project_id": project_id, "jobs": list(jobs)}
    return [tuple(row) for row in conn.execute(_stored(table), wanted)] if jobs else []


@cache
def _stored(table: Table) -> Any:
    return select(table).where(
        table.c.project_id == bindparam("project_id"),
        table.c.job.in_(bindparam("jobs", expanding=True)),
    )


@cache
def _values(table: Table) -> Callable[[Columns], Values]:
    return itemgetter(*(column.name for column in list(table.columns)[2:]))


@cache
def _key_length(table: Table) -> int:
    """Return how many columns the primary key has, which the others follow."""
    names = [column.name for column in table.primary_key]
    assert names == [column.name for column in table.columns][: len(names)], table.name
    return len(names)


def _names(table: Table) -> str:
    return ", ".join(column.name for column in table.columns)


def _delete_on_sqlite(conn: Connection, table: Table, keys: Sequence[Values]) -> None:
    where = " AND ".join(f"{column.name} = ?" for column in table.primary_key)
    statement = f"DELETE FROM {table.name} WHERE {where}"  # noqa: S608 - names of the schema
    conn.exec_driver_sql(statement, list(keys))


def _insert_on_sqlite(conn: Connection, table: Table, rows: Sequence[Values]) -> None:
    names, places = _names(table), ", ".join("?" * len(table.columns))
    statement = f"INSERT INTO {table.name} ({names}) VALUES ({places})"  # noqa: S608 - as above
    conn.exec_driver_sql(statement, list(rows))


def _delete_on_postgresql(conn: Connection, table: Table, keys: Sequence[Values]) -> None:
    names = [column.name for column in table.primary_key]
    arrays = dict(zip(names, map(list, zip(*keys, strict=True)), strict=True))
    conn.execute(_delete_listed(table), arrays)


@cache
def _delete_listed(table: Table) -> Any:
    names = [column.name for column in table.primary_key]
    arrays = [bindparam(name, type_=ARRAY(table.c[name].type)) for name in names]
    listed = func.unnest(*arrays).table_valued(*names, name="listed").render_derived()
    return table.delete().where(*(table.c[name] == listed.c[name] for name in names))


def _copy(conn: Connection, table: Table, rows: Sequence[Values]) -> None:
    driver = conn.connection.driver_connection
    assert driver is not None
    with (
        driver.cursor() as cursor,
        cursor.copy(f"COPY {table.name} ({_names(table)}) FROM STDIN") as copy,
    ):
        for row in rows:
            copy.write_row(row)


_WAYS = {
    "sqlite": (_delete_on_sqlite, _insert_on_sqlite),
    "postgresql": (_delete_on_postgresql, _copy),
}
