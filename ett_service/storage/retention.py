"""Retention: the record of jobs that are long over is deleted, and their results stay.

Of the fleet's sums by hour, which :mod:`ett_service.storage.fleet.hours` prunes, those by day stay.

A job is pruned as a whole. It is marked first, in one transaction with what is to be deleted, and
from then on takes no events; the rows go step by step, so that no writer waits for long, and a
process that dies amid them is gone on for by the next. Old deliveries are removed, too, and a job
can be deleted for good.
"""

from dataclasses import dataclass
from typing import Any

import msgspec
from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    Table,
    bindparam,
    delete,
    exists,
    func,
    insert,
    select,
    update,
)

from ett_service.core.intervals import DAY_US
from ett_service.core.ledger.results import FORMULA_VERSION
from ett_service.core.words import JobState
from ett_service.storage.fleet import contributions
from ett_service.storage.receivers.deliveries import DeliveryState
from ett_service.storage.record import dirty_marks
from ett_service.storage.record.dirty_marks import JobBatch, JobKey
from ett_service.storage.record.pruned import pruned
from ett_service.storage.schema import (
    attempt_ledger,
    correction,
    delivery,
    dirty,
    event,
    job,
    job_ledger,
    metadata,
    producer,
    segment,
    store,
)

PRUNED_TABLES: tuple[Table, ...] = (event, segment, producer)
"""What goes of a job, in this order; all else of it stays."""

ROWS_AT_ONCE = 5_000
"""Deleted in one transaction."""

JOBS_AT_ONCE = 50
"""Marked in one transaction."""

LEASE = "pruner"

_NAME = "pruning"  #: the row of ``store`` that names the jobs whose rows are going
_CLOSED = sorted(state.value for state in (JobState.FINISHED, JobState.INTERRUPTED))

_DELIVERED = [
    state.value for state in (DeliveryState.SENT, DeliveryState.SUPERSEDED, DeliveryState.DEAD)
]
_OLD_DELIVERIES = (
    select(delivery.c.id)
    .where(delivery.c.done.in_(_DELIVERED), delivery.c.done_us < bindparam("before_us"))
    .limit(bindparam("most"))
)

OF_A_JOB: tuple[Table, ...] = tuple(
    table
    for table in reversed(metadata.sorted_tables)
    if {"project_id", "job"} <= set(table.columns.keys())
)
"""Every table that holds rows of one job, the one that all others refer to last."""


def _of(table: Table, other: Table) -> ColumnElement[bool]:
    return (table.c.project_id == other.c.project_id) & (table.c.job == other.c.job)


#: Closed for as long as is asked, by the instants that it names; folded to the last fact by this
#: formula, as it cannot be folded again.
_OVER = (
    job.c.pruned_us.is_(None),
    job.c.received_us < bindparam("before_us"),
    job_ledger.c.state.in_(_CLOSED),
    job_ledger.c.due_us.is_(None),
    job_ledger.c.formula_version == FORMULA_VERSION,
    func.coalesce(job_ledger.c.ended_us, 0) < bindparam("before_us"),
    ~exists().where(_of(dirty, job)),
)
#: Nor heard of since, which takes reading what it sent.
_SILENT = ~exists().where(_of(event, job), event.c.received_us >= bindparam("before_us"))


def _prunable(*columns: ColumnElement[Any]) -> Select[Any]:
    return select(*columns).join_from(job, job_ledger, _of(job_ledger, job)).where(*_OVER)


_KEYS = (
    _prunable(job.c.project_id, job.c.job)
    .where(_SILENT)
    .order_by(job.c.received_us)
    .limit(bindparam("most"))
)
_AMOUNT = _prunable(func.count(), func.coalesce(func.sum(job_ledger.c.event_count), 0))
_MARK = (
    update(job)
    .where(job.c.project_id == bindparam("of_project"), job.c.job == bindparam("of_job"))
    .values(pruned_us=bindparam("now_us"))
)


def _deletion(table: Table) -> Any:
    """Delete some rows of a job, named by their keys: neither engine limits a deletion itself."""
    of_job = (table.c.project_id == bindparam("of_project"), table.c.job == bindparam("of_job"))
    key = list(table.primary_key)[2]
    some = select(key).where(*of_job).limit(bindparam("most"))
    return delete(table).where(*of_job, key.in_(some))


_DELETIONS = [_deletion(table) for table in PRUNED_TABLES]


@dataclass(frozen=True, slots=True)
class Kept:
    """How long what is pruned is kept before, in microseconds; None for ever."""

    record_us: int | None  #: events and segments, since their job was closed
    hourly_us: int | None  #: hours of the rollups

    @classmethod
    def for_days(cls, record: int, hourly: int) -> "Kept":
        """Read numbers of days, of which 0 is for ever."""
        return cls(record * DAY_US or None, hourly * DAY_US or None)


@dataclass(frozen=True, slots=True)
class Prunable:
    """What pruning would delete now."""

    jobs: int
    events: int


def prunable(conn: Connection, before_us: int, *, roughly: bool = False) -> Prunable:
    """Count the jobs that were closed, and last heard of, before an instant in microseconds.

    *roughly* reads no events: jobs are counted whose first came before it.
    """
    statement = _AMOUNT if roughly else _AMOUNT.where(_SILENT)
    jobs, events = conn.execute(statement, {"before_us": before_us}).one()
    return Prunable(jobs, int(events))


def begin(conn: Connection, before_us: int, now_us: int, most: int = JOBS_AT_ONCE) -> int:
    """Mark up to *most* jobs as pruned, and return how many; their rows are still to be deleted.

    Those at which somebody writes are passed over. Until :func:`advance` is done with them, no
    others are begun.
    """
    if going(conn):
        return 0
    rows = conn.execute(_KEYS, {"before_us": before_us, "most": most}).all()
    # In order, as ingest locks them: two writers never wait for each other in a circle.
    candidates = sorted(JobKey(*row) for row in rows)
    keys = [key for key in candidates if _lock(conn, key, before_us)]
    if keys:
        marks = [
            {"of_project": key.project_id, "of_job": key.job, "now_us": now_us} for key in keys
        ]
        conn.execute(_MARK, marks)
        _write(conn, keys)
    return len(keys)


def advance(conn: Connection, most: int = ROWS_AT_ONCE) -> int:
    """Delete up to *most* rows of jobs that were begun, and return how many; 0 if all are done."""
    keys = going(conn)
    deleted = 0
    while keys and deleted < most:
        deleted += _delete(conn, keys[0], most - deleted)
        if deleted < most:
            keys = keys[1:]
    _write(conn, keys)
    return deleted


def going(conn: Connection) -> list[JobKey]:
    """Return the jobs whose rows are being deleted."""
    text = conn.scalar(select(store.c.value).where(store.c.name == _NAME))
    return [] if text is None else msgspec.json.decode(text, type=list[JobKey])


def _lock(conn: Connection, key: JobKey, before_us: int) -> bool:
    """Keep ingest and the worker away, and look again: what they brought before stands."""
    of_job = (job.c.project_id == key.project_id, job.c.job == key.job)
    locked = select(job.c.job).where(*of_job).with_for_update(skip_locked=True)
    if conn.scalar(locked) is None:
        return False
    again = _prunable(job.c.job).where(_SILENT, *of_job)
    return conn.scalar(again, {"before_us": before_us}) is not None


def _delete(conn: Connection, key: JobKey, most: int) -> int:
    """Delete rows of a job, unless it was deleted itself: its name may be another's by now."""
    if not pruned(conn, JobBatch(key.project_id, [key.job])):
        return 0
    deleted = 0
    for deletion in _DELETIONS:
        if deleted < most:
            of = {"of_project": key.project_id, "of_job": key.job, "most": most - deleted}
            deleted += conn.execute(deletion, of).rowcount
    return deleted


def _write(conn: Connection, keys: list[JobKey]) -> None:
    conn.execute(delete(store).where(store.c.name == _NAME))
    if keys:
        text = msgspec.json.encode(keys).decode()
        conn.execute(insert(store), {"name": _NAME, "value": text})


def prune_deliveries(conn: Connection, before_us: int, most: int) -> int:
    """Remove up to *most* deliveries that were over before an instant; return how many."""
    ids = conn.execute(_OLD_DELIVERIES, {"before_us": before_us, "most": most}).scalars().all()
    if ids:
        conn.execute(delete(delivery).where(delivery.c.id.in_(ids)))
    return len(ids)


@dataclass(frozen=True, slots=True)
class Holdings:
    """How much the store holds of a job."""

    events: int
    attempts: int
    corrections: int


_COUNTED_OF_A_JOB = (event, attempt_ledger, correction)
_COUNTS = [
    select(func.count())
    .select_from(table)
    .where(table.c.project_id == bindparam("of_project"), table.c.job == bindparam("of_job"))
    for table in _COUNTED_OF_A_JOB
]
_DELETIONS_OF_A_JOB = [
    delete(table).where(
        table.c.project_id == bindparam("of_project"), table.c.job == bindparam("of_job")
    )
    for table in OF_A_JOB
]


def holdings(conn: Connection, key: JobKey) -> Holdings | None:
    """Return what a deletion would take; None if there is no such job."""
    if dirty_marks.born_us(conn, key) is None:
        return None
    return Holdings(*(conn.execute(count, _of_job(key)).scalar_one() for count in _COUNTS))


def delete_job(conn: Connection, key: JobKey) -> Holdings | None:
    """Take the job out of the rollups and delete its rows; None if there is no such job.

    The lock keeps the worker and ingest away until the transaction ends. What is sent of the
    job from then on makes a new one of its name.
    """
    if not dirty_marks.wait_for(conn, key, alone=True):
        return None
    held = holdings(conn, key)
    contributions.replace(conn, key, {})
    for deletion in _DELETIONS_OF_A_JOB:
        conn.execute(deletion, _of_job(key))
    return held


def _of_job(key: JobKey) -> dict[str, object]:
    return {"of_project": key.project_id, "of_job": key.job}
