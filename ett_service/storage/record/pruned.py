"""Jobs whose record was pruned: their results stand, and what these were made of is gone."""

from sqlalchemy import Connection, bindparam, select

from ett_service.core.errors import EttError
from ett_service.core.intervals import rfc3339
from ett_service.storage.engine.driver import read_together
from ett_service.storage.record.dirty_marks import JobBatch, JobKey
from ett_service.storage.schema import job

_AT = select(job.c.pruned_us).where(
    job.c.project_id == bindparam("project_id"), job.c.job == bindparam("job")
)
# What a mark's foreign key would lock anyway, in the order in which it would.
_LOCKED = _AT.with_for_update(read=True, key_share=True)


class RecordPruned(EttError):
    """The events and segments of the job are gone."""

    hint = "Its results, attempts and share of the fleet's numbers stay; see `retention_days`."


def pruned(conn: Connection, batch: JobBatch) -> set[str]:
    """Return those of the jobs that take no events, and keep all as they are in this regard.

    That holds until the transaction ends; until it, a job's pruner waits.
    """
    names = sorted(batch.jobs)
    # A job each: Citus locks rows of one at a time. They are in one trip all the same.
    locked = read_together(
        conn, [(_LOCKED, JobKey(batch.project_id, name)._asdict()) for name in names]
    )
    return {
        name
        for name, rows in zip(names, locked, strict=True)
        if any(at_us is not None for (at_us,) in rows)
    }


def pruned_us(conn: Connection, key: JobKey) -> int | None:
    """Return when the job's record was pruned; None where it is whole, or there is no job."""
    return conn.scalar(_AT, key._asdict())


def require_record(conn: Connection, key: JobKey) -> None:
    """Let none go on who needs the events or segments of a job.

    Raises:
        RecordPruned: They are gone.
    """
    at_us = pruned_us(conn, key)
    if at_us is not None:
        day = rfc3339(at_us)[:10]
        raise RecordPruned(
            f"The events and segments of this job were pruned on {day}. "
            "Its results and attempts are kept."
        )
