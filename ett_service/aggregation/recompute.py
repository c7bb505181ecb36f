"""Every job folded anew, by several processes: ledgers, contributions and rollups rewritten.

On SQLite the processes read and fold, and this one writes what they found. On PostgreSQL each
writes for itself, beside servers that run: it locks its jobs as the worker does. Chunks are
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
from itertools import groupby
from multiprocessing.connection import wait
from typing import TypeAlias

from sqlalchemy import Connection

from ett_service.aggregation.refold import Chunk, Refolded, refold
from ett_service.aggregation.repair import repair
from ett_service.core.ledger.results import DEFAULT_LIMITS, Limits
from ett_service.storage.engine.errors import StorageUnavailable
from ett_service.storage.engine.store import Readable, Store, open_for_reading, open_store
from ett_service.storage.fleet.contributions import Ids
from ett_service.storage.jobs import batches
from ett_service.storage.jobs.batches import RecomputePosition
from ett_service.storage.record.dirty_marks import JobKey

MOST_JOBS, MOST_EVENTS = 200, 20_000
"""Of one chunk: it is held in memory, and on PostgreSQL its jobs are locked for as long."""

_TRIES = 4
_LOOK_FOR_CYCLES_AFTER = 1_000_000  #: objects that outlived their chunk
_PAUSE_EVERY = 100  #: chunks
_AHEAD = 3  #: chunks on their way, by process

Report: TypeAlias = Callable[[RecomputePosition, int], None]
"""Told after each commit how far the run is, and how many jobs there are."""


@dataclass(frozen=True, slots=True)
class _Task:
    chunk: Chunk
    events: int
    future: "Future[Refolded | None]"


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
            for done in run.chunks(_AHEAD * processes):
                report(done, jobs)
        repair(store)
        store.write(lambda conn: batches.write(conn, None))
        return run.place


def chunks(store: Readable, after: JobKey | None = None) -> Iterator[tuple[Chunk, int]]:
    """Yield all jobs behind *after*, each chunk with how many events it has."""
    while True:
        with store.reading() as conn:
            found = batches.following(conn, after, MOST_JOBS)
        if not found:
            return
        after = found[-1][0]
        yield from _cut(found)


class _Run:
    """Chunks handed out in the order of their jobs, and committed in it."""

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
        self._cohorts: dict[int, Ids] = {}

    def chunks(self, ahead: int) -> Iterator[RecomputePosition]:
        """Yield the place after each chunk."""
        tasks: deque[_Task] = deque()
        last = self.place.last if self.place else None
        for number, (chunk, events) in enumerate(chunks(self._store, last), 1):
            tasks.append(_Task(chunk, events, self._pool.submit(_do, chunk, self._now_us())))
            # SQLite can write its log from the start again only while nobody reads.
            most_left = 0 if number % _PAUSE_EVERY == 0 else ahead - 1
            while len(tasks) > most_left:
                yield self._settle(tasks.popleft())
        while tasks:
            yield self._settle(tasks.popleft())

    def _settle(self, task: _Task) -> RecomputePosition:
        refolded = task.future.result()
        chunk, before = task.chunk, self.place
        place = self.place = RecomputePosition(
            JobKey(chunk.project_id, chunk.jobs[-1]),
            len(chunk.jobs) + (before.jobs if before else 0),
            task.events + (before.events if before else 0),
        )
        known = self._cohorts.setdefault(chunk.project_id, {})

        def commit(conn: Connection) -> None:
            if refolded is not None:
                batches.take_marks(conn, *chunk)
                refolded.write(conn, known)
            batches.write(conn, place)

        self._store.write(commit)
        return place


def _cut(found: list[tuple[JobKey, int]]) -> Iterator[tuple[Chunk, int]]:
    """Cut jobs into chunks of one project, none of many events but where one job has them."""
    for project_id, of_project in groupby(found, key=lambda pair: pair[0].project_id):
        jobs: list[str] = []
        events = 0
        for key, count in of_project:
            if jobs and events + count > MOST_EVENTS:
                yield Chunk(project_id, jobs), events
                jobs, events = [], 0
            jobs.append(key.job)
            events += count
        yield Chunk(project_id, jobs), events


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
        self._cohorts: dict[int, Ids] = {}

    def do(self, chunk: Chunk, now_us: int) -> Refolded:
        """Refold a chunk."""
        known = self._cohorts.setdefault(chunk.project_id, {})
        with self._store.reading() as conn:
            return refold(conn, chunk, known, now_us, self._limits)


class _Writer:
    """A process that writes for itself."""

    def __init__(self, store: Store, limits: Limits) -> None:
        self._store = store
        self._limits = limits
        self._cohorts: dict[int, Ids] = {}

    def do(self, chunk: Chunk, now_us: int) -> None:
        """Rewrite a chunk, trying again where a server holds one of its jobs for long."""
        for last in (False,) * _TRIES + (True,):
            known = dict(self._cohorts.get(chunk.project_id, {}))
            try:
                self._store.write(partial(self._rewrite, chunk=chunk, known=known, now_us=now_us))
            except StorageUnavailable:
                if last:
                    raise
            else:
                self._cohorts[chunk.project_id] = known
                return

    def _rewrite(self, conn: Connection, chunk: Chunk, known: Ids, now_us: int) -> None:
        there = Chunk(chunk.project_id, batches.lock(conn, *chunk))
        if there.jobs:
            # Before the events are read: what comes in after them leaves a mark that stays.
            batches.take_marks(conn, *there)
            refold(conn, there, known, now_us, self._limits).write(conn, known)


_worker: _Folder | _Writer


def _begin(url: str, limits: Limits) -> None:
    global _worker  # noqa: PLW0603 - a pool's processes have no other place
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one that handed out the work
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if url.startswith("sqlite"):
        _worker = _Folder(open_for_reading(url), limits)
    else:
        _worker = _Writer(open_store(url), limits)
    # A chunk's events and ledgers are no garbage while it is folded, and hold no cycles after.
    gc.freeze()
    gc.set_threshold(_LOOK_FOR_CYCLES_AFTER)


def _end_with_parent() -> None:
    """Die with the process that would take the results, however it dies."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)


def _do(chunk: Chunk, now_us: int) -> Refolded | None:
    """Refold a chunk; return what is left to be written."""
    return _worker.do(chunk, now_us)
