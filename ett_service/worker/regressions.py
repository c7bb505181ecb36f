"""Searches for regressions once a day, in one worker of all."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple, TypeAlias

from sqlalchemy import Connection

from ett_service.core.intervals import DAY_US, SECOND_US
from ett_service.core.regressions.state import FindingKey, StateRules
from ett_service.detection import run as detection_run
from ett_service.detection.backtest import retrace
from ett_service.detection.options import Memory, Plan
from ett_service.detection.run import RunFinding, RunResult, memory_of
from ett_service.storage.engine import lease
from ett_service.storage.engine.errors import StorageUnavailable
from ett_service.storage.engine.lease import LeaseLost
from ett_service.storage.engine.store import Store
from ett_service.storage.metrics import running
from ett_service.storage.regressions import detection_runs, findings, regressions, rows
from ett_service.storage.regressions.detection_runs import DetectionRun, UnsearchedHistory
from ett_service.storage.regressions.findings import NewFinding
from ett_service.worker import notify
from ett_service.worker.lease import LeaseThread
from ett_service.worker.notify import Audience

MOST_RUNS = 28


class Run(NamedTuple):
    """What a run found."""

    at_us: int
    evaluated: RunResult


def is_settled(conn: Connection, history: UnsearchedHistory, now_us: int, settle_us: int) -> bool:
    """Tell whether a project's history seems to be there: nothing old comes in any more.

    What came in longer than *settle_us* ago is in its ledgers, too, or fails to be for a day.
    """
    if now_us - history.received_us < settle_us:
        return False
    since_us = running.waiting(conn).since_us
    return since_us is None or not settle_us < now_us - since_us < DAY_US


def instants(at_us: int, every_us: int, recent_days: int, history: UnsearchedHistory) -> list[int]:
    """Return when runs would have been in the last days up to *at_us*, in ascending order.

    They are whole days apart, and each is later than the project's first job.
    """
    step_us = -(-every_us // DAY_US) * DAY_US
    count = min(MOST_RUNS, max(1, recent_days * DAY_US // step_us))
    found = [at_us - place * step_us for place in reversed(range(count))]
    return [one for one in found if one > history.began_us]


def search(
    conn: Connection, project_id: int, runs_at: Sequence[int], plan: Plan, rules: StateRules
) -> list[Run]:
    """Run the detector at instants in ascending order, each knowing what those before it found."""
    replayed, _ = retrace(conn, project_id, runs_at, plan, rules)
    told = {(one.found_us, one.standing.thread): one.found for one in replayed.courses}
    runs = []
    for at_us, evaluated in zip(runs_at, replayed.runs, strict=True):
        found = tuple(told.get((at_us, _thread(one)), one) for one in evaluated.found)
        runs.append(Run(at_us, replace(evaluated, found=found)))
    return runs


def _thread(found: RunFinding) -> FindingKey:
    return FindingKey(found.finding.fingerprint, found.finding.verdict)


log = logging.getLogger(__name__)

LEASE = "evaluator"

Evaluate: TypeAlias = Callable[[Connection, int, int, Plan, Memory], RunResult]

_LOOKS = 15  #: in the time that a lease lasts, at the clock and at what is to be told
_AFTER_TROUBLE_SECONDS = 300.0  #: a project that cannot be searched is tried again
_PATIENCE_SECONDS = 1.0  #: a project that is looked at when all ends is not waited for


@dataclass(frozen=True, slots=True)
class DetectionOptions:
    """What is looked for, how often, and who is told."""

    plan: Plan = field(default_factory=Plan)
    rules: StateRules = field(default_factory=StateRules)
    audience: Audience = field(default_factory=Audience)
    every_us: int = DAY_US  #: runs end at multiples of it since the Unix epoch
    settle_us: int = 300 * SECOND_US  #: a run waits so long for the ledgers at most
    lease_seconds: float = 15.0
    evaluate: Evaluate = detection_run.evaluate
    clock: Callable[[Connection], int] = lease.now_us


class DetectionThread:
    """Goes on in a thread of its own, and in the worker alone that holds the lease.

    What a run finds is worked out outside of any transaction; what that changes is written under
    the lease, with the notices that follow from it, or not at all.
    """

    def __init__(self, store: Store, detecting: DetectionOptions) -> None:
        self._store = store
        self._detecting = detecting
        self.leading = LeaseThread(store, LEASE, detecting.lease_seconds)
        self._not_before: dict[int, float] = {}  #: by project that failed, monotonic
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin the thread, and the one that keeps the lease."""
        self.leading.start()
        self._thread = threading.Thread(target=self._run, name="ett-evaluator", daemon=True)
        self._thread.start()

    def stop_soon(self) -> None:
        """Let the threads end after the project that is looked at."""
        self._stopped.set()

    def join(self) -> None:
        """Wait a little for that; what it would find later stays unwritten."""
        if self._thread is not None:
            self._thread.join(_PATIENCE_SECONDS)
        self.leading.stop_soon()
        self.leading.join()

    def go_on(self, epoch: int) -> None:
        """Look at the projects whose turn it is, and tell what is to be told.

        A run that was missed, because no worker was there, is made up for: the latest alone. The
        first search over a project goes through its last days: see ``first_search``.

        Raises:
            LeaseLost: Another leads by now.
        """
        with self._store.reading() as conn:
            now_us = self._detecting.clock(conn)
            at_us = now_us // self._detecting.every_us * self._detecting.every_us
            behind = self._ready(conn, at_us, now_us)
        for project_id in behind:
            if self._stopped.is_set() or self.leading.epoch != epoch:
                return
            self._try(project_id, at_us, epoch)
        self._tell(epoch)

    def _run(self) -> None:
        while not self._stopped.is_set():
            epoch = self.leading.epoch
            try:
                if epoch is not None:
                    self.go_on(epoch)
            except LeaseLost as lost:
                log.warning("Nothing was written: %s", lost, extra={"event": "lease_lost"})
            except Exception:  # the thread outlives all trouble: log it, wait, go on
                if not self._stopped.is_set():
                    log.exception("The search could not go on.", extra={"event": "search_trouble"})
            self._stopped.wait(self._detecting.lease_seconds / _LOOKS)

    def _ready(self, conn: Connection, at_us: int, now_us: int) -> list[int]:
        """Return the projects to look at, once their ledgers know what came in before."""
        behind = detection_runs.behind(conn, at_us)
        ready = [one for one in behind if self._not_before.get(one, 0.0) <= time.monotonic()]
        if ready and now_us - at_us < self._detecting.settle_us:
            since_us = running.waiting(conn).since_us
            if since_us is not None and since_us < at_us:
                return []
        return [one for one in ready if self._is_settled(conn, one, at_us, now_us)]

    def _is_settled(self, conn: Connection, project_id: int, at_us: int, now_us: int) -> bool:
        history = detection_runs.unsearched(conn, project_id, at_us)
        settle_us = self._detecting.settle_us
        return history is None or is_settled(conn, history, now_us, settle_us)

    def _try(self, project_id: int, at_us: int, epoch: int) -> None:
        """Look at a project; trouble with it keeps no other one waiting."""
        try:
            self._look(project_id, at_us, epoch)
        except (LeaseLost, StorageUnavailable):
            raise
        except Exception:
            self._not_before[project_id] = time.monotonic() + _AFTER_TROUBLE_SECONDS
            log.exception(
                "A project could not be searched for regressions.",
                extra={"event": "evaluation_trouble", "project_id": project_id},
            )
        else:
            self._not_before.pop(project_id, None)

    def _look(self, project_id: int, at_us: int, epoch: int) -> None:
        began = time.perf_counter()
        with self._store.reading() as conn:
            history = detection_runs.unsearched(conn, project_id, at_us)
            if history is None:
                runs = [self._searched(conn, project_id, at_us)]
            else:
                runs = self._searched_first(conn, project_id, at_us, history)
        if self._stopped.is_set():
            return
        took_us = round((time.perf_counter() - began) * SECOND_US / len(runs))
        self._store.write(
            partial(self._write, project_id=project_id, runs=runs, epoch=epoch, took_us=took_us)
        )

    def _searched(self, conn: Connection, project_id: int, at_us: int) -> Run:
        known = findings.known(conn, project_id, at_us)
        memory = memory_of(known.values(), regressions.accepted(conn, project_id))
        plan = self._detecting.plan
        return Run(at_us, self._detecting.evaluate(conn, project_id, at_us, plan, memory))

    def _searched_first(
        self, conn: Connection, project_id: int, at_us: int, history: UnsearchedHistory
    ) -> list[Run]:
        plan, rules = self._detecting.plan, self._detecting.rules
        runs_at = instants(at_us, self._detecting.every_us, plan.options.recent_days, history)
        return search(conn, project_id, runs_at, plan, rules)

    def _write(
        self, conn: Connection, project_id: int, runs: Sequence[Run], epoch: int, took_us: int
    ) -> None:
        """Write runs with all that follows from them, unless another led or did so before.

        Receivers are told how things stand after the last.
        """
        self._hold(conn, epoch)
        now_us = self._detecting.clock(conn)
        for at_us, told in runs:
            body = rows.encode({"power": told.power})
            run = DetectionRun(project_id, at_us, took_us, epoch, told.series, body)
            if not detection_runs.add(conn, run, now_us):
                return
            found = [
                NewFinding(one.finding, one.severity.value, one.attribution) for one in told.found
            ]
            findings.record(conn, project_id, at_us, found, self._detecting.rules)
        notify.settle(conn, self._detecting.audience, now_us)

    def _tell(self, epoch: int) -> None:
        """Tell what people changed since, and what is no longer muted."""
        with self._store.reading() as conn:
            unsettled = notify.unsettled(conn, self._detecting.clock(conn))
        if unsettled:
            self._store.write(partial(self._settle, epoch=epoch))

    def _settle(self, conn: Connection, epoch: int) -> None:
        self._hold(conn, epoch)
        notify.settle(conn, self._detecting.audience, self._detecting.clock(conn))

    def _hold(self, conn: Connection, epoch: int) -> None:
        lease_us = round(self._detecting.lease_seconds * SECOND_US)
        lease.hold(conn, LEASE, epoch, idle_us=min(lease.IDLE_US, lease_us))
