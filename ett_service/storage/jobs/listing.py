"""Pages of jobs and of events, each from where the last one ended."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    func,
    or_,
    select,
    true,
    tuple_,
)

from ett_service.core.words import WASTED, Cause, JobState, Period
from ett_service.storage.record.events import whole_body
from ett_service.storage.schema import attempt_ledger, event, job_ledger, project, share
from ett_service.storage.schema.ledger import ETT_RATIO, LOST_GPU, SLOWED

_OPEN = (JobState.RUNNING, JobState.QUEUED)
_AFTER_ALL = 1 << 62  #: a job that has not begun comes after every job that has

_OF_THE_BEGUN: dict[str, ColumnElement[int | None]] = {
    "started_at": job_ledger.c.started_us,
    "ended_at": job_ledger.c.ended_us,
}

ORDERS: dict[str, ColumnElement[Any]] = {
    **{name: func.coalesce(column, _AFTER_ALL) for name, column in _OF_THE_BEGUN.items()},
    "job": job_ledger.c.job,
    "e2e_seconds": job_ledger.c.e2e_us,
    "ett_ratio": ETT_RATIO,
    "failures": job_ledger.c.failures,
    "unsaved_training_seconds": job_ledger.c.unsaved_us,
    "slowed_seconds": SLOWED,
    "lost_gpu_seconds": LOST_GPU,
}
"""What jobs can be sorted by. Ratios and sums only order here; readers compute for themselves."""

_SUMMARY = [
    column
    for column in job_ledger.c
    if column.name not in ("project_id", "answer", "due_us", "lost_weighted_us")
]


_PROJECTS = select(project.c.id, project.c.name).order_by(project.c.name)

JobRow: TypeAlias = Row[*tuple[Any, ...]]
EventRow: TypeAlias = Row[str, str, int, int, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs; what is empty or None asks nothing."""

    equal: dict[str, str]  #: by dimension of jobs, or ``state``
    from_us: int | None = None  #: jobs alive at or after
    to_us: int | None = None  #: jobs begun before
    contains: str | None = None  #: in the job's key or name, in any case
    cause: Cause | None = None  #: of a failure of any attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPosition:
    """Behind which row a page begins: its sort value and job."""

    value: str | int | float
    job: str


def jobs(
    conn: Connection,
    project_id: int,
    job_filter: JobFilter,
    *,
    sort: str,
    descending: bool,
    limit: int,
    after: JobPosition | None = None,
) -> Sequence[JobRow]:
    """Read up to *limit* rows of ``job_ledger``, with ``place`` beside them.

    A page begins behind a row and not at a count, so jobs that come or go between two pages
    neither repeat a row nor hide one.
    """
    wanted = select(*_SUMMARY, ORDERS[sort].label("place")).where(
        job_ledger.c.project_id == project_id, *_conditions(job_filter)
    )
    rows: list[JobRow] = []
    begun_only = job_filter.to_us is not None
    for part in _parts(sort, descending=descending, after=after, begun_only=begun_only):
        if len(rows) < limit:
            statement = part.read(wanted, descending=descending)
            rows += conn.execute(statement.limit(limit - len(rows))).all()
    return rows


class _Part(NamedTuple):
    """Rows that lie in the order of an index: those that have begun, or those that have not."""

    condition: ColumnElement[bool]
    keys: tuple[ColumnElement[Any], ...]
    after: tuple[str | int | float, ...] = ()

    def read(self, wanted: Select[Any], *, descending: bool) -> Select[Any]:
        statement = wanted.where(self.condition)
        if self.after:
            here, there = tuple_(*self.keys), tuple_(*self.after)
            statement = statement.where(here < there if descending else here > there)
        return statement.order_by(*(key.desc() if descending else key for key in self.keys))


def _parts(
    sort: str, *, descending: bool, after: JobPosition | None, begun_only: bool
) -> Iterator[_Part]:
    """Yield the parts of a list from a position on."""
    name = job_ledger.c.job
    position = () if after is None else (after.value, after.job)
    column = _OF_THE_BEGUN.get(sort)
    if column is None:
        yield _Part(true(), (ORDERS[sort], name), position)
        return
    is_behind_begun = after is not None and after.value == _AFTER_ALL
    begun = _Part(column.is_not(None), (column, name), () if is_behind_begun else position)
    others = _Part(column.is_(None), (name,), position[1:] if is_behind_begun else ())
    if descending and (after is None or is_behind_begun) and not begun_only:
        yield others
    if descending or not is_behind_begun:
        yield begun
    if not descending and not begun_only:
        yield others


def _conditions(job_filter: JobFilter) -> list[ColumnElement[bool]]:
    conditions = [job_ledger.c[name] == value for name, value in job_filter.equal.items()]
    if job_filter.to_us is not None:
        conditions.append(job_ledger.c.started_us < job_filter.to_us)
    if job_filter.from_us is not None:
        still_open = job_ledger.c.state.in_(_OPEN)
        conditions.append(or_(still_open, job_ledger.c.ended_us > job_filter.from_us))
    if job_filter.contains is not None:
        conditions.append(
            or_(
                job_ledger.c.job.icontains(job_filter.contains, autoescape=True),
                job_ledger.c.name.icontains(job_filter.contains, autoescape=True),
            )
        )
    if job_filter.cause is not None:
        failed = select(attempt_ledger.c.job).where(
            attempt_ledger.c.project_id == job_ledger.c.project_id,
            attempt_ledger.c.job == job_ledger.c.job,
            attempt_ledger.c.cause == job_filter.cause.value,
        )
        conditions.append(failed.exists())
    return conditions


def training_us(
    conn: Connection, project_id: int, of_jobs: Collection[str]
) -> dict[str, tuple[int, int]]:
    """Sum what was wasted of the period ``training`` of jobs, and all of it, where there is any."""
    statement = select(share.c.job, share.c.category, share.c.us).where(
        share.c.project_id == project_id,
        share.c.job.in_(of_jobs),
        share.c.period == Period.TRAINING.value,
    )
    wasted, training = Counter[str](), Counter[str]()
    for job, category, us in conn.execute(statement).all():
        training[job] += us
        wasted[job] += us if category in WASTED else 0
    return {job: (wasted[job], training[job]) for job in training}


_ROWS_AT_ONCE = 256


def event_bodies(
    conn: Connection,
    project_id: int,
    job: str,
    *,
    limit: int,
    after: tuple[int, str] | None,
    most_bytes: int,
) -> tuple[Sequence[EventRow], bool]:
    """Read ``(id, type, at_us, received_us, body)`` of a job's events, the earliest first.

    It stops at *limit* events, and before the bodies pass *most_bytes*, but never before the first.
    Returned, too, is whether there are more.
    """
    rows: list[EventRow] = []
    size = 0
    while piece := _event_piece(conn, project_id, job, after):
        for row in piece:
            size += len(whole_body(row.id, row.at_us, row.body))
            if len(rows) == limit or (rows and size > most_bytes):
                return rows, True
            rows.append(row)
        after = (piece[-1].at_us, piece[-1].id)
    return rows, False


def _event_piece(
    conn: Connection, project_id: int, job: str, after: tuple[int, str] | None
) -> Sequence[EventRow]:
    keys = (event.c.at_us, event.c.id)
    statement = (
        select(event.c.id, event.c.type, event.c.at_us, event.c.received_us, event.c.body)
        .where(event.c.project_id == project_id, event.c.job == job)
        .order_by(*keys)
        .limit(_ROWS_AT_ONCE)
    )
    if after is not None:
        statement = statement.where(tuple_(*keys) > tuple_(*after))
    return conn.execute(statement).all()


def project_id(conn: Connection, name: str) -> int | None:
    """Find a project by its name."""
    return conn.scalar(select(project.c.id).where(project.c.name == name))


def project_name(conn: Connection, project_id: int) -> str:
    """Return the name of a project that is there."""
    name: str = conn.execute(select(project.c.name).where(project.c.id == project_id)).scalar_one()
    return name


def projects(conn: Connection) -> dict[str, int]:
    """Return the ids of all projects, in order of their names."""
    return {name: number for number, name in conn.execute(_PROJECTS)}
