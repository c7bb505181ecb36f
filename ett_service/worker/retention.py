"""Pruning, in the one worker that holds the lease, and from the command line."""

import logging
import os
import secrets
import socket
from collections.abc import Callable
from dataclasses import asdict, astuple, dataclass
from functools import partial

from sqlalchemy import Connection
from typing_extensions import override

from ett_service.core.errors import EttError
from ett_service.core.intervals import HOUR_US, SECOND_US
from ett_service.storage import retention
from ett_service.storage.engine import lease
from ett_service.storage.engine.store import Store
from ett_service.storage.fleet import hours
from ett_service.storage.retention import Kept
from ett_service.worker.thread import PeriodicThread

log = logging.getLogger(__name__)

PRUNE_EVERY_US = HOUR_US
"""How often jobs and hours are looked for that have become old enough."""

_LEASE_SECONDS = 60.0
_PAUSE_SECONDS = 0.1  #: between two steps, so that others write meanwhile


class PrunedElsewhere(EttError):
    """Another process prunes."""

    hint = "Nothing needs to be done: the worker that holds the lease goes on."


@dataclass(slots=True)
class Pruned:
    """What was deleted."""

    jobs: int = 0
    rows: int = 0  #: of their record
    hourly_rows: int = 0  #: of the rollups

    def add(self, step: "Pruned") -> None:
        """Add what a step deleted."""
        self.jobs += step.jobs
        self.rows += step.rows
        self.hourly_rows += step.hourly_rows


class Pruner:
    """Deletes what has become as old as *kept* says, step by step."""

    def __init__(self, store: Store, now_us: Callable[[], int], kept: Kept) -> None:
        self._store = store
        self._now_us = now_us
        self._kept = kept
        self._holder = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(8)}"

    def step(self) -> Pruned | None:
        """Mark some jobs, or delete some rows of those, or of hours; None if nothing is left.

        Raises:
            PrunedElsewhere: Another holds the lease.
        """
        now_us, kept = self._now_us(), self._kept
        rows = self._store.write(self._advance)
        if rows:
            return Pruned(rows=rows)
        if kept.record_us is not None:
            before_us = now_us - kept.record_us
            jobs = self._store.write(partial(self._begin, before_us=before_us, now_us=now_us))
            if jobs:
                return Pruned(jobs=jobs)
        if kept.hourly_us is not None:
            before_us = now_us - kept.hourly_us
            hourly_rows = self._store.write(partial(self._prune_hours, before_us=before_us))
            if hourly_rows:
                return Pruned(hourly_rows=hourly_rows)
        return None

    def _advance(self, conn: Connection) -> int:
        self._take(conn)
        return retention.advance(conn)

    def _begin(self, conn: Connection, before_us: int, now_us: int) -> int:
        self._take(conn)
        return retention.begin(conn, before_us, now_us)

    def _prune_hours(self, conn: Connection, before_us: int) -> int:
        self._take(conn)
        hours.move_horizon(conn, before_us)
        return hours.prune(conn, retention.ROWS_AT_ONCE)

    def _take(self, conn: Connection) -> None:
        """Renew the lease in the transaction that acts under it: its row keeps others out."""
        if lease.take(conn, retention.LEASE, self._holder, _LEASE_SECONDS) is None:
            raise PrunedElsewhere("Another process prunes this database.")


class RetentionThread(PeriodicThread):
    """Prunes every hour, for as long as there is anything to prune."""

    def __init__(self, store: Store, now_us: Callable[[], int], kept: Kept) -> None:
        super().__init__(
            "retention", failure="The database could not be pruned.", event="prune_failed",
            retry_seconds=_LEASE_SECONDS,
        )  # fmt: skip
        self._pruner = Pruner(store, now_us, kept)
        self._pruned = Pruned()

    @override
    def step(self) -> float:
        try:
            step = self._pruner.step()
        except PrunedElsewhere:
            return _LEASE_SECONDS
        if step is not None:
            self._pruned.add(step)
            return _PAUSE_SECONDS
        if self._pruned != Pruned():
            log.info(
                "Pruned %d jobs, %d rows, and %d rows of hours.",
                *astuple(self._pruned),
                extra={"event": "pruned", **asdict(self._pruned)},
            )
            self._pruned = Pruned()
        return PRUNE_EVERY_US / SECOND_US
