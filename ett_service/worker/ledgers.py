"""The loop that turns dirty marks into ledgers, and caps a day's cohorts."""

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from typing import NamedTuple, Protocol

from sqlalchemy import Connection

from ett_service.aggregation.fold_job import OPEN_EVERY_US, NotForward
from ett_service.aggregation.folds import Folds
from ett_service.aggregation.job import KeptFold, refresh, warm
from ett_service.core.ledger.results import DEFAULT_LIMITS, FORMULA_VERSION, Limits
from ett_service.storage.engine.errors import StorageUnavailable
from ett_service.storage.engine.store import Store
from ett_service.storage.fleet import cohort_cap
from ett_service.storage.fleet.cohort_cap import ProjectDay
from ett_service.storage.record import dirty_marks
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.worker.metrics import Publication, Publishing

_FIRST_PAUSE_US = 1_000_000
_LONGEST_PAUSE_US = 300_000_000


class Turns:
    """Jobs in the order of their need. One that failed comes again later, then later still."""

    def __init__(self, most: int = 200) -> None:
        self._most = most
        self._failures: dict[JobKey, int] = {}
        self._not_before: dict[JobKey, int] = {}

    def next(self, conn: Connection, now_us: int) -> list[JobKey]:
        """Return up to ``most`` jobs: the longest marked first, then the longest overdue."""
        most = self._most + len(self._not_before)
        found = dirty_marks.marked(conn, most)
        if len(found) < most:
            found += dirty_marks.due(conn, now_us, most)
        ready = [key for key in dict.fromkeys(found) if self._not_before.get(key, 0) <= now_us]
        return ready[: self._most]

    def failed(self, key: JobKey, now_us: int) -> float:
        """Put the job off and return for how many seconds."""
        failures = self._failures.get(key, 0)
        pause_us = min(_FIRST_PAUSE_US << min(failures, 10), _LONGEST_PAUSE_US)
        self._failures[key] = failures + 1
        self._not_before[key] = now_us + pause_us
        return pause_us / 1_000_000

    def done(self, key: JobKey) -> None:
        """Forget that the job ever failed."""
        self._failures.pop(key, None)
        self._not_before.pop(key, None)


COHORTS_A_DAY = 500

EVERY_US = 30_000_000
"""How often the days are looked at, in microseconds."""

_LONGEST_US = 200_000  #: then it is the jobs' turn again
_AT_ONCE = 100  #: cohorts moved in one transaction: others may wait for their rows


class Capping:
    """Looks at one full day after the other, and moves cohorts in and out of ``other``.

    Between two looks a day may have more cohorts than *most*: those that first came in between,
    before any was in ``other``.
    """

    def __init__(self, store: Store, now_us: Callable[[], int], most: int) -> None:
        self._store = store
        self._now_us = now_us
        self._most = most
        self._due_us = 0
        self._left: list[ProjectDay] = []  #: the next one last

    def go_on(self) -> None:
        """Look at some days if that is due."""
        began_us = self._now_us()
        if not self._left and began_us >= self._due_us:
            self._due_us = began_us + EVERY_US
            with self._store.reading() as conn:
                self._left = cohort_cap.full_days(conn, self._most)[::-1]
        while self._left and self._now_us() - began_us <= _LONGEST_US:
            self._settle(self._left.pop())

    def _settle(self, day: ProjectDay) -> None:
        with self._store.reading() as conn:
            moves = cohort_cap.plan(conn, day, self._most)
        for some in _pieces(moves.out):
            self._store.write(partial(cohort_cap.move, day=day, cohort_ids=some, own=False))
        for some in _pieces(moves.back):
            self._store.write(partial(cohort_cap.move, day=day, cohort_ids=some, own=True))
        for some in _pieces(moves.gone):
            self._store.write(partial(cohort_cap.forget, day=day, cohort_ids=some))


def _pieces(cohort_ids: Sequence[int]) -> list[Sequence[int]]:
    return [cohort_ids[at : at + _AT_ONCE] for at in range(0, len(cohort_ids), _AT_ONCE)]


log = logging.getLogger(__name__)

_AFTER_TROUBLE_SECONDS = 1.0
#: Beyond it whole folds are left to the next pass, so that jobs that go on do not wait for them.
_MOST_WARMING_US = 200_000


class _Sent(NamedTuple):
    key: JobKey
    kept: KeptFold | None
    future: Future[KeptFold | None]


class Beside(Protocol):
    """What goes on in threads of its own for as long as the worker does."""

    def start(self) -> None:
        """Begin."""

    def stop_soon(self) -> None:
        """Let the threads end after what they are at."""

    def join(self) -> None:
        """Wait for the end of the threads."""


class Worker:
    """Keeps the ledgers of a store up with its facts and with the time.

    Several may work on one PostgreSQL database. *now_us* tells the time in microseconds since
    the Unix epoch; *open_every_us* is how often the numbers of an open job are run on, and
    *cohorts_a_day* how many cohorts of a project keep rollups of their own on a day;
    *publication* says what /metrics is told, and how often; what is *beside* is started and
    stopped with the worker.
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
        publication: Publication | None = None,
        beside: Sequence[Beside] = (),
    ) -> None:
        self._store = store
        self._now_us = now_us
        self._limits = limits
        self._poll_seconds = poll_seconds
        self._open_every_us = open_every_us
        self._capping = Capping(store, now_us, cohorts_a_day)
        self._beside: tuple[Beside, ...] = (Publishing(store, now_us, publication), *beside)
        self._folds = Folds()
        self._turns = Turns()
        #: Jobs to be folded whole under the lock: facts overtook what was read outside of it.
        self._stubborn: set[JobKey] = set()
        self._awake = threading.Event()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def alive(self) -> bool:
        """Whether the thread that :meth:`start` began is at work."""
        return self._thread is not None and self._thread.is_alive()

    def wake(self) -> None:
        """Say that facts were committed, so that the loop does not wait for its next poll."""
        self._awake.set()

    def start(self) -> None:
        """Run in a thread of its own until :meth:`stop`."""
        self._thread = threading.Thread(target=self.run, name="ett-worker", daemon=True)
        self._thread.start()
        for one in self._beside:
            one.start()

    def stop(self) -> None:
        """End the loop after the jobs that it is at; wait for that if it has its own thread."""
        self._stopped.set()
        self._awake.set()
        for one in self._beside:
            one.stop_soon()
        if self._thread is not None:
            self._thread.join()
        for one in self._beside:
            one.join()

    def run(self) -> None:
        """Refresh jobs until :meth:`stop`, whatever trouble the database is in."""
        pass_over = self._first_pass
        while not self._stopped.is_set():
            self._awake.clear()
            try:
                refreshed = pass_over()
                self._capping.go_on()
            except Exception:  # the loop outlives all trouble: log it, wait, go on
                log.exception("The worker could not go on.", extra={"event": "worker_trouble"})
                self._stopped.wait(_AFTER_TROUBLE_SECONDS)
                continue
            pass_over = self.pass_over
            if not refreshed:
                self._awake.wait(self._poll_seconds)

    def _first_pass(self) -> int:
        self._store.write(partial(dirty_marks.outdate, formula_version=FORMULA_VERSION))
        return self.pass_over()

    def pass_over(self) -> int:
        """Refresh the jobs whose turn it is; return how many were."""
        now_us = self._now_us()
        with self._store.reading() as conn:
            keys = self._turns.next(conn, now_us)
        folds = {key: self._folds.take(key) for key in keys}
        # What goes on is sent off first: it need not wait for what has to be read as a whole.
        ready = [(key, kept) for key, kept in folds.items() if kept or key in self._stubborn]
        sent = [self._send(key, kept, now_us) for key, kept in ready]
        cold = [key for key in folds if key not in dict(ready)]
        sent += [self._send(key, kept, now_us) for key, kept in self._warmed(cold, now_us)]
        return self._settle_all(sent, now_us)

    def _warmed(self, keys: Iterable[JobKey], now_us: int) -> Iterator[tuple[JobKey, KeptFold]]:
        for key in keys:
            if self._stopped.is_set() or self._now_us() - now_us > _MOST_WARMING_US:
                return
            try:
                with self._store.reading() as conn:
                    kept = warm(conn, key, self._limits)
            except Exception as error:  # noqa: BLE001 - it must not stop the other jobs
                self._put_off(key, now_us, error)
            else:
                yield key, kept

    def _send(self, key: JobKey, kept: KeptFold | None, now_us: int) -> _Sent:
        work = partial(
            refresh,
            key=key,
            now_us=now_us,
            kept=kept,
            limits=self._limits,
            open_every_us=self._open_every_us,
        )
        return _Sent(key, kept, self._store.submit(work))

    def _settle_all(self, sent: Iterable[_Sent], now_us: int) -> int:
        """Settle each, whatever befalls the others; raise what the database itself is in."""
        settled, trouble = 0, None
        for one in sent:
            try:
                settled += self._settle(one, now_us)
            except StorageUnavailable as error:
                trouble = error
        if trouble is not None:
            raise trouble
        return settled

    def _settle(self, sent: _Sent, now_us: int) -> bool:
        """Wait for the commit; return whether anything was done, or is to be done at once."""
        key = sent.key
        try:
            folded = sent.future.result()
        except StorageUnavailable:
            raise
        except NotForward:
            if sent.kept and sent.kept.ledger is None:
                self._stubborn.add(key)
            return True
        except Exception as error:  # noqa: BLE001 - it must not stop the other jobs
            self._put_off(key, now_us, error)
            return False
        if unused := folded or sent.kept:
            self._folds.keep(unused)
        self._stubborn.discard(key)
        self._turns.done(key)
        return folded is not None

    def _put_off(self, key: JobKey, now_us: int, error: Exception) -> None:
        seconds = self._turns.failed(key, now_us)
        log.error(
            "A job could not be folded; it is tried again in %.0f s.",
            seconds,
            exc_info=error,
            extra={"event": "job_put_off", "project_id": key.project_id, "job_key": key.job},
        )
