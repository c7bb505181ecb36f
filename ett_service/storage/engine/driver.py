"""What goes to the database's driver and comes back: trips, batches of rows, and errors.

On PostgreSQL several statements are sent at once and their answers awaited together; on SQLite,
which is no trip away, the same calls run one statement after the other. An error that the
database's state caused becomes one of ``ett_service.storage.engine.errors``.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from itertools import chain
from typing import Any, TypeAlias

from psycopg.pq import TransactionStatus
from sqlalchemy import Connection, Result, Row, Select
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import DBAPIError, IntegrityError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as NoFreeConnection
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.dml import ReturningInsert

from ett_service.storage.engine.errors import LockTimeout, StorageUnavailable

Asking: TypeAlias = Select[Any] | ReturningInsert[Any]
Question: TypeAlias = tuple[Asking, Mapping[str, Any]]
"""A statement without expanding parameters, and its parameters; others are left alone."""

_STATEMENTS = 64
_POSTGRESQL = postgresql.psycopg.dialect()  # type: ignore[no-untyped-call]
_LAST = "last_trip"


def read_together(
    conn: Connection, questions: Sequence[Question]
) -> list[Sequence[tuple[Any, ...]]]:
    """Return the rows that each statement selects or inserts, in order, as the driver has them."""
    if conn.dialect.name != "postgresql":
        return [list(map(tuple, conn.execute(*question))) for question in questions]
    return _ask(conn, questions)


def begin_and_read(
    conn: Connection, questions: Sequence[Question]
) -> list[Sequence[tuple[Any, ...]]]:
    """Do the same where nothing was read or written yet: the transaction begins in the trip."""
    if conn.dialect.name != "postgresql" or not _is_idle(conn):
        return read_together(conn, questions)
    # The driver would await its own BEGIN. It ends a transaction by what the server says.
    _driver(conn).autocommit = True
    return _ask(conn, questions, "BEGIN")


def read_and_end(
    conn: Connection, questions: Sequence[Question]
) -> list[Sequence[tuple[Any, ...]]]:
    """Do the same where nothing was read yet and nothing will be: no transaction is needed."""
    if conn.dialect.name != "postgresql" or not _is_idle(conn):
        return read_together(conn, questions)
    _driver(conn).autocommit = True
    return _ask(conn, questions)


def restore(driver: Any) -> None:
    """Have the driver begin transactions again by itself; there is none."""
    if driver.autocommit:
        driver.autocommit = False


def begin_last_trip(conn: Connection) -> None:
    """Send what is written from here on with the commit, and learn then whether it stands.

    Nothing can be read any more. The transaction is one of :func:`ending_last_trip`.
    """
    if conn.dialect.name == "postgresql":
        trip: ExitStack = conn.info[_LAST]
        trip.enter_context(_driver(conn).pipeline())


@contextmanager
def ending_last_trip(conn: Connection) -> Iterator[None]:
    """Commit at the end of the block, where the last trip began in it, and await what it sent."""
    with _errors_of(conn), ExitStack() as trip:
        conn.info[_LAST] = trip
        yield
        if is_last_trip(conn):
            _driver(conn).execute("COMMIT")


def is_last_trip(conn: Connection) -> bool:
    """Whether the last trip of the transaction has begun."""
    return conn.dialect.name == "postgresql" and bool(_driver(conn).pgconn.pipeline_status)


def copy(
    conn: Connection, into: str, columns: Sequence[str], rows: Iterable[tuple[Any, ...]]
) -> None:
    """Send rows to a table of PostgreSQL; none of them may be there."""
    with (
        _driver(conn).cursor() as cursor,
        cursor.copy(f"COPY {into} ({', '.join(columns)}) FROM STDIN") as copying,
    ):
        for row in rows:
            copying.write_row(row)


def in_batches(rows: Result[*tuple[Any, ...]]) -> Iterator[Row[*tuple[Any, ...]]]:
    """Yield the rows, fetched a thousand at a time: one by one the fetch takes most of the time."""
    return chain.from_iterable(rows.partitions(_BATCH))


_BATCH = 1_000


def lift_time_limit(conn: Connection) -> None:
    """Let the statements of this transaction take as long as they need."""
    if conn.dialect.name == "postgresql":
        conn.exec_driver_sql("SET LOCAL statement_timeout = 0")


def interrupt(conn: Connection) -> None:
    """End the statement that another thread runs on *conn*, if any, by ``StorageUnavailable``."""
    if conn.dialect.name == "sqlite":
        _driver(conn).interrupt()
    else:
        _driver(conn).cancel_safe(timeout=2.0)


def _driver(conn: Connection) -> Any:
    return conn.connection.driver_connection


def _is_idle(conn: Connection) -> bool:
    return bool(_driver(conn).info.transaction_status == TransactionStatus.IDLE)


def _ask(
    conn: Connection, questions: Sequence[Question], first: str = ""
) -> list[Sequence[tuple[Any, ...]]]:
    if not questions:
        return []  # an empty pipeline is a trip, too
    driver = _driver(conn)
    with _errors_of(conn), driver.pipeline():
        if first:
            driver.execute(first)
        cursors = [_sent(driver, *question) for question in questions]
    return [cursor.fetchall() for cursor in cursors]


@contextmanager
def _errors_of(conn: Connection) -> Iterator[None]:
    """Raise what the driver does as SQLAlchemy would."""
    errors = conn.dialect.loaded_dbapi.Error
    try:
        yield
    except errors as error:
        raise DBAPIError.instance(None, None, error, errors, dialect=conn.dialect) from error


def _sent(driver: Any, statement: Asking, parameters: Mapping[str, Any]) -> Any:
    compiled = _compiled(statement)
    return driver.execute(compiled.string, compiled.construct_params(dict(parameters)))


@lru_cache(_STATEMENTS)
def _compiled(statement: Asking) -> SQLCompiler:
    compiled = statement.compile(dialect=_POSTGRESQL)
    assert isinstance(compiled, SQLCompiler)
    return compiled


#: PostgreSQL: a row refers to one that is not there.
_FOREIGN_KEY_VIOLATION = "23503"

#: States of PostgreSQL that the driver does not tell as operational errors.
_STATES_OF_POSTGRESQL = frozenset(
    {
        "25P03",  # it ended a session whose process was silent inside a transaction; paused, mostly
        "25006",  # it takes no writes
        "0A000",  # nor a transaction that would: it is a standby
    }
)

#: PostgreSQL: a lock was not free within ``lock_timeout``.
_LOCK_NOT_AVAILABLE = "55P03"

#: Primary result codes that tell of the database's state and not of a faulty statement.
_STATES_OF_SQLITE = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_INTERRUPT,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_READONLY,
    }
)


def translate(error: BaseException) -> BaseException:
    """Return ``StorageUnavailable`` for what the database's state caused, else *error* itself."""
    if not _is_of_the_database(error):
        return error
    is_locked = getattr(getattr(error, "orig", None), "sqlstate", None) == _LOCK_NOT_AVAILABLE
    kind = LockTimeout if is_locked else StorageUnavailable
    unavailable = kind(f"The database is unavailable: {_reason(error)}.")
    unavailable.__cause__ = error
    return unavailable


@contextmanager
def translated() -> Iterator[None]:
    """Raise ``StorageUnavailable`` in place of a driver's error about the database's state."""
    try:
        yield
    except (DBAPIError, NoFreeConnection) as error:
        translation = translate(error)
        if translation is error:
            raise
        raise translation from error


def _is_of_the_database(error: BaseException) -> bool:
    if isinstance(error, NoFreeConnection):
        return True
    if not isinstance(error, DBAPIError):
        return False
    code = getattr(error.orig, "sqlite_errorcode", None)
    if code is not None:
        return code & 0xFF in _STATES_OF_SQLITE
    state = getattr(error.orig, "sqlstate", None)
    if isinstance(error, IntegrityError):
        # Its job was deleted between two statements of a writer, who succeeds on the next try.
        return state == _FOREIGN_KEY_VIOLATION
    return isinstance(error, OperationalError | InterfaceError) or state in _STATES_OF_POSTGRESQL


def _reason(error: BaseException) -> str:
    """Return the driver's first line: the statement and its values stay out of messages."""
    if isinstance(error, DBAPIError):
        lines = str(error.orig).strip().splitlines()
        return lines[0].rstrip(".") if lines else type(error.orig).__name__
    return "no connection became free in time"
