"""PostgreSQL: pooled transactions of many processes."""

import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, Dialect, Engine, create_engine, event
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DisconnectionError, ProgrammingError
from sqlalchemy.pool import ConnectionPoolEntry

from ett_service.storage.engine.driver import ending_last_trip, restore, translated
from ett_service.storage.engine.errors import LockTimeout, Migrating, StorageUnavailable, WrongStore

T = TypeVar("T")

#: A statement that waits or runs longer than this fails, and the sender tries again.
_SESSION = {
    "lock_timeout": "2s",
    "statement_timeout": "30s",
    "idle_in_transaction_session_timeout": "60s",
}
_CONNECTIONS = 16
_RESTED_S = 1.0
_USED = "used_at"

#: A table, a column or a function that is not there.
_MISSING = frozenset({"42P01", "42703", "42883"})


def pooled_engine(address: URL) -> Engine:
    """Return an engine whose sessions give up on what takes too long."""
    options = " ".join(f"-c {name}={value}" for name, value in _SESSION.items())
    engine = create_engine(
        address,
        connect_args={"options": options, "application_name": "ett", "connect_timeout": 5},
        pool_size=_CONNECTIONS,
        max_overflow=_CONNECTIONS,
        pool_timeout=10,
        hide_parameters=True,  # errors are logged, and events are their senders'
    )
    event.listen(engine, "checkin", _restore)
    event.listen(engine, "checkout", partial(_ping_if_rested, engine.dialect))
    return engine


def _restore(driver: DBAPIConnection | None, record: ConnectionPoolEntry) -> None:
    if driver is not None:
        restore(driver)
    record.info[_USED] = time.monotonic()


def _ping_if_rested(
    dialect: Dialect, driver: DBAPIConnection, record: ConnectionPoolEntry, _: object
) -> None:
    """Have a connection replaced that broke while it rested; one in steady use costs no trip."""
    if time.monotonic() - record.info.get(_USED, math.inf) < _RESTED_S:
        return
    try:
        dialect.do_ping(driver)
    except dialect.loaded_dbapi.Error as error:
        raise DisconnectionError from error


class PostgresqlStore:
    """A store that many processes write at once."""

    dialect = "postgresql"

    def __init__(self, address: URL, is_migrating: Callable[[Connection], bool]) -> None:
        self.url = address.render_as_string(hide_password=False)
        self._engine = pooled_engine(address)
        self._snapshots = self._engine.execution_options(
            isolation_level="REPEATABLE READ", postgresql_readonly=True
        )
        self._is_migrating = is_migrating
        self._closed = False
        self._threads = ThreadPoolExecutor(_CONNECTIONS, thread_name_prefix="ett-writer")
        try:
            with self.reading() as conn:
                _require_durability(conn)
        except BaseException:  # raised again: nobody else could close what is half made
            self.close()
            raise

    def write(self, work: Callable[[Connection], T]) -> T:
        """Run *work*, and return its value once it is committed to stable storage."""
        self._require_open()
        return self._write(work)

    def submit(self, work: Callable[[Connection], T]) -> Future[T]:
        """Do the same without waiting."""
        self._require_open()
        return self._threads.submit(self._write, work)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Open a connection that cannot write and sees one state throughout."""
        with self._explained(), translated(), self._snapshots.connect() as conn:
            yield conn

    def require_room(self) -> None:
        """Take facts: the server says when its disk is full."""

    def close(self) -> None:
        """Finish what was submitted, then let go of the connections."""
        self._closed = True
        self._threads.shutdown()
        self._engine.dispose()

    def _write(self, work: Callable[[Connection], T]) -> T:
        with (
            self._explained(),
            translated(),
            self._engine.begin() as conn,
            ending_last_trip(conn),
        ):
            return work(conn)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Raise ``Migrating`` in place of what a change of the schema caused."""
        try:
            yield
        except (LockTimeout, ProgrammingError) as error:
            if isinstance(error, ProgrammingError) and _state(error) not in _MISSING:
                raise
            with translated(), self._engine.connect() as conn:
                if not self._is_migrating(conn):
                    raise
            raise Migrating("The database is being migrated.") from error

    def _require_open(self) -> None:
        if self._closed:
            raise StorageUnavailable("The store is closed.")


def _state(error: ProgrammingError) -> str | None:
    return getattr(error.orig, "sqlstate", None)


def _require_durability(conn: Connection) -> None:
    for setting in ("fsync", "synchronous_commit"):
        value: Any = conn.exec_driver_sql(f"SHOW {setting}").scalar_one()
        if value == "off":
            raise WrongStore(
                f"PostgreSQL runs with {setting} = off: an acknowledged event could be lost.",
                f"Set {setting} = on for this server, database and role.",
            )
