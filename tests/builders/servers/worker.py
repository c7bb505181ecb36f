"""A worker in a thread, and a database that it finds in trouble."""

from collections.abc import Iterator
from contextlib import contextmanager

from ett_service.storage.engine.store import Store
from ett_service.worker.ledgers import Worker


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
    """Hide *table* from the database."""
    rename = "ALTER TABLE {} RENAME TO {}".format
    store.write(lambda conn: conn.exec_driver_sql(rename(table, "gone")))
    try:
        yield
    finally:
        store.write(lambda conn: conn.exec_driver_sql(rename("gone", table)))
