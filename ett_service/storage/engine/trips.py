"""Round trips to PostgreSQL: several statements sent at once, their answers awaited together.

On SQLite, which is no trip away, the same calls run one statement after the other.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, TypeAlias

from sqlalchemy import Connection, Select
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.compiler import SQLCompiler

Question: TypeAlias = tuple[Select[Any], Mapping[str, Any]]
"""A statement without expanding parameters, and its parameters."""

_STATEMENTS = 64
_POSTGRESQL = postgresql.psycopg.dialect()  # type: ignore[no-untyped-call]


@contextmanager
def in_one_trip(conn: Connection) -> Iterator[None]:
    """Send what the block writes at once, and learn at its end whether it stands.

    Nothing can be read in the block.
    """
    if conn.dialect.name != "postgresql":
        yield
        return
    driver: Any = conn.connection.driver_connection
    errors = conn.dialect.loaded_dbapi.Error
    try:
        with driver.pipeline():
            yield
    except errors as error:
        raise DBAPIError.instance(None, None, error, errors, dialect=conn.dialect) from error


def is_in_one_trip(conn: Connection) -> bool:
    """Whether the connection is in such a block."""
    driver: Any = conn.connection.driver_connection
    return conn.dialect.name == "postgresql" and bool(driver.pgconn.pipeline_status)


def read_together(
    conn: Connection, questions: Sequence[Question]
) -> list[Sequence[tuple[Any, ...]]]:
    """Return the rows that each statement selects, as the driver has them."""
    if conn.dialect.name != "postgresql":
        return [list(map(tuple, conn.execute(*question))) for question in questions]
    driver: Any = conn.connection.driver_connection
    with in_one_trip(conn):
        cursors = [_sent(driver, *question) for question in questions]
    return [cursor.fetchall() for cursor in cursors]


def _sent(driver: Any, statement: Select[Any], parameters: Mapping[str, Any]) -> Any:
    compiled = _compiled(statement)
    return driver.execute(compiled.string, compiled.construct_params(dict(parameters)))


@lru_cache(_STATEMENTS)
def _compiled(statement: Select[Any]) -> SQLCompiler:
    compiled = statement.compile(dialect=_POSTGRESQL)
    assert isinstance(compiled, SQLCompiler)
    return compiled
