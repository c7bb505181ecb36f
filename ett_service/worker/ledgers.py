"""The worker: folds jobs with new facts into ledgers, and merges them into the rollups.

Many jobs are folded at a time, none of which waits for the others, and merged once they are.
"""

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, TypeAlias

from sqlalchemy import Connection
from typing_extensions import override

from ett_service.aggregation.fold_job import (
    OPEN_EVERY_US,
    Folds,
    KeptFold,
    NotForward,
    Overtaken,
    Prepared,
    prepare,
    refresh,
    store_prepared,
)
from ett_service.core.ledger.attempts.lifetimes import DEFAULT_LIMITS, Limits
from ett_service.core.ledger.results import FORMULA_VERSION
from ett_service.storage.engine.errors import StorageUnavailable
from ett_service.storage.engine.lease import SLOTS
from ett_service.storage.engine.store import Store
from ett_service.storage.fleet import rollup_deltas
from ett_service.storage.fleet.cohort_cap import COHORTS_A_DAY, CohortCapping
from ett_service.storage.fleet.contributions import CohortIds
from ett_service.storage.record import dirty_marks
from ett_service.storage.record.dirty_marks import JobKey, JobQueue, Slots, Took, monotonic_us
from ett_service.worker.metrics import MetricsOptions, MetricsThread
from ett_service.worker.slots import LEASE_SECONDS, SlotsThread
from ett_service.worker.thread import PeriodicThread

log = logging.getLogger(__name__)

#: SQLite is read no faster by several, as they wait for a processor only. The second is there so
#: that a job which is slow to fold keeps no other waiting: such jobs have half of the threads.
_THREADS = {"postgresql": 8, "sqlite": 2}
_COLD = 64  #: read whole at a time; the others' turn comes when the next jobs are picked
_MOST_FAILED = 10  #: of jobs, and none folded since: then it is not the jobs
_PICKING_SHARE = 10  #: jobs are picked again after so many times what picking took

_Settling: TypeAlias = Callable[[], bool]
"""What is to be done about a future that is done; whether a job was folded."""

_EVERY_JOB = 1_000_000  #: more than are picked at once


class Folding:
    """Jobs on their way from their marks to the rollups.

    *now_us* is the clock; *open_every_us* is how often the numbers of an open job are brought up to
    now. All methods are called from one thread; others only read for it, and the store writes.
    """

    def __init__(
        self, store: Store, now_us: Callable[[], int], limits: Limits, open_every_us: int
    ) -> None:
        self._store = store
        self._now_us = now_us
        self._limits = limits
        self._open_every_us = open_every_us
        self._most_threads = _THREADS[store.dialect]
        self._most_slow = self._most_threads // 2
        self._readers = ThreadPoolExecutor(self._most_threads, thread_name_prefix="ett-reader")
        self._forward: ThreadPoolExecutor | None = None  #: folds forward beside the only writer
        if store.dialect == "sqlite":
            self._forward = ThreadPoolExecutor(1, thread_name_prefix="ett-forward")
        self._folds = Folds()
        self._cohort_ids: defaultdict[int, CohortIds] = defaultdict(dict)  #: by project
        self._queue = JobQueue()
        self._done: SimpleQueue[_Settling] = SimpleQueue()
        self._reading: set[JobKey] = set()
        self._slow: set[JobKey] = set()  #: of those that are read or written
        self._writing: set[JobKey] = set()
        self._merges = 0  #: under way, at most one
        self._unmerged = False
        self.failed: set[JobKey] = set()  #: since a job was folded
        self._took: dict[JobKey, Took] = {}  #: so far, by those that are at work
        self._pick_after = 0.0

    @property
    def busy(self) -> bool:
        """Whether anything is under way."""
        return bool(self._reading or self._writing or self._merges)

    def pick(self, slots: Slots = None, most_cold: int = _COLD, *, resting: bool = False) -> None:
        """Begin with the jobs whose turn it is, and with *resting* ones if they are wanted.

        Whole reads, of which there are up to *most_cold* at a time, and slow jobs are prepared
        before they are written. So is what is folded forward where all senders need one writer,
        by one thread: two would take turns at the interpreter with the requests.
        """
        began, now_us = time.monotonic(), self._now_us()
        under_way = self._reading | self._writing
        with self._store.reading() as conn:
            turn = self._queue.next(conn, now_us, slots, under_way, resting=resting)
        self._unmerged |= turn.unmerged
        for key in turn.keys:
            is_slow = not resting and self._queue.is_slow(key)
            if is_slow and len(self._slow) >= self._most_slow:
                continue
            fold = self._folds.take(key)
            if is_slow:
                self._slow.add(key)
                self._prepare(self._readers, key, fold)
            elif fold and self._forward:
                self._prepare(self._forward, key, fold)
            elif fold:
                self._refresh(key, fold)
            elif len(self._reading) < most_cold:
                self._prepare(self._readers, key, None)
        ended = time.monotonic()
        self._pick_after = ended + _PICKING_SHARE * (ended - began)

    def has_room(self) -> bool:
        """Whether more jobs are to be picked, as threads run out of work or some time passed."""
        n_under_way = len(self._reading) + len(self._writing)
        return n_under_way <= self._most_threads or time.monotonic() >= self._pick_after

    def settle(self, wait_seconds: float) -> int:
        """Settle what is done, and wait for the first of it; return how many jobs were folded.

        Raises:
            StorageUnavailable: The database was, for one of them; all others are settled.
        """
        folded, unavailable = 0, None
        for settling in self._ended(wait_seconds):
            try:
                folded += settling()
            except StorageUnavailable as error:
                unavailable = error
        if unavailable is not None:
            raise unavailable
        return folded

    def settle_all(self) -> int:
        """Wait for everything under way, and return how many jobs were folded."""
        folded, unavailable = 0, None
        while self.busy:
            try:
                folded += self.settle(1.0)
            except StorageUnavailable as error:
                unavailable = error
        if unavailable is not None:
            raise unavailable
        return folded

    def merge(self, slots: Slots = None) -> None:
        """Begin to merge what was folded, unless that is under way."""
        if self._unmerged and not self._merges:
            self._merges, self._unmerged = 1, False
            self._follow(
                self._store.submit(partial(rollup_deltas.merge, slots=slots)), self._merged
            )

    def close(self) -> None:
        """Finish the jobs that are being written, and let the others be."""
        self._readers.shutdown(cancel_futures=True)
        if self._forward:
            self._forward.shutdown(cancel_futures=True)
        self.settle_all()
        self.merge()
        self.settle_all()

    def _ended(self, wait_seconds: float) -> list[_Settling]:
        ended: list[_Settling] = []
        try:
            if self.busy:
                ended.append(self._done.get(timeout=wait_seconds))
            while True:
                ended.append(self._done.get_nowait())
        except Empty:
            return ended

    def _follow(self, future: Future[Any], settle: Callable[[Future[Any]], bool]) -> None:
        future.add_done_callback(lambda done: self._done.put(partial(settle, done)))

    def _prepare(self, threads: ThreadPoolExecutor, key: JobKey, fold: KeptFold | None) -> None:
        self._reading.add(key)
        future = threads.submit(self._prepared, key, fold)
        self._follow(future, partial(self._was_prepared, key))

    def _prepared(self, key: JobKey, fold: KeptFold | None) -> Prepared | None:
        with self._timed(key), self._store.reading() as conn:
            now_us = self._now_us()
            return prepare(conn, key, now_us, fold, self._limits, self._open_every_us)

    def _was_prepared(self, key: JobKey, future: Future[Prepared | None]) -> bool:
        self._reading.remove(key)
        try:
            prepared = future.result()
        except CancelledError:
            self._ended_with(key)
        except Exception as error:  # noqa: BLE001 - it must not stop the other jobs
            self._put_off(key, error)
        else:
            if prepared:
                self._write(key, None, partial(store_prepared, prepared=prepared))
            else:
                self._ended_with(key)
        return False

    def _refresh(self, key: JobKey, fold: KeptFold) -> None:
        work = partial(
            refresh,
            key=key,
            kept_fold=fold,
            limits=self._limits,
            open_every_us=self._open_every_us,
        )
        self._write(key, fold, work)

    def _write(
        self, key: JobKey, before: KeptFold | None, work: Callable[..., KeptFold | None]
    ) -> None:
        """Have *work* write a job; the fold *before* can go on if it changes nothing."""
        now_us, cohort_ids = self._now_us(), self._cohort_ids[key.project_id]

        def timed(conn: Connection) -> KeptFold | None:
            with self._timed(key):
                return work(conn, now_us=now_us, cohort_ids=cohort_ids)

        self._writing.add(key)
        self._follow(self._store.submit(timed), partial(self._was_written, key, before))

    @contextmanager
    def _timed(self, key: JobKey) -> Iterator[None]:
        began_us, busy_ns = monotonic_us(), time.thread_time_ns()
        try:
            yield
        finally:
            before = self._took.get(key, Took(0, 0))
            self._took[key] = Took(
                before.wall_us + monotonic_us() - began_us,
                before.processor_us + (time.thread_time_ns() - busy_ns) // 1000,
            )

    def _was_written(
        self, key: JobKey, before: KeptFold | None, future: Future[KeptFold | None]
    ) -> bool:
        """Keep the fold; return whether anything was done, or is to be done at once."""
        self._writing.remove(key)
        try:
            fold = future.result()
        except StorageUnavailable:
            self._ended_with(key)
            self._cohort_ids.clear()  # a standby that was promoted may lack the newest
            raise
        except NotForward:
            self._slow.discard(key)
            return True
        except Overtaken:
            self._ended_with(key)
            return False
        except Exception as error:  # noqa: BLE001 - it must not stop the other jobs
            self._put_off(key, error)
            return False
        if fold:
            self._cohort_ids[key.project_id] |= fold.cohort_ids
        self.failed.clear()
        if usable := fold or before:
            self._folds.keep(usable)
        self._queue.done(key, self._ended_with(key))
        self._unmerged |= fold is not None
        return fold is not None

    def _ended_with(self, key: JobKey) -> Took:
        """Forget that the job is at work, and return what it took."""
        self._slow.discard(key)
        return self._took.pop(key, Took(0, 0))

    def _merged(self, future: Future[int]) -> bool:
        self._merges = 0
        try:
            self._unmerged |= future.result() == rollup_deltas.MERGED_AT_ONCE
        except BaseException:  # raised again: what waits is merged the next time
            self._unmerged = True
            raise
        return False

    def _put_off(self, key: JobKey, error: Exception) -> None:
        self._ended_with(key)
        self.failed.add(key)
        seconds = self._queue.failed(key)
        log.error(
            "A job could not be folded; it will be retried in %.0f s.",
            seconds,
            exc_info=error,
            extra={"event": "job_put_off", "project_id": key.project_id, "job_key": key.job},
        )


class Worker(PeriodicThread):
    """Keeps the ledgers of a store up with its facts and with the time.

    Several may work on one PostgreSQL database: once started, they share the jobs by slots.
    *now_us* is the clock, in microseconds since the Unix epoch; *open_every_us* is how often the
    numbers of an open job are brought up to now, *cohorts_a_day* how many cohorts of a project
    keep rollups of their own on a day. *metrics* says what /metrics shows; *threads* are started
    and stopped with the worker.
    """

    def __init__(
        self,
        store: Store,
        now_us: Callable[[], int],
        limits: Limits = DEFAULT_LIMITS,
        *,
        poll_seconds: float = 0.2,
        open_every_us: int = OPEN_EVERY_US,
        cohorts_a_day: int = COHORTS_A_DAY,
        metrics: MetricsOptions | None = None,
        threads: Sequence[PeriodicThread] = (),
    ) -> None:
        super().__init__(
            "worker", failure="The ledgers could not be updated.", event="ledgers_failed"
        )
        self._store = store
        self._poll_seconds = poll_seconds
        self._folding = Folding(store, now_us, limits, open_every_us)
        self._capping = CohortCapping(store, now_us, cohorts_a_day)
        self._threads = [MetricsThread(store, now_us, metrics), *threads]
        self._leases: SlotsThread | None = None
        if store.dialect == "postgresql":
            self._leases = SlotsThread(store, self.wake, LEASE_SECONDS)
            self._threads.append(self._leases)
        self._is_first_step = True

    @override
    def start(self) -> None:
        """Begin this thread and the other threads of the worker."""
        for thread in self._threads:
            thread.start()
        super().start()

    @override
    def works(self, within_seconds: float) -> bool:
        """Whether this thread takes its steps, and the others run."""
        return super().works(within_seconds) and all(thread.alive for thread in self._threads)

    @property
    def folds(self) -> bool:
        """Whether not every fold fails."""
        return len(self._folding.failed) < _MOST_FAILED

    def stop(self) -> None:
        """Stop all threads after their present steps, and wait for them."""
        self.stop_soon()
        for thread in self._threads:
            thread.stop_soon()
        self.join()
        for thread in self._threads:
            thread.join()

    @override
    def step(self) -> float:
        if self._is_first_step:
            self._store.write(partial(dirty_marks.outdate, formula_version=FORMULA_VERSION))
            self._is_first_step = False
        slots = self._slots()
        if self._folding.has_room() and slots != frozenset():
            self._folding.pick(slots)
        folded = self._folding.settle(self._poll_seconds)
        self._folding.merge(slots)
        if slots is None or 0 in slots:
            self._capping.run_once()
        return 0.0 if folded or self._folding.busy else self._poll_seconds

    @override
    def finish(self) -> None:
        self._folding.close()

    def run_once(self) -> int:
        """Fold the jobs that wait, also while they rest; merge them, and return how many."""
        self._folding.pick(most_cold=_EVERY_JOB, resting=True)
        folded = self._folding.settle_all()
        self._folding.merge()
        self._folding.settle_all()
        return folded

    def _slots(self) -> Slots:
        if self._leases is None:
            return None
        slots = self._leases.slots
        return None if len(slots) == SLOTS else slots
