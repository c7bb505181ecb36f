"""What each key sends, counted in memory and written every ten seconds: no row a request."""

import logging
from collections.abc import Callable
from threading import Event, Lock, Thread
from typing import Self

from sqlalchemy import Connection

from ett_service.storage.engine.errors import StorageUnavailable
from ett_service.storage.engine.store import Store
from ett_service.storage.record.keys import USAGE_SLOT_US, Usage, add_usage

log = logging.getLogger(__name__)

_EVERY_S = 10.0
REFUSED = frozenset({429, 503})
"""Statuses of what there was no room for."""


class UsageCounts:
    """Sums of what was not written yet. Counted on the event loop, written in a thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._usages: dict[tuple[str, int], Usage] = {}
        self._last_used: dict[str, int] = {}

    def count(self, prefix: str, status: int, *, events: int, n_bytes: int, now_us: int) -> None:
        """Count a request of the key that begins so, by the *status* of its answer."""
        counted = Usage(1, int(status in REFUSED), events, n_bytes)
        with self._lock:
            self._sum(prefix, now_us - now_us % USAGE_SLOT_US).add(counted)
            self._last_used[prefix] = now_us

    def write(self, store: Store, now_us: int) -> None:
        """Add what was counted to what is stored. If that fails it stays for the next time.

        Raises:
            StorageUnavailable: The database does not answer.
        """
        with self._lock:
            usages, self._usages = self._usages, {}
            last_used, self._last_used = self._last_used, {}
        if not usages:
            return

        def add(conn: Connection) -> None:
            add_usage(conn, usages, last_used, now_us)

        try:
            store.write(add)
        except BaseException:  # raised again: it is counted with what comes
            self._put_back(usages, last_used)
            raise

    def _put_back(self, usages: dict[tuple[str, int], Usage], last_used: dict[str, int]) -> None:
        with self._lock:
            for (prefix, slot_us), each in usages.items():
                self._sum(prefix, slot_us).add(each)
            self._last_used = last_used | self._last_used

    def _sum(self, prefix: str, slot_us: int) -> Usage:
        return self._usages.setdefault((prefix, slot_us), Usage())


class UsageThread:
    """Writes what was counted every ten seconds while the block runs, and once more at its end."""

    def __init__(self, counts: UsageCounts, store: Store, now_us: Callable[[], int]) -> None:
        self._counts = counts
        self._store = store
        self._now_us = now_us
        self._ended = Event()
        self._thread = Thread(target=self._run, name="ett-usage", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(_EVERY_S):
            self._write()
        self._write()

    def _write(self) -> None:
        try:
            self._counts.write(self._store, self._now_us())
        except StorageUnavailable as error:
            log.warning("%s", error, extra={"event": "storage_unavailable"})
        except Exception:  # logged, and counted with what comes
            log.exception("What keys send was not written.", extra={"event": "usage_failed"})
