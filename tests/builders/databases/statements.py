"""Acting between two statements of a transaction."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection
from sqlalchemy import event as sql_event

FEWEST_STATEMENTS = 6
"""A refresh has more."""


class Crash(Exception):
    """The process ends here."""


@contextmanager
def recorded_statements(conn: Connection) -> Iterator[list[str]]:
    """Collect the statements that are executed on *conn*."""
    statements: list[str] = []

    def before(_conn: Any, _cursor: Any, statement: str, *_: Any) -> None:
        statements.append(statement)

    sql_event.listen(conn, "before_cursor_execute", before)
    try:
        yield statements
    finally:
        sql_event.remove(conn, "before_cursor_execute", before)


@contextmanager
def before_statement(conn: Connection, statement: int, act: Callable[[], None]) -> Iterator[None]:
    """Call *act* just before the statement that comes at *statement* on *conn*."""
    places = itertools.count()

    def before(*_: Any) -> None:
        if next(places) == statement:
            act()

    sql_event.listen(conn, "before_cursor_execute", before)
    try:
        yield
    finally:
        sql_event.remove(conn, "before_cursor_execute", before)
