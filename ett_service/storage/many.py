"""What is stored of many jobs of one project, each kind of thing in one statement."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, bindparam, delete, func, select

from ett_service.core.clock import TOLERANCE_US
from ett_service.core.event import Event
from ett_service.storage.body import DECODERS
from ett_service.storage.ledger_rows import Head
from ett_service.storage.marks import JobKey
from ett_service.storage.tables import (
    correction,
    dirty,
    event,
    job,
    job_history,
    job_ledger,
    producer,
)


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
