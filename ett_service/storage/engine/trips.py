"""Round trips to PostgreSQL: several statements sent at once, their answers awaited together.

On SQLite, which is no trip away, the same calls run one statement after the other.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from typing import Any, TypeAlias

from psycopg.pq import TransactionStatus
from sqlalchemy import Connection, Select
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.dml import ReturningInsert

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
