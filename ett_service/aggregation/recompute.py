"""Every job folded anew, by several processes: ledgers, contributions and rollups rewritten.

On SQLite the processes read and fold, and this one writes what they found. On PostgreSQL each
writes for itself, beside servers that run: it locks its jobs as the worker does. Batches are
committed one by one and the place is kept, so that a run that is cut off is gone on with.
"""

import gc
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import wait
from typing import TypeAlias

from sqlalchemy import Connection

from ett_service.aggregation.fold_job import fold_batch
from ett_service.aggregation.verify import repair
from ett_service.core.ledger.attempts.lifetimes import DEFAULT_LIMITS, Limits
from ett_service.storage.engine.errors import StorageUnavailable
from ett_service.storage.engine.store import Readable, Store, open_for_reading, open_store
from ett_service.storage.fleet import contributions, rollup_deltas
from ett_service.storage.fleet.contributions import CohortIds
from ett_service.storage.folded_jobs import LEDGER_TABLES, JobChanges, LedgerRows, existing_rows
from ett_service.storage.jobs import batches
from ett_service.storage.jobs.batches import RecomputePosition
from ett_service.storage.metrics import counters
from ett_service.storage.record.dirty_marks import JobBatch, JobKey

_TRIES = 4
_LOOK_FOR_CYCLES_AFTER = 1_000_000  #: objects that outlived their batch
_PAUSE_EVERY = 100  #: batches
_AHEAD = 3  #: batches on their way, by process

Report: TypeAlias = Callable[[RecomputePosition, int], None]
"""Called after each commit with how many jobs are done, and how many there are."""


@dataclass(frozen=True, slots=True)
class _Task:
    batch: JobBatch
    events: int
    future: "Future[JobChanges | None]"


def recompute(
    url: str,
    now_us: Callable[[], int],
    report: Report,
    limits: Limits = DEFAULT_LIMITS,
    *,
    processes: int,
    from_start: bool = False,
) -> RecomputePosition | None:
    """Recompute every job of the store at *url*; return what was done in all, None if nothing.

    A run that was cut off is gone on with, unless *from_start*. Raises ``StoreInUse`` where a
    server writes the SQLite file, and what ``open_store`` raises.
    """
    with closing(open_store(url)) as store:
        with store.reading() as conn:
            place = None if from_start else batches.read(conn)
            jobs = batches.count(conn)
        with _pool(url, processes, limits) as pool:
            run = _Run(store, pool, now_us, place)
            for done in run.batches(_AHEAD * processes):
                report(done, jobs)
        repair(store)
        store.write(lambda conn: batches.write(conn, None))
        return run.place


def refold(
    conn: Connection, batch: JobBatch, now_us: int, limits: Limits = DEFAULT_LIMITS
) -> JobChanges:
    """Fold every event of the jobs as of *now_us*, in microseconds, and compare with the store.

    Nothing is written. Other writers have to be kept out, by a lock on the jobs or on the store,
    and the jobs' marks are to be taken before.
    """
    ledgers = LedgerRows(existing_rows(conn, LEDGER_TABLES, batch))
    cells = contributions.existing_of_batch(conn, batch)
    samples = counters.stored(conn, batch)
    changes = JobChanges(batch.project_id)
    for folded in fold_batch(conn, batch, now_us, limits):
        key, head = folded.key, ledgers.head(folded.key.job)
        new_head = folded.head(1 + (head.revision if head else 0), now_us)
        changes.compare_ledger(key, folded.ledger, new_head, ledgers)
        changes.compare_cells(key, folded.cells(), cells.get(key.job, {}))
        changes.compare_sample(key, folded.counter_sample(), samples.get(key.job))
    return changes


class _Run:
    """Batches handed out in the order of their jobs, and committed in it."""

    def __init__(
        self,
        store: Store,
        pool: ProcessPoolExecutor,
        now_us: Callable[[], int],
        place: RecomputePosition | None,
    ) -> None:
        self.place = place
        self._store = store
        self._pool = pool
        self._now_us = now_us
        self._cohort_ids: dict[int, CohortIds] = {}

    def batches(self, ahead: int) -> Iterator[RecomputePosition]:
        """Yield the place after each batch."""
        tasks: deque[_Task] = deque()
        last = self.place.last if self.place else None
        for number, (batch, events) in enumerate(batches.job_batches(self._store, last), 1):
            tasks.append(_Task(batch, events, self._pool.submit(_do, batch, self._now_us())))
            # SQLite can write its log from the start again only while nobody reads.
            most_left = 0 if number % _PAUSE_EVERY == 0 else ahead - 1
            while len(tasks) > most_left:
                yield self._settle(tasks.popleft())
        while tasks:
            yield self._settle(tasks.popleft())

    def _settle(self, task: _Task) -> RecomputePosition:
        changes = task.future.result()
        batch, before = task.batch, self.place
        place = self.place = RecomputePosition(
            JobKey(batch.project_id, batch.jobs[-1]),
            len(batch.jobs) + (before.jobs if before else 0),
            task.events + (before.events if before else 0),
        )
        ids = self._cohort_ids.setdefault(batch.project_id, {})

        def commit(conn: Connection) -> None:
            if changes is not None:
                batches.take_marks(conn, batch)
                _write(conn, batch, changes, ids)
            batches.write(conn, place)

        self._store.write(commit)
        return place


def _write(conn: Connection, batch: JobBatch, changes: JobChanges, ids: CohortIds) -> None:
    changes.write(conn, ids, 0)
    rollup_deltas.merge_jobs(conn, batch)


def _pool(url: str, processes: int, limits: Limits) -> ProcessPoolExecutor:
    # Spawned: a forked process would share connections and the threads' locks.
    return ProcessPoolExecutor(
        processes, multiprocessing.get_context("spawn"), _begin, (url, limits)
    )


class _Folder:
    """A process that leaves the writing to the one that holds the store."""

    def __init__(self, store: Readable, limits: Limits) -> None:
        self._store = store
        self._limits = limits

    def do(self, batch: JobBatch, now_us: int) -> JobChanges:
        """Refold a batch."""
        with self._store.reading() as conn:
            return refold(conn, batch, now_us, self._limits)


class _Writer:
    """A process that writes for itself."""

    def __init__(self, store: Store, limits: Limits) -> None:
        self._store = store
        self._limits = limits
        self._cohort_ids: dict[int, CohortIds] = {}

    def do(self, batch: JobBatch, now_us: int) -> None:
        """Rewrite a batch, trying again where a server holds one of its jobs for long."""
        for last in (False,) * _TRIES + (True,):
            ids = dict(self._cohort_ids.get(batch.project_id, {}))
            try:
                self._store.write(partial(self._rewrite, batch=batch, ids=ids, now_us=now_us))
            except StorageUnavailable:
                if last:
                    raise
            else:
                self._cohort_ids[batch.project_id] = ids
                return

    def _rewrite(self, conn: Connection, batch: JobBatch, ids: CohortIds, now_us: int) -> None:
        locked = batches.lock(conn, batch)
        if locked.jobs:
            # Before the events are read: what comes in after them leaves a mark that stays.
            batches.take_marks(conn, locked)
            _write(conn, locked, refold(conn, locked, now_us, self._limits), ids)


_worker: _Folder | _Writer


def _begin(url: str, limits: Limits) -> None:
    global _worker  # noqa: PLW0603 - a pool's processes have no other place
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one that handed out the work
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if url.startswith("sqlite"):
        _worker = _Folder(open_for_reading(url), limits)
    else:
        _worker = _Writer(open_store(url), limits)
    # A batch's events and ledgers are no garbage while it is folded, and hold no cycles after.
    gc.freeze()
    gc.set_threshold(_LOOK_FOR_CYCLES_AFTER)


def _end_with_parent() -> None:
    """Die with the process that would take the results, however it dies."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)


def _do(batch: JobBatch, now_us: int) -> JobChanges | None:
    """Refold a batch; return what is left to be written."""
    return _worker.do(batch, now_us)
