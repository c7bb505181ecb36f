"""Statements that both dialects share: inserts, upserts and sums of named columns."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, TypeAlias

from sqlalchemy import Connection, Executable, Table, bindparam, column, func, select, table
from sqlalchemy.dialects import postgresql, sqlite

Rows = Sequence[Mapping[str, Any]]

INSERTS: Mapping[str, type[postgresql.Insert] | type[sqlite.Insert]] = {
    "postgresql": postgresql.Insert,
    "sqlite": sqlite.Insert,
}
"""By dialect: inserts that can say what is to happen to a row that is there already."""

#: From this many rows on PostgreSQL takes them faster by COPY, through a staging table.
COPY_FROM = 100


@cache
def replacing(
    dialect: str, into: Table, columns: tuple[str, ...] = ()
) -> postgresql.Insert | sqlite.Insert:
    """Build an insert that gives a row that is there already these columns; by default all."""
    statement = INSERTS[dialect](into)
    keys = [column.name for column in into.primary_key]
    changed = columns or [column.name for column in into.columns if column.name not in keys]
    given = {name: statement.excluded[name] for name in changed}
    return statement.on_conflict_do_update(index_elements=keys, set_=given)


def insert_new(conn: Connection, into: Table, rows: Rows) -> int:
    """Insert the rows whose key is not there yet, and return how many those were.

    Rows have the same columns and come in the order of their key, so that two writers never wait
    for each other in a circle.
    """
    if not rows:
        return 0
    columns = tuple(rows[0])
    counted = {"preserve_rowcount": True}
    if conn.dialect.name == "sqlite":
        return conn.execute(_insert(into), rows, execution_options=counted).rowcount
    if len(rows) < COPY_FROM:
        arrays = {name: [row[name] for row in rows] for name in columns}
        statement = _insert_arrays(into, columns)
        return conn.execute(statement, arrays, execution_options=counted).rowcount
    _stage(conn, into, columns, rows)
    return conn.execute(_insert_staged(into, columns), execution_options=counted).rowcount


@cache
def _insert(into: Table) -> Executable:
    return sqlite.insert(into).on_conflict_do_nothing()


@cache
def _insert_arrays(into: Table, columns: tuple[str, ...]) -> Executable:
    """Build one statement for any number of rows, so that it is prepared only once."""
    arrays = [bindparam(name, type_=postgresql.ARRAY(into.c[name].type)) for name in columns]
    rows = func.unnest(*arrays).table_valued(*columns).render_derived()
    return postgresql.insert(into).from_select(columns, select(rows)).on_conflict_do_nothing()


@cache
def _insert_staged(into: Table, columns: tuple[str, ...]) -> Executable:
    """Insert from the staging table: COPY itself knows no conflicts.

    What an earlier insert of the same transaction left there is there already, so not new.
    """
    staging = table(_staging(into), *(column(name) for name in columns))
    return postgresql.insert(into).from_select(columns, select(staging)).on_conflict_do_nothing()


def _stage(conn: Connection, into: Table, columns: tuple[str, ...], rows: Rows) -> None:
    staging = _staging(into)
    conn.exec_driver_sql(
        f"CREATE TEMPORARY TABLE IF NOT EXISTS {staging} (LIKE {into.name}) ON COMMIT DELETE ROWS"
    )
    driver = conn.connection.driver_connection
    assert driver is not None
    with (
        driver.cursor() as cursor,
        cursor.copy(f"COPY {staging} ({', '.join(columns)}) FROM STDIN") as copy,
    ):
        for row in rows:
            copy.write_row(tuple(row.values()))


def _staging(into: Table) -> str:
    return f"new_{into.name}"


Values: TypeAlias = tuple[Any, ...]

_TEXTS = 1024

#: From this many rows on PostgreSQL takes them faster as one array a column.
_ARRAYS_FROM = 10
_POSTGRESQL = postgresql.dialect()  # type: ignore[no-untyped-call]


def put(conn: Connection, table: Table, names: tuple[str, ...], rows: Sequence[Values]) -> None:
    """Insert rows, or write their columns *names* where there is one of their primary key.

    Values come in the order of the key, then of *names*; other columns take their defaults.
    """
    _upsert(conn, table, names, rows, adding=False)


def add(conn: Connection, table: Table, names: tuple[str, ...], rows: Sequence[Values]) -> None:
    """Insert rows, or add their columns *names* to those of the row of their primary key."""
    _upsert(conn, table, names, rows, adding=True)


def insert(conn: Connection, table: Table, names: tuple[str, ...], rows: Sequence[Values]) -> None:
    """Insert rows of whose primary keys there are none, as :func:`put` does, but many faster."""
    if _as_arrays(conn, rows):
        _copy(conn, table, (*_keys(table), *names), rows)
    else:
        put(conn, table, names, rows)


def delete(conn: Connection, table: Table, keys: Sequence[Values]) -> None:
    """Delete the rows of these primary keys."""
    arrays = _as_arrays(conn, keys)
    _execute(conn, _deletion(table, conn.dialect.paramstyle, arrays=arrays), keys, arrays=arrays)


def said(rows: Iterable[Iterable[int]]) -> list[int]:
    """Return the places in which any of the rows has something but 0."""
    return [place for place, column in enumerate(zip(*rows, strict=True)) if any(column)]


def _upsert(
    conn: Connection, table: Table, names: tuple[str, ...], rows: Sequence[Values], *, adding: bool
) -> None:
    arrays = _as_arrays(conn, rows)
    text = _upserting(table, names, conn.dialect.paramstyle, adding=adding, arrays=arrays)
    _execute(conn, text, rows, arrays=arrays)


def _as_arrays(conn: Connection, rows: Sequence[Values]) -> bool:
    return conn.dialect.name == "postgresql" and len(rows) >= _ARRAYS_FROM


def _execute(conn: Connection, text: str, rows: Sequence[Values], *, arrays: bool) -> None:
    if arrays:
        conn.exec_driver_sql(text, tuple(map(list, zip(*rows, strict=True))))
    elif len(rows) == 1:
        conn.exec_driver_sql(text, rows[0])
    elif rows:
        conn.exec_driver_sql(text, list(rows))


def _copy(conn: Connection, table: Table, columns: Sequence[str], rows: Sequence[Values]) -> None:
    driver = conn.connection.driver_connection
    assert driver is not None
    text = f"COPY {table.name} ({', '.join(columns)}) FROM STDIN"
    with driver.cursor() as cursor, cursor.copy(text) as copy:
        for row in rows:
            copy.write_row(row)


@lru_cache(_TEXTS)
def _upserting(
    table: Table, names: tuple[str, ...], paramstyle: str, *, adding: bool, arrays: bool
) -> str:
    keys = _keys(table)
    columns = (*keys, *names)
    rows = f"VALUES ({', '.join([_place(paramstyle)] * len(columns))})"
    if arrays:
        rows = f"SELECT * FROM {_unnested(table, columns, paramstyle)}"  # noqa: S608 - names of the schema
    before = f"{table.name}.{{0}} + " if adding else ""
    changes = ", ".join(f"{{0}} = {before}excluded.{{0}}".format(name) for name in names)
    return (
        f"INSERT INTO {table.name} ({', '.join(columns)}) {rows} "
        f"ON CONFLICT ({', '.join(keys)}) DO UPDATE SET {changes}"
    )


@lru_cache(_TEXTS)
def _deletion(table: Table, paramstyle: str, *, arrays: bool) -> str:
    keys = _keys(table)
    if arrays:
        alike = " AND ".join(f"{table.name}.{name} = listed.{name}" for name in keys)
        listed = f"{_unnested(table, keys, paramstyle)} AS listed({', '.join(keys)})"
        return f"DELETE FROM {table.name} USING {listed} WHERE {alike}"  # noqa: S608 - as above
    alike = " AND ".join(f"{name} = {_place(paramstyle)}" for name in keys)
    return f"DELETE FROM {table.name} WHERE {alike}"  # noqa: S608 - as above


def _keys(table: Table) -> tuple[str, ...]:
    return tuple(column.name for column in table.primary_key)


def _place(paramstyle: str) -> str:
    return "?" if paramstyle == "qmark" else "%s"


def _unnested(table: Table, columns: Iterable[str], paramstyle: str) -> str:
    kinds = [table.c[name].type.compile(_POSTGRESQL) for name in columns]
    return f"unnest({', '.join(f'{_place(paramstyle)}::{kind}[]' for kind in kinds)})"
