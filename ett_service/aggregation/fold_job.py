"""From a job's events, clocks, corrections and exclusions to all that is said of it: the one way.

The worker folds a kept fold forward; a recomputation, a verification and the export of the past
fold every event anew.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from sqlalchemy import Connection

from ett_service.core.fleet.contribution import Cells, contribution
from ett_service.core.ledger.failures import corrected
from ett_service.core.ledger.fold import JobFold
from ett_service.core.ledger.results import (
    DEFAULT_LIMITS,
    FORMULA_VERSION,
    Exclusion,
    JobLedger,
    Limits,
)
from ett_service.core.words import JobState
from ett_service.storage.engine.store import Readable
from ett_service.storage.jobs import batches, records
from ett_service.storage.jobs.batches import JobBatch
from ett_service.storage.jobs.ledger_rows import Head
from ett_service.storage.jobs.records import JobRecord
from ett_service.storage.metrics.counter_samples import CounterSample, counter_sample
from ett_service.storage.record.dirty_marks import JobKey

OPEN_EVERY_US = 30_000_000
"""How often the numbers of a running or queued job are run on, in microseconds."""

_OPEN = frozenset({JobState.RUNNING, JobState.QUEUED})


class NotForward(Exception):
    """A fold cannot take in what came; all events of the job have to be folded anew."""


@dataclass(frozen=True, slots=True)
class FoldedJob:
    """What a job's events and corrections say."""

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

    def counter_sample(self) -> CounterSample:
        """Return what the job says of the counters of /metrics."""
        return counter_sample(self.key, self.ledger, self.exclusions)


def take_in(record: JobRecord, limits: Limits, kept: JobFold | None = None) -> JobFold:
    """Take a job's events into the *kept* fold, or into a new one.

    Raises ``NotForward`` if the kept fold cannot take them in; it is of no use any more.
    """
    fold = JobFold(limits) if kept is None else kept
    if not fold.add(record.events, record.clock_offsets) and kept is not None:
        raise NotForward
    return fold


def fold_job(
    record: JobRecord,
    as_of: int,
    limits: Limits = DEFAULT_LIMITS,
    *,
    kept: JobFold | None = None,
) -> FoldedJob:
    """Fold a job as of an instant in microseconds.

    With a *kept* fold, which is gone on with, the record has only the events that are new to it;
    raises ``NotForward`` as :func:`take_in` does.
    """
    fold = take_in(record, limits, kept)
    ledger = corrected(fold.ledger(as_of), record.corrections.verdicts)
    return FoldedJob(record.key, fold, ledger, record.corrections.exclusions)


def fold_batch(
    conn: Connection, batch: JobBatch, as_of: int, limits: Limits = DEFAULT_LIMITS
) -> Iterator[FoldedJob]:
    """Fold every event of jobs of a project."""
    for record in records.read_batch(conn, batch):
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
                wanted = batches.of_history(conn, batch)
                jobs = [job for job in jobs if job in wanted]
            yield from fold_batch(conn, batch._replace(jobs=jobs), as_of, limits)


def due_us(ledger: JobLedger, open_every_us: int) -> int | None:
    """Return when time alone will have outdated the ledger; None if it never will."""
    looks = [] if ledger.due_at is None else [ledger.due_at]
    if ledger.state in _OPEN:
        looks.append(ledger.as_of + open_every_us)
    return min(looks, default=None)
