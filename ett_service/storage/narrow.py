"""Statements over wide rows that name only the columns in which something is to be said.

A row of the rollups has over seventy columns, and what is new in it concerns a few. These
statements are texts for the driver: built and bound by SQLAlchemy, column by column, they would
cost several times what the database needs for them.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

from sqlalchemy import Connection, Table
from sqlalchemy.dialects import postgresql

Values: TypeAlias = tuple[Any, ...]

_TEXTS = 1024

#: From this many rows on PostgreSQL takes them faster as one array a column.
_ARRAYS_FROM = 10
_POSTGRESQL = postgresql.dialect()  # type: ignore[no-untyped-call]


def put(conn: Connection, table: Table, names: tuple[str, ...], rows: Sequence[Values]) -> None:
    """Insert rows, or write their columns *names* where there is one of their primary key.

    Values come in the order of the key, then of *names*; other columns take their defaults.
    """
    _execute(conn, table, names, rows, adding=False)


def add(conn: Connection, table: Table, names: tuple[str, ...], rows: Sequence[Values]) -> None:
    """Insert rows, or add their columns *names* to those of the row of their primary key."""
    _execute(conn, table, names, rows, adding=True)


def said(rows: Iterable[Iterable[int]]) -> list[int]:
    """Return the places in which any of the rows has something but 0."""
    return [place for place, column in enumerate(zip(*rows, strict=True)) if any(column)]


def _execute(
    conn: Connection, table: Table, names: tuple[str, ...], rows: Sequence[Values], *, adding: bool
) -> None:
    arrays = conn.dialect.name == "postgresql" and len(rows) >= _ARRAYS_FROM
    text = _upsert(table, names, conn.dialect.paramstyle, adding=adding, arrays=arrays)
    if arrays:
        conn.exec_driver_sql(text, tuple(map(list, zip(*rows, strict=True))))
    elif len(rows) == 1:
        conn.exec_driver_sql(text, rows[0])
    elif rows:
        conn.exec_driver_sql(text, list(rows))


@lru_cache(_TEXTS)
def _upsert(
    table: Table, names: tuple[str, ...], paramstyle: str, *, adding: bool, arrays: bool
) -> str:
    keys = [column.name for column in table.primary_key]
    columns = (*keys, *names)
    place = "?" if paramstyle == "qmark" else "%s"
    rows = f"VALUES ({', '.join([place] * len(columns))})"
    if arrays:
        kinds = [table.c[name].type.compile(_POSTGRESQL) for name in columns]
        listed = ", ".join(f"{place}::{kind}[]" for kind in kinds)
        rows = f"SELECT * FROM unnest({listed})"  # noqa: S608 - names of the schema's types
    before = f"{table.name}.{{0}} + " if adding else ""
    changes = ", ".join(f"{{0}} = {before}excluded.{{0}}".format(name) for name in names)
    return (
        f"INSERT INTO {table.name} ({', '.join(columns)}) {rows} "
        f"ON CONFLICT ({', '.join(keys)}) DO UPDATE SET {changes}"
    )
