"""Deletion of a job: its record and everything that was computed from it."""

from dataclasses import dataclass

from sqlalchemy import Connection, Table, bindparam, delete, func, select

from ett_service.storage.fleet import contributions
from ett_service.storage.record import dirty_marks
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.storage.schema import attempt_ledger, correction, event, metadata

OF_A_JOB: tuple[Table, ...] = tuple(
    table
    for table in reversed(metadata.sorted_tables)
    if {"project_id", "job"} <= set(table.columns.keys())
)
"""Every table that holds rows of one job, the one that all others refer to last."""


@dataclass(frozen=True, slots=True)
class Holdings:
    """How much the store holds of a job."""

    events: int
    attempts: int
    corrections: int


_COUNTED = (event, attempt_ledger, correction)
_COUNTS = [
    select(func.count())
    .select_from(table)
    .where(table.c.project_id == bindparam("of_project"), table.c.job == bindparam("of_job"))
    for table in _COUNTED
]
_DELETIONS = [
    delete(table).where(
        table.c.project_id == bindparam("of_project"), table.c.job == bindparam("of_job")
    )
    for table in OF_A_JOB
]


def holdings(conn: Connection, key: JobKey) -> Holdings | None:
    """Tell what a deletion would take; None if there is no such job."""
    if dirty_marks.born_us(conn, key) is None:
        return None
    return Holdings(*(conn.execute(count, _of(key)).scalar_one() for count in _COUNTS))


def delete_job(conn: Connection, key: JobKey) -> Holdings | None:
    """Take the job out of the rollups and delete its rows; None if there is no such job.

    The lock keeps the worker and ingest away until the transaction ends. What is sent of the
    job from then on makes a new one of its name.
    """
    if not dirty_marks.wait_for(conn, key, alone=True):
        return None
    held = holdings(conn, key)
    contributions.replace(conn, key, {})
    for deletion in _DELETIONS:
        conn.execute(deletion, _of(key))
    return held


def _of(key: JobKey) -> dict[str, object]:
    return {"of_project": key.project_id, "of_job": key.job}
