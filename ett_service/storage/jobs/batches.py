"""Job batches: what is stored of many jobs, read and rewritten in few statements."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import groupby
from typing import Any, NamedTuple, TypeAlias, TypeVar

import msgspec
from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    Table,
    bindparam,
    delete,
    func,
    insert,
    select,
)

from ett_service.storage.engine import statements
from ett_service.storage.engine.statements import Values
from ett_service.storage.engine.store import Readable
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.storage.schema import dirty, event, job, job_history, job_ledger, metadata, store

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


class JobBatch(NamedTuple):
    """Jobs of one project."""

    project_id: int
    jobs: Sequence[str]

    def parameters(self) -> dict[str, object]:
        """Return the parameters that :func:`of_jobs` takes."""
        return {"project_id": self.project_id, "jobs": list(self.jobs)}


def of_jobs(table: Table) -> tuple[ColumnElement[bool], ...]:
    """Say in SQL which rows belong to a batch."""
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
    .where(*of_jobs(job))
    .order_by(job.c.project_id, job.c.job)
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
    found = _keyed(conn, _NEXT.where(*_LATER_IN_PROJECT), {**place, "most": most})
    if len(found) < most:
        place = {"of_project": after.project_id}
        left = most - len(found)
        found += _keyed(conn, _NEXT.where(_LATER_PROJECTS), {**place, "most": left})
    return found


def job_batches(store: Readable, after: JobKey | None = None) -> Iterator[tuple[JobBatch, int]]:
    """Yield all jobs behind *after*, each batch with how many events it has."""
    while True:
        with store.reading() as conn:
            found = following(conn, after, MOST_JOBS)
        if not found:
            return
        after = found[-1][0]
        yield from _cut(found)


def _cut(found: list[tuple[JobKey, int]]) -> Iterator[tuple[JobBatch, int]]:
    """Cut jobs into batches of one project, none of many events but where one job has them."""
    for project_id, of_project in groupby(found, key=lambda pair: pair[0].project_id):
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
    """Return how many jobs there are."""
    return conn.scalar(select(func.count()).select_from(job)) or 0


def lock(conn: Connection, batch: JobBatch) -> JobBatch:
    """Lock the jobs until the transaction ends, and return those that are still there."""
    return batch._replace(jobs=list(conn.scalars(_LOCK, batch.parameters())))


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


T = TypeVar("T")
K = TypeVar("K", bound=Hashable)

RowsOf: TypeAlias = Mapping[tuple[str, str], Sequence[Values]]
"""By the name of the table and the job."""


@dataclass(slots=True)
class RowChanges:
    """What is to be written, by the name of its table."""

    gone: defaultdict[str, list[Values]] = field(default_factory=lambda: defaultdict(list))
    put: defaultdict[str, list[Values]] = field(default_factory=lambda: defaultdict(list))
    new: defaultdict[str, list[Values]] = field(default_factory=lambda: defaultdict(list))
    """Rows of whose primary keys there are none."""

    def compare(self, table: Table, existing: Sequence[Values], wanted: Sequence[Values]) -> None:
        """Gather what has to be written where *existing* rows are stored."""
        if not existing:
            self.new[table.name] += wanted
            return
        length = _key_length(table)
        put, gone = differences(existing, wanted, lambda row: row[:length])
        self.put[table.name] += put
        self.gone[table.name] += gone

    def write(self, conn: Connection) -> None:
        """Delete what is gone, then write the rest."""
        for table in metadata.sorted_tables:
            if gone := self.gone.get(table.name):
                statements.delete(conn, table, gone)
            if put := self.put.get(table.name):
                statements.put(conn, table, _names(table), put)
            if new := self.new.get(table.name):
                statements.insert(conn, table, _names(table), new)


def differences(
    existing: Iterable[T], wanted: Iterable[T], key: Callable[[T], K]
) -> tuple[list[T], Iterable[K]]:
    """Return what of *wanted* does not exist as it is, and the keys of what has to go."""
    left = {key(item): item for item in existing}
    return [item for item in wanted if left.pop(key(item), None) != item], left.keys()


def existing_rows(conn: Connection, tables: Iterable[Table], batch: JobBatch) -> RowsOf:
    """Read all rows of these jobs."""
    found: defaultdict[tuple[str, str], list[Values]] = defaultdict(list)
    for table in tables:
        for row in map(tuple, conn.execute(_of_jobs(table), batch.parameters())):
            found[table.name, row[1]].append(row)
    return found


@cache
def _of_jobs(table: Table) -> Select[Any]:
    return select(table).where(*of_jobs(table))


@cache
def _key_length(table: Table) -> int:
    """Return how many columns the primary key has, which the others follow."""
    names = [column.name for column in table.primary_key]
    assert names == [column.name for column in table.columns][: len(names)], table.name
    return len(names)


@cache
def _names(table: Table) -> tuple[str, ...]:
    """Return the columns behind the primary key."""
    return tuple(column.name for column in list(table.columns)[_key_length(table) :])
