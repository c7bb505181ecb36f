"""All jobs that have their record, batch by batch, and how far a recomputation has come."""

from collections.abc import Iterator
from itertools import groupby
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import (
    Connection,
    bindparam,
    delete,
    func,
    insert,
    select,
)

from ett_service.storage.engine.driver import read_together
from ett_service.storage.engine.store import Readable
from ett_service.storage.record.dirty_marks import JobBatch, JobKey, of_jobs
from ett_service.storage.schema import dirty, event, job, job_history, job_ledger, store

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


MOST_JOBS, MOST_EVENTS = 200, 20_000
"""Of one batch: it is held in memory, and its jobs may be locked for as long as it is."""


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
    .where(job.c.pruned_us.is_(None))
    .order_by(job.c.project_id, job.c.job)
    .limit(bindparam("most"))
)
_LATER_IN_PROJECT = (job.c.project_id == bindparam("of_project"), job.c.job > bindparam("after"))
_LATER_PROJECTS = job.c.project_id > bindparam("of_project")

_LOCK = (
    select(job.c.job)
    .where(
        job.c.project_id == bindparam("project_id"),
        job.c.job == bindparam("job"),
        job.c.pruned_us.is_(None),
    )
    .with_for_update(key_share=True)
)
_TAKE = delete(dirty).where(*of_jobs(dirty))
_MARKED = select(dirty.c.job).where(*of_jobs(dirty)).distinct()
_OF_HISTORY = select(job_history.c.job).where(*of_jobs(job_history))


def following(conn: Connection, after: JobKey | None, most: int) -> list[tuple[JobKey, int]]:
    """Return up to *most* jobs in the order of their keys, each with how many events it has."""
    if after is None:
        return _keyed(conn, _NEXT, {"most": most})
    place = {"of_project": after.project_id, "after": after.job}
    jobs = _keyed(conn, _NEXT.where(*_LATER_IN_PROJECT), {**place, "most": most})
    if len(jobs) < most:
        place = {"of_project": after.project_id}
        left = most - len(jobs)
        jobs += _keyed(conn, _NEXT.where(_LATER_PROJECTS), {**place, "most": left})
    return jobs


def job_batches(store: Readable, after: JobKey | None = None) -> Iterator[tuple[JobBatch, int]]:
    """Yield all jobs behind *after*, each batch with how many events it has."""
    while True:
        with store.reading() as conn:
            jobs = following(conn, after, MOST_JOBS)
        if not jobs:
            return
        after = jobs[-1][0]
        yield from _cut(jobs)


def _cut(job_counts: list[tuple[JobKey, int]]) -> Iterator[tuple[JobBatch, int]]:
    """Cut jobs into batches of one project, none of many events but where one job has them."""
    for project_id, of_project in groupby(job_counts, key=lambda pair: pair[0].project_id):
        jobs: list[str] = []
        events = 0
        for key, count in of_project:
            if jobs and events + count > MOST_EVENTS:
                yield JobBatch(project_id, jobs), events
                jobs, events = [], 0
            jobs.append(key.job)
            events += count
        yield JobBatch(project_id, jobs), events


def count(conn: Connection) -> int:
    """Return how many jobs can be folded anew."""
    return conn.scalar(select(func.count()).where(job.c.pruned_us.is_(None))) or 0


def pruned(conn: Connection) -> int:
    """Return how many jobs are left out, because their record was pruned."""
    return conn.scalar(select(func.count()).where(job.c.pruned_us.is_not(None))) or 0


def lock(conn: Connection, batch: JobBatch) -> JobBatch:
    """Lock the jobs until the transaction ends, and return those that are still whole."""
    # A job each, in order: Citus locks rows of one at a time. They are in one trip all the same.
    keys = [JobKey(batch.project_id, name) for name in sorted(batch.jobs)]
    locked = read_together(conn, [(_LOCK, key._asdict()) for key in keys])
    return batch._replace(jobs=[name for rows in locked for (name,) in rows])


def take_marks(conn: Connection, batch: JobBatch) -> None:
    """Delete the marks of the jobs."""
    conn.execute(_TAKE, batch.parameters())


def marked(conn: Connection, batch: JobBatch) -> set[str]:
    """Return those with facts that their ledgers do not know."""
    return set(conn.scalars(_MARKED, batch.parameters()))


def of_history(conn: Connection, batch: JobBatch) -> set[str]:
    """Return those that a batch of ``history`` ever touched."""
    return set(conn.scalars(_OF_HISTORY, batch.parameters()))


def _keyed(conn: Connection, statement: Any, place: dict[str, Any]) -> list[tuple[JobKey, int]]:
    return [(JobKey(*row[:2]), row[2]) for row in conn.execute(statement, place)]
