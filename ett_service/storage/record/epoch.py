"""The name that a store answers by, which changes when another takes its place."""

from collections.abc import Callable

from sqlalchemy import Connection

from ett_service.core.intervals import SECOND_US
from ett_service.storage.record.events import store_epoch

EVERY_US = SECOND_US
"""How often it is read: a database may be restored under a server that runs."""


class StoreEpoch:
    """The store's epoch as of at most a second ago."""

    def __init__(self, now_us: Callable[[], int]) -> None:
        self._now_us = now_us
        self._read: tuple[int, str] | None = None  #: when, and what

    def of(self, conn: Connection) -> str:
        """Return it, read in the transaction of *conn* where it may have changed."""
        now_us = self._now_us()
        if self._read is None or not 0 <= now_us - self._read[0] < EVERY_US:
            self._read = now_us, store_epoch(conn)
        return self._read[1]
