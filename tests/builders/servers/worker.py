"""A worker under a clock that stands."""

from collections.abc import Iterator
from contextlib import contextmanager

from ett_service.storage.engine.store import Store
from ett_service.worker.ledgers import Worker
from tests.builders.clock import MINUTE, NOON


class Clock:
    """A clock that stands until it is set."""

    def __init__(self, now_us: int = NOON + MINUTE) -> None:
        self.now_us = now_us

    def __call__(self) -> int:
        return self.now_us


@contextmanager
def running(worker: Worker) -> Iterator[Worker]:
    """Have the worker run in a thread until the end of the block."""
    worker.start()
    try:
        yield worker
    finally:
        worker.stop()


@contextmanager
def without(store: Store, table: str) -> Iterator[None]:
    """Have the database know nothing of *table*."""
    rename = "ALTER TABLE {} RENAME TO {}".format
    store.write(lambda conn: conn.exec_driver_sql(rename(table, "gone")))
    try:
        yield
    finally:
        store.write(lambda conn: conn.exec_driver_sql(rename("gone", table)))
