"""Fold jobs, and store what follows: the one way from events and corrections to the ledger.

The worker continues a fold that it has kept; a recomputation, a verification and the backfill of
metrics fold every event anew.
"""

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import MappingProxyType

from sqlalchemy import Connection

from ett_service.core.dimensions import Cohort
from ett_service.core.events import Exclusion
from ett_service.core.fleet.contribution import Cells, contribution, first_difference
from ett_service.core.fleet.counters import NO_STOPS, SettledStops, settled_stops
from ett_service.core.fleet.owned_time import last_at
from ett_service.core.ledger.attempt_results import corrected
from ett_service.core.ledger.attempts.lifetimes import DEFAULT_LIMITS, Limits
from ett_service.core.ledger.fold import JobFold
from ett_service.core.ledger.results import FORMULA_VERSION, JobLedger
from ett_service.core.words import JobState
from ett_service.storage.engine.driver import begin_last_trip
from ett_service.storage.engine.store import Readable
from ett_service.storage.fleet import contributions
from ett_service.storage.fleet.contributions import CohortIds
from ett_service.storage.folded_jobs import (
    LEDGER_TABLES,
    JobChanges,
    JobToFold,
    LedgerRows,
    PreviousLedger,
    StoredLedger,
    claim,
    claim_as_read,
    existing_rows,
    look_at,
)
from ett_service.storage.jobs import batches
from ett_service.storage.jobs.ledgers import Head
from ett_service.storage.metrics.counters import CounterSample, counter_sample
from ett_service.storage.record.dirty_marks import JobBatch, JobKey
from ett_service.storage.record.events import JobRecord, job_record, job_records

OPEN_EVERY_US = 30_000_000
"""How often the numbers of a running or queued job are run on, in microseconds."""

_OPEN = frozenset({JobState.RUNNING, JobState.QUEUED})


class NotForward(Exception):
    """A fold cannot take in what came; all events of the job have to be folded anew."""


class Overtaken(Exception):
    """A job is not as it was when its ledger was prepared."""


@dataclass(frozen=True, slots=True)
class FoldedJob:
    """A job's fold and ledger, corrections included."""

    key: JobKey
    fold: JobFold
    ledger: JobLedger
    exclusions: tuple[Exclusion, ...]

    def head(self, revision: int, now_us: int, open_every_us: int = OPEN_EVERY_US) -> Head:
        """Return the head under which the ledger is stored."""
        return Head(
            revision=revision,
            formula_version=FORMULA_VERSION,
            event_count=self.fold.event_count,
            folded_us=now_us,
            due_us=due_us(self.ledger, open_every_us),
        )

    def cells(self, since: int | None = None) -> Cells:
        """Return what the job adds to the fleet, from the hour of the instant *since* on."""
        return contribution(self.ledger, self.exclusions, since)

    def counter_sample(self, stops: SettledStops = NO_STOPS) -> CounterSample:
        """Return what the job adds to the counters of /metrics; *stops* were counted before."""
        return counter_sample(self.key, self.ledger, self.exclusions, stops)


def take_in(record: JobRecord, limits: Limits, previous: JobFold | None = None) -> JobFold:
    """Take a job's events into the *previous* fold, or into a new one.

    Raises ``NotForward`` if the kept fold cannot take them in; it is of no use any more.
    """
    fold = JobFold(limits) if previous is None else previous
    if not fold.add(record.events, record.clock_offsets) and previous is not None:
        raise NotForward
    return fold


def fold_job(
    record: JobRecord,
    as_of: int,
    limits: Limits = DEFAULT_LIMITS,
    *,
    previous: JobFold | None = None,
) -> FoldedJob:
    """Fold a job as of an instant in microseconds.

    A *previous* fold is continued: the record then has only the events that are new to it;
    raises ``NotForward`` as :func:`take_in` does.
    """
    fold = take_in(record, limits, previous)
    ledger = corrected(fold.ledger(as_of), record.corrections.verdicts)
    return FoldedJob(record.key, fold, ledger, record.corrections.exclusions)


def fold_batch(
    conn: Connection, batch: JobBatch, as_of: int, limits: Limits = DEFAULT_LIMITS
) -> Iterator[FoldedJob]:
    """Fold every event of jobs of a project."""
    for record in job_records(conn, batch):
        yield fold_job(record, as_of, limits)


def fold_all(
    store: Readable, as_of: int, limits: Limits = DEFAULT_LIMITS, *, only_history: bool
) -> Iterator[FoldedJob]:
    """Fold job by job, some of them in memory at a time; nothing is written.

    With *only_history* those that a batch of ``history`` ever touched, which move no counter.
    """
    for batch, _ in batches.job_batches(store):
        with store.reading() as conn:
            jobs = batch.jobs
            if only_history:
                of_history = batches.of_history(conn, batch)
                jobs = [job for job in jobs if job in of_history]
            yield from fold_batch(conn, batch._replace(jobs=jobs), as_of, limits)


def due_us(ledger: JobLedger, open_every_us: int) -> int | None:
    """Return when time alone will have outdated the ledger; None if it never will."""
    due = [] if ledger.due_at is None else [ledger.due_at]
    if ledger.state in _OPEN:
        due.append(ledger.as_of + open_every_us)
    return min(due, default=None)


NO_COHORTS: Mapping[Cohort, int] = MappingProxyType({})

_LONG = 2_000  #: events; to fold more than these takes longer than others should wait for a lock


@dataclass(frozen=True, slots=True)
class KeptFold:
    """A fold that can go on while the stored revision is still this one.

    :func:`refresh` and :func:`prepare` use it up, and what the first or :func:`store_prepared`
    returns counts once its transaction is committed.
    """

    key: JobKey
    fold: JobFold
    born_us: int  #: tells the job from a deleted one of its name
    revision: int
    ledger: JobLedger  #: what is stored
    exclusions: tuple[Exclusion, ...] = ()  #: with which that was given to the rollups
    stops: SettledStops = NO_STOPS  #: of that ledger
    cohort_ids: CohortIds = field(default_factory=dict)  #: of what it added to the fleet


@dataclass(frozen=True, slots=True)
class Prepared:
    """A job as it was read, folded, and what is to be written where it still is as it was."""

    job: JobToFold
    folded: FoldedJob
    head: Head
    changes: JobChanges
    stops: SettledStops

    def write(self, conn: Connection, now_us: int, cohort_ids: Mapping[Cohort, int]) -> KeptFold:
        """Write what differs, sent with the commit: *conn* reads no more."""
        key = self.folded.key
        ids = self.changes.contributions.known(cohort_ids)
        self.changes.contributions.learn(conn, key.project_id, ids)
        begin_last_trip(conn)
        oldest_us = self.job.marks.oldest_us
        self.changes.write(conn, ids, now_us if oldest_us is None else oldest_us)
        return KeptFold(
            key,
            self.folded.fold,
            self.job.born_us,
            self.head.revision,
            self.folded.ledger,
            self.folded.exclusions,
            self.stops,
            ids,
        )


def refresh(
    conn: Connection,
    key: JobKey,
    now_us: int,
    kept_fold: KeptFold | None = None,
    limits: Limits = DEFAULT_LIMITS,
    open_every_us: int = OPEN_EVERY_US,
    *,
    cohort_ids: Mapping[Cohort, int] = NO_COHORTS,
) -> KeptFold | None:
    """Fold what came into the job and store its ledger as of *now_us*, in microseconds.

    The order makes racing writers and a crash harmless: lock the job, delete its marks, read.
    So a mark is only gone once what it stands for was there to be read. Returns None, and has
    changed nothing, if another worker holds the job or has just done the same, or if it is gone.

    What *kept_fold* cannot take in is folded with all events of the job, inside the
    transaction; for a long job ``NotForward`` is raised instead. *cohort_ids* are known ones of
    the project's cohorts. *conn* reads no more; its writes are sent with the commit.
    """
    job = claim(conn, key, whole=kept_fold is None)
    if job is None or not _has_news(job, now_us):
        return None
    prepared = _prepared(conn, job, kept_fold, now_us, limits, open_every_us)
    return prepared.write(conn, now_us, cohort_ids)


def prepare(
    conn: Connection,
    key: JobKey,
    now_us: int,
    kept_fold: KeptFold | None = None,
    limits: Limits = DEFAULT_LIMITS,
    open_every_us: int = OPEN_EVERY_US,
) -> Prepared | None:
    """Fold what came into the job as :func:`refresh` does, but lock and write nothing.

    So whatever it takes, nobody waits for it: on SQLite the only writer would be held up. What
    comes in meanwhile keeps its marks for the next time. None if there is nothing to do.
    """
    job = look_at(conn, key, whole=kept_fold is None)
    if job is None or not _has_news(job, now_us):
        return None
    with suppress(NotForward):
        return _prepared(conn, job, kept_fold, now_us, limits, open_every_us)
    return prepare(conn, key, now_us, None, limits, open_every_us)


def store_prepared(
    conn: Connection,
    prepared: Prepared,
    now_us: int,
    *,
    cohort_ids: Mapping[Cohort, int] = NO_COHORTS,
) -> KeptFold:
    """Store what was prepared; *conn* reads no more, and its writes are sent with the commit.

    Raises ``Overtaken`` if another worker is at the job or stored it since, or if it is gone.
    """
    if not claim_as_read(conn, prepared.folded.key, prepared.job):
        raise Overtaken
    return prepared.write(conn, now_us, cohort_ids)


def _has_news(job: JobToFold, now_us: int) -> bool:
    return bool(job.marks.batches) or is_outdated(job.head, now_us)


def _prepared(
    conn: Connection,
    job: JobToFold,
    kept_fold: KeptFold | None,
    now_us: int,
    limits: Limits,
    open_every_us: int,
) -> Prepared:
    previous, folded = _folded(conn, job, kept_fold, now_us, limits)
    key, changes = folded.key, JobChanges(folded.key.project_id)
    head = folded.head(_revision(job.head) + 1, now_us, open_every_us)
    is_new = job.head is None  # nothing is stored of the job
    stored = LedgerRows() if is_new else _stored(conn, folded, previous)
    changes.compare_ledger(key, folded.ledger, head, stored)
    stops = roll_up(conn, changes, folded, previous, is_new=is_new)
    return Prepared(job, folded, head, changes, stops)


def _folded(
    conn: Connection,
    job: JobToFold,
    kept_fold: KeptFold | None,
    now_us: int,
    limits: Limits,
) -> tuple[KeptFold | None, FoldedJob]:
    """Fold a job on, or whole; return the fold that was continued, if one was."""
    record = job.record
    if kept_fold is None:
        return None, fold_job(record, now_us, limits)
    stored = (job.born_us, _revision(job.head))
    if (kept_fold.born_us, kept_fold.revision) == stored:
        with suppress(NotForward):
            return kept_fold, fold_job(record, now_us, limits, previous=kept_fold.fold)
    if kept_fold.fold.event_count > _LONG:
        raise NotForward
    return None, fold_job(job_record(conn, record.key), now_us, limits)


def roll_up(
    conn: Connection,
    changes: JobChanges,
    folded: FoldedJob,
    previous: KeptFold | None = None,
    *,
    is_new: bool = False,
) -> SettledStops:
    """Gather what the job adds to the fleet and to the counters.

    Where *previous* is what was stored before, only from the first hour on that differs. Where the
    job *is_new*, nothing is stored, and nothing read. Returns the checkpoint stops that stay as
    they are.
    """
    since = None
    if previous and previous.exclusions == folded.exclusions:
        since = first_difference(previous.ledger, folded.ledger, folded.fold.changed_from)
    cells = folded.cells(since)
    stored = {} if is_new else contributions.existing(conn, folded.key, since)
    changes.compare_cells(folded.key, cells, stored)
    until = last_at(folded.ledger) if since is None else since
    known = previous.stops if previous and since is not None else NO_STOPS
    stops = settled_stops(folded.ledger, until, known)
    changes.compare_sample(folded.key, folded.counter_sample(stops))
    return stops


def is_outdated(head: Head | None, now_us: int) -> bool:
    """Return whether the ledger has to be folded although no fact came in."""
    if head is None or head.formula_version != FORMULA_VERSION:
        return True
    return head.due_us is not None and head.due_us <= now_us


def _revision(head: Head | None) -> int:
    return head.revision if head else 0


def _stored(conn: Connection, folded: FoldedJob, previous: KeptFold | None) -> StoredLedger:
    """Return what is stored of the ledger, read only where the fold before does not know it."""
    if previous is not None:
        return PreviousLedger(previous.ledger, folded.fold.changed_from)
    batch = JobBatch(folded.key.project_id, [folded.key.job])
    return LedgerRows(existing_rows(conn, LEDGER_TABLES, batch))


MOST_EVENTS = 1_000_000


class Folds:
    """The folds used last, together of no more than *most_events* events.

    Whoever takes one owns it. It comes back only once its transaction is committed: a fold that
    knows more than the database would otherwise be taken for what is stored.
    """

    def __init__(self, most_events: int = MOST_EVENTS) -> None:
        self._most = most_events
        self._events = 0
        self._kept: OrderedDict[JobKey, tuple[KeptFold, int]] = OrderedDict()

    def take(self, key: JobKey) -> KeptFold | None:
        """Remove and return the job's fold."""
        if key not in self._kept:
            return None
        kept_fold, events = self._kept.pop(key)
        self._events -= events
        return kept_fold

    def keep(self, kept_fold: KeptFold) -> None:
        """Put a fold back, and let go of those that were unused for longest."""
        self.take(kept_fold.key)
        self._kept[kept_fold.key] = (kept_fold, kept_fold.fold.event_count)
        self._events += kept_fold.fold.event_count
        while self._events > self._most:
            _, (_, events) = self._kept.popitem(last=False)
            self._events -= events
