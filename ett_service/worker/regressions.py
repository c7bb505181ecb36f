"""The daily search for regressions, in the one worker that holds the lease."""

import logging
import os
import secrets
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple, TypeAlias

from sqlalchemy import Connection
from typing_extensions import override

from ett_service.core.intervals import DAY_US, SECOND_US
from ett_service.core.regressions.finding import FindingKey
from ett_service.core.regressions.state import StateRules
from ett_service.detection import run as detection_run
from ett_service.detection.run import RunResult, memory_of, retrace
from ett_service.detection.sample import Memory, Plan
from ett_service.storage.engine import lease
from ett_service.storage.engine.errors import StorageUnavailable
from ett_service.storage.engine.lease import LeaseLost
from ett_service.storage.engine.store import Store
from ett_service.storage.metrics import gauge_values
from ett_service.storage.regressions import detection_runs, findings, tuning
from ett_service.storage.regressions.detection_runs import DetectionRun, UnsearchedHistory
from ett_service.worker import notify
from ett_service.worker.notify import Audience
from ett_service.worker.thread import PeriodicThread

log = logging.getLogger(__name__)

_RENEWALS = 3  #: by the holder, in the time that a lease lasts
_TRIES = 15  #: by the others, so that it is taken soon after it ran out
_TRUSTED = 2 / 3  #: of its time, in which nobody else can have taken a renewed lease


class _Held(NamedTuple):
    epoch: int
    until: float  #: on the monotonic clock


class LeaseThread(PeriodicThread):
    """Takes the lease *name* as soon as it is free, and renews it.

    A database that does not answer ends the right to act well before the lease runs out, by a
    clock that nobody sets.
    """

    def __init__(self, store: Store, name: str, seconds: float) -> None:
        super().__init__(
            "lease",
            failure="The lease could not be taken or resigned.",
            event="lease_failed",
            retry_seconds=seconds / _TRIES,
        )
        self._store = store
        self._lease = name
        self._seconds = seconds
        # Unique to this start: a process that starts again gets an epoch of its own.
        self._holder = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(8)}"
        self._held: _Held | None = None

    @property
    def epoch(self) -> int | None:
        """The epoch to write under; None while another holds the lease, or nobody knows."""
        held = self._held
        return held.epoch if held is not None and time.monotonic() < held.until else None

    def renew(self) -> None:
        """Take the lease, or renew it."""
        until = time.monotonic() + self._seconds * _TRUSTED
        before = self._held
        epoch = self._store.write(
            partial(lease.take, name=self._lease, holder=self._holder, seconds=self._seconds)
        )
        self._held = None if epoch is None else _Held(epoch, until)
        if epoch is not None and (before is None or before.epoch != epoch):
            log.info(
                "Took the lease %s, epoch %d.",
                self._lease,
                epoch,
                extra={"event": "lease_taken", "lease": self._lease, "epoch": epoch},
            )

    def resign(self) -> None:
        """Let another worker take the lease at once."""
        held, self._held = self._held, None
        if held is not None:
            self._store.write(partial(lease.resign, name=self._lease, epoch=held.epoch))

    @override
    def step(self) -> float:
        self.renew()
        return self._seconds / (_TRIES if self._held is None else _RENEWALS)

    @override
    def finish(self) -> None:
        self.resign()


LEASE = "evaluator"
MOST_RUNS = 28

Evaluate: TypeAlias = Callable[[Connection, int, int, Plan, Memory], RunResult]

_STEPS = 15  #: in the time that a lease lasts
_RETRY_SECONDS = 300.0  #: of a project that could not be searched
_PATIENCE_SECONDS = 1.0  #: a search that goes on when the worker ends is not waited for


class Run(NamedTuple):
    """The result of a run."""

    at_us: int
    result: RunResult


@dataclass(frozen=True, slots=True)
class DetectionOptions:
    """What is searched for, how often, and who is notified."""

    plan: Plan = field(default_factory=Plan)
    tune: bool = False  #: the smallest changes by what people called earlier findings
    rules: StateRules = field(default_factory=StateRules)
    audience: Audience = field(default_factory=Audience)
    every_us: int = DAY_US  #: runs end at multiples of it since the Unix epoch
    settle_us: int = 300 * SECOND_US  #: the longest that a run waits for the ledgers
    lease_seconds: float = 15.0
    evaluate: Evaluate = detection_run.evaluate
    clock: Callable[[Connection], int] = lease.now_us


class DetectionThread(PeriodicThread):
    """Searches in the one worker that holds the lease.

    A search runs outside of any transaction. What it changes is written under the lease, together
    with the notices that follow from it, or not at all.
    """

    def __init__(self, store: Store, options: DetectionOptions) -> None:
        pause_seconds = options.lease_seconds / _STEPS
        super().__init__(
            "regressions",
            failure="The search for regressions failed.",
            event="detection_failed",
            retry_seconds=pause_seconds,
        )
        self._store = store
        self._options = options
        self._pause_seconds = pause_seconds
        self.lease = LeaseThread(store, LEASE, options.lease_seconds)
        self._not_before: dict[int, float] = {}  #: by project that failed, monotonic

    @override
    def start(self) -> None:
        """Begin the thread, and the one that keeps the lease."""
        self.lease.start()
        super().start()

    @override
    def join(self, seconds: float | None = None) -> None:
        """Wait a little for the present search; later results stay unwritten."""
        super().join(_PATIENCE_SECONDS if seconds is None else seconds)
        self.lease.stop_soon()
        self.lease.join()

    @override
    def step(self) -> float:
        epoch = self.lease.epoch
        try:
            if epoch is not None:
                self.run_once(epoch)
        except LeaseLost as error:
            log.warning("The search wrote nothing: %s", error, extra={"event": "lease_lost"})
        except Exception:  # at the end the store may close first; before it, `run` logs it
            if not self.stopping.is_set():
                raise
        return self._pause_seconds

    def run_once(self, epoch: int) -> None:
        """Search the projects whose turn it is, and notify.

        After a pause of all workers only the latest missed run is made up for. The first search
        over a project covers its last days: see :func:`first_search`.

        Raises:
            LeaseLost: Another worker holds the lease by now.
        """
        with self._store.reading() as conn:
            now_us = self._options.clock(conn)
            at_us = now_us // self._options.every_us * self._options.every_us
            ready = self._ready(conn, at_us, now_us)
        for project_id in ready:
            if self.stopping.is_set() or self.lease.epoch != epoch:
                return
            self._try(project_id, at_us, epoch)
        self._notify(epoch)

    def _ready(self, conn: Connection, at_us: int, now_us: int) -> list[int]:
        """Return the projects to search, once their ledgers know all earlier facts."""
        settle_us = self._options.settle_us
        ready = [
            project_id
            for project_id in detection_runs.projects_behind(conn, at_us)
            if self._not_before.get(project_id, 0.0) <= time.monotonic()
        ]
        if ready and now_us - at_us < settle_us:
            since_us = gauge_values.waiting(conn).since_us
            if since_us is not None and since_us < at_us:
                return []
        histories = {
            project_id: detection_runs.unsearched(conn, project_id, at_us) for project_id in ready
        }
        return [
            project_id
            for project_id, history in histories.items()
            if history is None or is_settled(conn, history, now_us, settle_us)
        ]

    def _try(self, project_id: int, at_us: int, epoch: int) -> None:
        """Search a project; its errors keep no other project waiting."""
        try:
            self._search(project_id, at_us, epoch)
        except (LeaseLost, StorageUnavailable):
            raise
        except Exception:  # logged, and tried again later: the others are searched meanwhile
            self._not_before[project_id] = time.monotonic() + _RETRY_SECONDS
            log.exception(
                "A project could not be searched for regressions.",
                extra={"event": "project_detection_failed", "project_id": project_id},
            )
        else:
            self._not_before.pop(project_id, None)

    def _search(self, project_id: int, at_us: int, epoch: int) -> None:
        options = self._options
        began = time.perf_counter()
        with self._store.reading() as conn:
            history = detection_runs.unsearched(conn, project_id, at_us)
            tuned = tuning.factors(conn, project_id, at_us) if options.tune else {}
            plan = options.plan.tuned(tuned)
            if history is None:
                past = findings.recent_states(conn, project_id, at_us)
                memory = memory_of(past.values(), findings.accepted(conn, project_id))
                result = options.evaluate(conn, project_id, at_us, plan, memory)
                runs = [Run(at_us, result)]
            else:
                recent_days = options.plan.options.recent_days
                instants = run_instants(at_us, options.every_us, recent_days, history)
                runs = first_search(conn, project_id, instants, plan, options.rules)
        if self.stopping.is_set():
            return
        took_us = round((time.perf_counter() - began) * SECOND_US / len(runs))
        self._store.write(
            partial(self._write, project_id=project_id, runs=runs, epoch=epoch, took_us=took_us)
        )

    def _write(
        self, conn: Connection, project_id: int, runs: Sequence[Run], epoch: int, took_us: int
    ) -> None:
        """Write runs and their consequences, unless another worker has the lease or was first.

        Receivers are notified of the state after the last run.
        """
        self._hold_lease(conn, epoch)
        now_us = self._options.clock(conn)
        for at_us, result in runs:
            body = findings.to_json({"power": result.power})
            run = DetectionRun(project_id, at_us, took_us, epoch, result.series, body)
            if not detection_runs.add(conn, run, now_us):
                return
            findings.record(
                conn, project_id, at_us, result.run_findings, self._options.rules,
                gone=result.gone, standing=result.standing,
            )  # fmt: skip
        notify.enqueue(conn, self._options.audience, now_us)

    def _notify(self, epoch: int) -> None:
        """Notify of what people changed since, and of regressions that are no longer muted."""

        def work(conn: Connection) -> None:
            self._hold_lease(conn, epoch)
            notify.enqueue(conn, self._options.audience, self._options.clock(conn))

        with self._store.reading() as conn:
            now_us = self._options.clock(conn)
            pending = notify.pending(conn, self._options.audience, now_us)
        if pending:
            self._store.write(work)

    def _hold_lease(self, conn: Connection, epoch: int) -> None:
        lease_us = round(self._options.lease_seconds * SECOND_US)
        lease.hold(conn, LEASE, epoch, idle_us=min(lease.IDLE_US, lease_us))


def is_settled(conn: Connection, history: UnsearchedHistory, now_us: int, settle_us: int) -> bool:
    """Whether a project's history seems complete: no old facts arrive any more.

    Facts that arrived longer than *settle_us* ago are in its ledgers, or have failed for a day.
    """
    if now_us - history.received_us < settle_us:
        return False
    since_us = gauge_values.waiting(conn).since_us
    return since_us is None or not settle_us < now_us - since_us < DAY_US


def run_instants(
    at_us: int, every_us: int, recent_days: int, history: UnsearchedHistory
) -> list[int]:
    """Return when runs would have been in the last days up to *at_us*, in ascending order.

    They are whole days apart, and each is later than the project's first job.
    """
    step_us = -(-every_us // DAY_US) * DAY_US
    count = min(MOST_RUNS, max(1, recent_days * DAY_US // step_us))
    instants = [at_us - place * step_us for place in reversed(range(count))]
    return [instant_us for instant_us in instants if instant_us > history.began_us]


def first_search(
    conn: Connection, project_id: int, instants: Sequence[int], plan: Plan, rules: StateRules
) -> list[Run]:
    """Run the detector at ascending instants; each run knows the findings of earlier ones."""
    backtest, _ = retrace(conn, project_id, instants, plan, rules)
    latest = {(course.latest_us, course.standing.key): course.latest for course in backtest.courses}

    def with_latest(at_us: int, result: RunResult) -> Run:
        run_findings = tuple(
            latest.get((at_us, FindingKey.of(each.finding)), each) for each in result.run_findings
        )
        return Run(at_us, replace(result, run_findings=run_findings))

    return [
        with_latest(at_us, result) for at_us, result in zip(instants, backtest.runs, strict=True)
    ]
