"""Inserting what may be there already: a sender repeats what it is unsure of."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

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
