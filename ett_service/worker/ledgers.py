"""The worker: folds jobs with new facts into ledgers, and limits the cohorts of a day."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from typing import NamedTuple

from sqlalchemy import Connection
from typing_extensions import override

from ett_service.aggregation.fold_job import (
    OPEN_EVERY_US,
    Folds,
    KeptFold,
    NotForward,
    refresh,
    warm,
)
from ett_service.core.intervals import SECOND_US
from ett_service.core.ledger.attempts.lifetimes import DEFAULT_LIMITS, Limits
from ett_service.core.ledger.results import FORMULA_VERSION
from ett_service.storage.engine.errors import StorageUnavailable
from ett_service.storage.engine.store import Store
from ett_service.storage.fleet import cohort_cap
from ett_service.storage.fleet.cohort_cap import ProjectDay
from ett_service.storage.record import dirty_marks
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.worker.metrics import MetricsOptions, MetricsThread
from ett_service.worker.thread import PeriodicThread

log = logging.getLogger(__name__)

COHORTS_A_DAY = 500
CAP_EVERY_US = 30 * SECOND_US
"""How often full days are checked."""

_CAP_SLICE_US = 200_000  #: then it is the jobs' turn again
_COHORTS_AT_ONCE = 100  #: moved in one transaction: others may wait for their rows
#: Jobs that need a whole fold wait for the next pass beyond it, so that the others do not wait.
_WARMING_SLICE_US = 200_000
_FIRST_RETRY_US = SECOND_US
_LONGEST_RETRY_US = 300 * SECOND_US


class Worker(PeriodicThread):
    """Keeps the ledgers of a store up with its facts and with the time.

    Several may work on one PostgreSQL database. *now_us* is the clock, in microseconds since the
    Unix epoch; *open_every_us* is how often the numbers of an open job are brought up to now, and
    *cohorts_a_day* how many cohorts of a project keep rollups of their own on a day. *metrics*
    says what /metrics shows; *threads* are started and stopped with the worker.
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
        self._now_us = now_us
        self._limits = limits
        self._poll_seconds = poll_seconds
        self._open_every_us = open_every_us
        self._capping = CohortCapping(store, now_us, cohorts_a_day)
        self._threads = (MetricsThread(store, now_us, metrics), *threads)
        self._folds = Folds()
        self._queue = JobQueue()
        #: Jobs to be folded whole under the lock: facts overtook what was read outside of it.
        self._stubborn: set[JobKey] = set()
        self._is_first_step = True

    @override
    def start(self) -> None:
        """Begin this thread and the other threads of the worker."""
        super().start()
        for thread in self._threads:
            thread.start()

    @override
    def works(self, within_seconds: float) -> bool:
        """Whether this thread takes its steps, and the others run."""
        return super().works(within_seconds) and all(thread.alive for thread in self._threads)

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
        folded = self.run_once()
        self._capping.run_once()
        return 0.0 if folded else self._poll_seconds

    def run_once(self) -> int:
        """Fold the jobs whose turn it is, and return how many were folded."""
        now_us = self._now_us()
        with self._store.reading() as conn:
            keys = self._queue.next(conn, now_us)
        folds = {key: self._folds.take(key) for key in keys}
        # Jobs that are folded forward are sent first: they need not wait for whole reads.
        ready = {key: fold for key, fold in folds.items() if fold or key in self._stubborn}
        sent = [self._send(key, fold, now_us) for key, fold in ready.items()]
        cold = [key for key in folds if key not in ready]
        sent += [self._send(key, fold, now_us) for key, fold in self._warm(cold, now_us)]
        return self._settle_all(sent, now_us)

    def _warm(self, keys: Iterable[JobKey], now_us: int) -> Iterator[tuple[JobKey, KeptFold]]:
        for key in keys:
            if self.stopping.is_set() or self._now_us() - now_us > _WARMING_SLICE_US:
                return
            try:
                with self._store.reading() as conn:
                    fold = warm(conn, key, self._limits)
            except Exception as error:  # noqa: BLE001 - it must not stop the other jobs
                self._put_off(key, now_us, error)
            else:
                yield key, fold

    def _send(self, key: JobKey, fold: KeptFold | None, now_us: int) -> "_SentFold":
        work = partial(
            refresh,
            key=key,
            now_us=now_us,
            kept_fold=fold,
            limits=self._limits,
            open_every_us=self._open_every_us,
        )
        return _SentFold(key, fold, self._store.submit(work))

    def _settle_all(self, sent: Iterable["_SentFold"], now_us: int) -> int:
        """Settle every job, and only then raise that the database is unavailable."""
        folded, unavailable = 0, None
        for job in sent:
            try:
                folded += self._settle(job, now_us)
            except StorageUnavailable as error:
                unavailable = error
        if unavailable is not None:
            raise unavailable
        return folded

    def _settle(self, sent: "_SentFold", now_us: int) -> bool:
        """Wait for the commit; return whether anything was done, or is to be done at once."""
        key = sent.key
        try:
            fold = sent.future.result()
        except StorageUnavailable:
            raise
        except NotForward:
            if sent.before and sent.before.ledger is None:
                self._stubborn.add(key)
            return True
        except Exception as error:  # noqa: BLE001 - it must not stop the other jobs
            self._put_off(key, now_us, error)
            return False
        if usable := fold or sent.before:
            self._folds.keep(usable)
        self._stubborn.discard(key)
        self._queue.done(key)
        return fold is not None

    def _put_off(self, key: JobKey, now_us: int, error: Exception) -> None:
        seconds = self._queue.failed(key, now_us)
        log.error(
            "A job could not be folded; it will be retried in %.0f s.",
            seconds,
            exc_info=error,
            extra={"event": "job_put_off", "project_id": key.project_id, "job_key": key.job},
        )


class _SentFold(NamedTuple):
    key: JobKey
    before: KeptFold | None
    future: Future[KeptFold | None]


class JobQueue:
    """Jobs in the order of their need. A job that failed comes later, then later still."""

    def __init__(self, most: int = 200) -> None:
        self._most = most
        self._failures: dict[JobKey, int] = {}
        self._not_before: dict[JobKey, int] = {}

    def next(self, conn: Connection, now_us: int) -> list[JobKey]:
        """Return up to ``most`` jobs: the longest marked first, then the longest overdue."""
        most = self._most + len(self._not_before)
        keys = dirty_marks.marked(conn, most)
        if len(keys) < most:
            keys += dirty_marks.due(conn, now_us, most)
        ready = [key for key in dict.fromkeys(keys) if self._not_before.get(key, 0) <= now_us]
        return ready[: self._most]

    def failed(self, key: JobKey, now_us: int) -> float:
        """Put the job off, and return for how many seconds."""
        failures = self._failures.get(key, 0)
        pause_us = min(_FIRST_RETRY_US << min(failures, 10), _LONGEST_RETRY_US)
        self._failures[key] = failures + 1
        self._not_before[key] = now_us + pause_us
        return pause_us / SECOND_US

    def done(self, key: JobKey) -> None:
        """Forget the failures of the job."""
        self._failures.pop(key, None)
        self._not_before.pop(key, None)


class CohortCapping:
    """Checks full days one after the other, and moves cohorts in and out of ``other``.

    Between two checks a day may have more cohorts than *most*: those that came before any was in
    ``other``.
    """

    def __init__(self, store: Store, now_us: Callable[[], int], most: int) -> None:
        self._store = store
        self._now_us = now_us
        self._most = most
        self._due_us = 0
        self._days: list[ProjectDay] = []  #: still to be checked, the next one last

    def run_once(self) -> None:
        """Check some days if that is due."""
        began_us = self._now_us()
        if not self._days and began_us >= self._due_us:
            self._due_us = began_us + CAP_EVERY_US
            with self._store.reading() as conn:
                self._days = cohort_cap.full_days(conn, self._most)[::-1]
        while self._days and self._now_us() - began_us <= _CAP_SLICE_US:
            self._settle(self._days.pop())

    def _settle(self, day: ProjectDay) -> None:
        with self._store.reading() as conn:
            moves = cohort_cap.plan(conn, day, self._most)
        for cohort_ids, work in (
            (moves.out, partial(cohort_cap.move, own=False)),
            (moves.back, partial(cohort_cap.move, own=True)),
            (moves.gone, cohort_cap.forget),
        ):
            for at in range(0, len(cohort_ids), _COHORTS_AT_ONCE):
                batch = cohort_ids[at : at + _COHORTS_AT_ONCE]
                self._store.write(partial(work, day=day, cohort_ids=batch))
