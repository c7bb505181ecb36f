"""Insertion of many rows at once, of which some may be there already, by prepared statements."""

from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from itertools import chain
from typing import Any, TypeAlias

from sqlalchemy import Connection, Table
from sqlalchemy.dialects import postgresql

Values: TypeAlias = tuple[Any, ...]

#: From this many rows on PostgreSQL takes them faster by COPY, through a staging table.
COPY_FROM = 100

#: Rows of one statement on SQLite: few texts, so that each stays prepared, and few steps, as each
#: one hands the interpreter to other threads and has to get it back.
_PIECES = (100, 10, 1)

_TEXTS = 1024
_COUNTED = {"preserve_rowcount": True}
_POSTGRESQL = postgresql.dialect()  # type: ignore[no-untyped-call]


def insert_values(
    conn: Connection, into: Table, columns: tuple[str, ...], rows: Sequence[Values]
) -> int:
    """Insert the rows whose key is not there yet, and return how many those were.

    Values come in the order of *columns*, and rows in the order of their key, so that two writers
    never wait for each other in a circle.
    """
    if not rows:
        return 0
    if conn.dialect.name == "sqlite":
        return _insert_in_pieces(conn, into, columns, rows)
    if len(rows) < COPY_FROM:
        arrays = tuple(map(list, zip(*rows, strict=True)))
        return _count_returned(conn, _from_arrays(into, columns), arrays)
    _stage(conn, into, columns, rows)
    return _count_returned(conn, _from_staging(into, columns), ())


def copy(conn: Connection, into: str, columns: Sequence[str], rows: Iterable[Values]) -> None:
    """Send rows to a table of PostgreSQL; none of them may be there."""
    driver = conn.connection.driver_connection
    assert driver is not None
    with (
        driver.cursor() as cursor,
        cursor.copy(f"COPY {into} ({', '.join(columns)}) FROM STDIN") as copying,
    ):
        for row in rows:
            copying.write_row(row)


def unnested(table: Table, columns: Iterable[str]) -> str:
    """Write one array a column as rows, for PostgreSQL."""
    kinds = [table.c[name].type.compile(_POSTGRESQL) for name in columns]
    return f"unnest({', '.join(f'%s::{kind}[]' for kind in kinds)})"


def _stage(conn: Connection, into: Table, columns: tuple[str, ...], rows: Sequence[Values]) -> None:
    """Copy rows beside the table *into*: COPY itself knows no conflicts.

    What an earlier insert of the same transaction left there is in the table already, so not new.
    """
    conn.exec_driver_sql(
        f"CREATE TEMPORARY TABLE IF NOT EXISTS {_staging(into)} (LIKE {into.name}) "
        "ON COMMIT DELETE ROWS"
    )
    copy(conn, _staging(into), columns, rows)


def _insert_in_pieces(
    conn: Connection, into: Table, columns: tuple[str, ...], rows: Sequence[Values]
) -> int:
    inserted = place = 0
    for size in _PIECES:
        text = _piece(into, columns, size)
        while len(rows) - place >= size:
            values = tuple(chain.from_iterable(rows[place : place + size]))
            inserted += conn.exec_driver_sql(text, values, execution_options=_COUNTED).rowcount
            place += size
    return inserted


def _count_returned(conn: Connection, text: str, values: Values) -> int:
    """Count on the server what an insertion returns: Citus reports rows that were there as new."""
    counting = f"WITH new AS ({text} RETURNING 1) SELECT count(*) FROM new"  # noqa: S608 - a text of this module
    return int(conn.exec_driver_sql(counting, values).scalar_one())


@lru_cache(_TEXTS)
def _piece(into: Table, columns: tuple[str, ...], size: int) -> str:
    row = f"({', '.join('?' * len(columns))})"
    return _new(into, columns, f"VALUES {', '.join([row] * size)}")


@cache
def _from_arrays(into: Table, columns: tuple[str, ...]) -> str:
    return _new(into, columns, f"SELECT * FROM {unnested(into, columns)}")  # noqa: S608 - names of the schema


@cache
def _from_staging(into: Table, columns: tuple[str, ...]) -> str:
    return _new(into, columns, f"SELECT {', '.join(columns)} FROM {_staging(into)}")  # noqa: S608 - as above


def _new(into: Table, columns: tuple[str, ...], rows: str) -> str:
    return f"INSERT INTO {into.name} ({', '.join(columns)}) {rows} ON CONFLICT DO NOTHING"


def _staging(into: Table) -> str:
    return f"new_{into.name}"
