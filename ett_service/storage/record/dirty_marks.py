"""Keys of jobs, the marks of those that have to be folded, in which order, and their locks."""

import secrets
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Table,
    any_,
    bindparam,
    delete,
    exists,
    func,
    insert,
    select,
    true,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY

from ett_service.core.intervals import HOUR_US, SECOND_US
from ett_service.storage.engine.driver import read_and_end
from ett_service.storage.engine.lease import in_slots
from ett_service.storage.schema import dirty, job, job_ledger, unmerged

_BITS = 63


class JobKey(NamedTuple):
    """What names a job in the store."""

    project_id: int
    job: str


class JobBatch(NamedTuple):
    """Jobs of one project."""

    project_id: int
    jobs: Sequence[str]

    def parameters(self) -> dict[str, object]:
        """Return the parameters that :func:`of_jobs` takes."""
        return {"project_id": self.project_id, "jobs": list(self.jobs)}


class Marks(NamedTuple):
    """The marks of a job."""

    batches: Sequence[int]
    oldest_us: int | None  #: when the first of them was made; None if there is none


class Waiting(NamedTuple):
    """What there is to do."""

    last_marked_us: Mapping[JobKey, int]
    """When facts came last that a ledger does not know, by job, the oldest mark first."""
    due: list[JobKey]  #: whose ledgers time alone has outdated, longest overdue first
    unmerged: bool  #: whether a fold waits to be merged


def of_jobs(table: Table) -> tuple[ColumnElement[bool], ...]:
    """Say in SQL which rows belong to a batch."""
    return (
        table.c.project_id == bindparam("project_id"),
        table.c.job.in_(bindparam("jobs", expanding=True)),
    )


_MARKED = (
    select(dirty.c.project_id, dirty.c.job, func.max(dirty.c.marked_us))
    .group_by(dirty.c.project_id, dirty.c.job)
    .order_by(func.min(dirty.c.marked_us), dirty.c.project_id, dirty.c.job)
    .limit(bindparam("most"))
)
_DUE = (
    select(job_ledger.c.project_id, job_ledger.c.job)
    .where(job_ledger.c.due_us <= bindparam("now_us"))
    .order_by(job_ledger.c.due_us)
    .limit(bindparam("most"))
)

_UNMERGED = select(unmerged.c.fold).limit(1)

_WAITING = (_MARKED, _DUE, _UNMERGED)
_WAITING_IN_SLOTS = (
    _MARKED.where(in_slots(dirty)),
    _DUE.where(in_slots(job_ledger)),
    _UNMERGED.where(in_slots(unmerged)),
)

_OF_JOB = (dirty.c.project_id == bindparam("of_project"), dirty.c.job == bindparam("of_job"))

MARKS = select(dirty.c.batch, dirty.c.marked_us).where(*_OF_JOB)

_OUTDATE = (
    update(job_ledger)
    .where(
        job_ledger.c.formula_version != bindparam("current"),
        ~exists().where(
            job.c.project_id == job_ledger.c.project_id,
            job.c.job == job_ledger.c.job,
            job.c.pruned_us.is_not(None),
        ),
    )
    .values(due_us=0)
)

_OLDEST = select(func.min(dirty.c.marked_us)).where(*_OF_JOB)

BORN = select(job.c.received_us).where(
    job.c.project_id == bindparam("of_project"), job.c.job == bindparam("of_job")
)

# SQLite's only writer holds the whole database, and knows no such clause.
# A mark's foreign key takes KEY SHARE on the row, so FOR UPDATE would hold ingest up.
UNPRUNED = BORN.where(job.c.pruned_us.is_(None))
_LOCK = UNPRUNED.with_for_update(key_share=True, skip_locked=True)
_WAIT = BORN.with_for_update(key_share=True)
_WAIT_ALONE = BORN.with_for_update()

_TAKE = delete(dirty).where(*_OF_JOB).returning(dirty.c.batch, dirty.c.marked_us)
_TAKE_THESE = delete(dirty).where(*_OF_JOB, dirty.c.batch == bindparam("of_batch"))

_locked = _LOCK.cte("locked").prefix_with("MATERIALIZED")
_taken = (
    delete(dirty)
    .where(*_OF_JOB, exists(select(_locked.c.received_us)))
    .returning(dirty.c.batch, dirty.c.marked_us)
)
_all_taken = _taken.cte("taken")
CLAIM = select(_locked.c.received_us, _all_taken.c.batch, _all_taken.c.marked_us).select_from(
    _locked.outerjoin(_all_taken, true())
)
"""Lock a job and take its marks, each with when the job's first event came; only on PostgreSQL."""

_these_taken = _taken.where(
    dirty.c.batch == any_(bindparam("batches", type_=ARRAY(BigInteger)))
).cte("taken")
CLAIM_THESE = select(_locked.c.received_us, _these_taken.c.batch).select_from(
    _locked.outerjoin(_these_taken, true())
)
"""Lock a job and take the marks of *batches*, as :data:`CLAIM` does all of them."""


Slots: TypeAlias = Collection[int] | None
"""Of which slots jobs are wanted; None for all, and always None on SQLite."""


def waiting(conn: Connection, now_us: int, most: int, slots: Slots = None) -> Waiting:
    """Return up to *most* jobs of each kind in *slots*, or of all; *conn* reads no more."""
    statements = _WAITING if slots is None else _WAITING_IN_SLOTS
    parameters = {"now_us": now_us, "most": most, **_named(slots)}
    marked, due, unmerged_fold = read_and_end(conn, [(each, parameters) for each in statements])
    return Waiting(
        {JobKey(project_id, name): us for project_id, name, us in marked},
        [JobKey(*row) for row in due],
        bool(unmerged_fold),
    )


_FIRST_RETRY_US = SECOND_US
_LONGEST_RETRY_US = 300 * SECOND_US

_SLOW_US = SECOND_US // 10
"""A job whose fold took so much of a processor is not folded again at once."""

_REST = 4
"""It rests for so many times as long: one that is sent to all the time has a fifth of a thread."""


def monotonic_us() -> int:
    """Return the time since some instant; unlike the time of day, nobody sets it back."""
    return time.monotonic_ns() // 1000


class Turn(NamedTuple):
    """What is to be done next."""

    keys: list[JobKey]  #: of the jobs to be folded
    unmerged: bool  #: whether a fold waits to be merged


class Took(NamedTuple):
    """What it took to fold a job, in microseconds."""

    wall_us: int
    processor_us: int  #: of that, what it did not wait for others


class Rest(NamedTuple):
    """For how long a job that is slow to fold is left alone."""

    until_us: int
    quiet_us: int  #: or until so long nothing came: that is then all, and soon to be told
    marked_us: int | None = None  #: its newest mark, by the clock of who made it
    seen_us: int = 0  #: when that mark was found


class JobQueue:
    """Jobs in the order of their need.

    A job that failed comes later, then later still; one that was slow to fold comes after a rest.
    """

    def __init__(self, most: int = 200) -> None:
        self._most = most
        self._failures: dict[JobKey, int] = {}
        self._not_before: dict[JobKey, int] = {}
        self._rests: dict[JobKey, Rest] = {}

    def next(
        self,
        conn: Connection,
        now_us: int,
        slots: Slots = None,
        without: Collection[JobKey] = (),
        *,
        resting: bool = False,
    ) -> Turn:
        """Return up to ``most`` jobs: the longest marked first, then the longest overdue.

        Those that rest after a slow fold are among them if *resting* ones are wanted.
        """
        most = self._most + len(self._not_before) + len(self._rests) + len(without)
        work = waiting(conn, now_us, most, slots)
        elapsed_us = monotonic_us()
        ready = [
            key
            for key in dict.fromkeys([*work.last_marked_us, *work.due])
            if key not in without
            and self._not_before.get(key, elapsed_us) <= elapsed_us
            and (resting or self._is_rested(key, elapsed_us, work.last_marked_us.get(key)))
        ]
        return Turn(ready[: self._most], work.unmerged)

    def _is_rested(self, key: JobKey, elapsed_us: int, marked_us: int | None) -> bool:
        rest = self._rests.get(key)
        if rest is None or rest.until_us <= elapsed_us:
            return True
        if marked_us is None:
            return False
        if rest.marked_us != marked_us:
            self._rests[key] = rest = rest._replace(marked_us=marked_us, seen_us=elapsed_us)
        return rest.seen_us + rest.quiet_us <= elapsed_us

    def is_slow(self, key: JobKey) -> bool:
        """Whether the job was slow to fold the last time."""
        return key in self._rests

    def failed(self, key: JobKey) -> float:
        """Put the job off, and return for how many seconds."""
        failures = self._failures.get(key, 0)
        pause_us = min(_FIRST_RETRY_US << min(failures, 10), _LONGEST_RETRY_US)
        self._failures[key] = failures + 1
        self._not_before[key] = monotonic_us() + pause_us
        return pause_us / SECOND_US

    def done(self, key: JobKey, took: Took) -> None:
        """Forget the failures of the job, and let it rest for as long as its fold demands."""
        self._failures.pop(key, None)
        self._not_before.pop(key, None)
        self._rests.pop(key, None)
        if took.processor_us >= _SLOW_US:
            elapsed_us = monotonic_us()
            over_us = elapsed_us - HOUR_US  # what was slow so long ago is likely over
            self._rests = {
                each: rest for each, rest in self._rests.items() if rest.until_us > over_us
            }
            self._rests[key] = Rest(elapsed_us + _REST * took.wall_us, took.processor_us)


def waiting_since(conn: Connection, key: JobKey) -> int | None:
    """Return when the oldest of the facts came that the job's ledger does not know."""
    parameters = {"of_project": key.project_id, "of_job": key.job}
    since_us: int | None = conn.scalar(_OLDEST, parameters)
    return since_us


def outdate(conn: Connection, formula_version: int) -> None:
    """Make all ledgers of another formula fall due, but those of pruned jobs."""
    conn.execute(_OUTDATE, {"current": formula_version})


def born_us(conn: Connection, key: JobKey) -> int | None:
    """Return when the job's first event came; None if there is no such job.

    It separates the job from one of the same name that was deleted.
    """
    return conn.scalar(BORN, _of(key))


def lock(conn: Connection, key: JobKey) -> int | None:
    """Lock the job until the transaction ends and return when its first event came.

    None if another worker holds it, or if it was deleted or pruned.
    """
    return conn.scalar(_LOCK, _of(key))


def wait_for(conn: Connection, key: JobKey, *, alone: bool = False) -> bool:
    """Lock the job as :func:`lock` does, once nobody else holds it; False if there is none.

    *alone* keeps out ingest, too.
    """
    return conn.scalar(_WAIT_ALONE if alone else _WAIT, _of(key)) is not None


def mark(conn: Connection, key: JobKey, now_us: int) -> None:
    """Mark the job for a fold, without a batch of events to go with it."""
    batch = secrets.randbits(_BITS)
    conn.execute(insert(dirty), {**key._asdict(), "batch": batch, "marked_us": now_us})


def take(conn: Connection, key: JobKey) -> Marks:
    """Delete the job's marks and return what they said."""
    return marks_from(map(tuple, conn.execute(_TAKE, _of(key))))


def take_these(conn: Connection, key: JobKey, batches: Collection[int]) -> None:
    """Delete the job's marks of *batches*."""
    if batches:
        conn.execute(_TAKE_THESE, [{**_of(key), "of_batch": batch} for batch in batches])


def marks_from(rows: Iterable[tuple[int, int]]) -> Marks:
    """Return what marks said, each a batch and when it was made."""
    marks = list(rows)
    return Marks([batch for batch, _ in marks], min((us for _, us in marks), default=None))


def _named(slots: Slots) -> dict[str, object]:
    return {} if slots is None else {"slots": sorted(slots)}


def _of(key: JobKey) -> dict[str, object]:
    return {"of_project": key.project_id, "of_job": key.job}
