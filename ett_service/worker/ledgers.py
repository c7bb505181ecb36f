"""The worker: folds jobs with new facts into ledgers, and merges them into the rollups."""

from collections.abc import Callable, Sequence
from functools import partial

from typing_extensions import override

from ett_service.aggregation.fold_job import OPEN_EVERY_US
from ett_service.core.ledger.attempts.lifetimes import DEFAULT_LIMITS, Limits
from ett_service.core.ledger.results import FORMULA_VERSION
from ett_service.storage.engine.store import Store
from ett_service.storage.record import dirty_marks
from ett_service.storage.record.dirty_marks import Slots
from ett_service.storage.record.slots import SLOTS
from ett_service.worker.capping import COHORTS_A_DAY, CohortCapping
from ett_service.worker.folding import Folding
from ett_service.worker.metrics import MetricsOptions, MetricsThread
from ett_service.worker.slots import LEASE_SECONDS, SlotsThread
from ett_service.worker.thread import PeriodicThread

_EVERY_JOB = 1_000_000  #: more than are picked at once


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
        """Fold the jobs whose turn it is, merge them, and return how many were folded."""
        self._folding.pick(most_cold=_EVERY_JOB)
        folded = self._folding.settle_all()
        self._folding.merge()
        self._folding.settle_all()
        return folded

    def _slots(self) -> Slots:
        if self._leases is None:
            return None
        slots = self._leases.slots
        return None if len(slots) == SLOTS else slots
