"""The rows of many jobs at once: what differs of them is written with few statements.

A job's ledger is some seventy rows. Built into statements job by job they cost more than the fold
that they come from; so here rows are tuples, in the order of the table's columns, and go to the
driver as they are.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from operator import itemgetter
from typing import Any, TypeAlias

from sqlalchemy import Connection, Table, bindparam, func, select
from sqlalchemy.dialects.postgresql import ARRAY

from ett_service.storage.ledger_rows import Columns
from ett_service.storage.tables import metadata

Values: TypeAlias = tuple[Any, ...]
"""A row, or its primary key, which is where a row begins."""


@dataclass(slots=True)
class Changes:
    """What is to be written, by the name of its table."""

    gone: defaultdict[str, list[Values]] = field(default_factory=lambda: defaultdict(list))
    put: defaultdict[str, list[Values]] = field(default_factory=lambda: defaultdict(list))

    def compare(self, table: Table, before: Iterable[Values], after: Sequence[Values]) -> None:
        """Gather what has to be written where *before* is stored and *after* is to be."""
        key = _key_length(table)
        stored = {row[:key]: row for row in before}
        rows = [row for row in after if stored.get(row[:key]) != row] if stored else after
        self.put[table.name] += rows
        if stored:
            kept = {row[:key] for row in after} - {row[:key] for row in rows}
            self.gone[table.name] += stored.keys() - kept

    def write(self, conn: Connection) -> None:
        """Delete what is gone, then insert the rest."""
        delete, insert = _WAYS[conn.dialect.name]
        for table in metadata.sorted_tables:
            if gone := self.gone.get(table.name):
                delete(conn, table, gone)
            if put := self.put.get(table.name):
                insert(conn, table, put)


def in_order(table: Table, project_id: int, job: str, rows: Iterable[Columns]) -> list[Values]:
    """Turn rows without project and job into values in the order of the table's columns."""
    values = _values(table)
    return [(project_id, job, *values(row)) for row in rows]


def stored(conn: Connection, table: Table, project_id: int, jobs: Collection[str]) -> list[Values]:
    """Read all rows of these jobs."""
    wanted = {"project_id": project_id, "jobs": list(jobs)}
    return [tuple(row) for row in conn.execute(_stored(table), wanted)] if jobs else []


@cache
def _stored(table: Table) -> Any:
    return select(table).where(
        table.c.project_id == bindparam("project_id"),
        table.c.job.in_(bindparam("jobs", expanding=True)),
    )


@cache
def _values(table: Table) -> Callable[[Columns], Values]:
    return itemgetter(*(column.name for column in list(table.columns)[2:]))


@cache
def _key_length(table: Table) -> int:
    """Return how many columns the primary key has, which the others follow."""
    names = [column.name for column in table.primary_key]
    assert names == [column.name for column in table.columns][: len(names)], table.name
    return len(names)


def _names(table: Table) -> str:
    return ", ".join(column.name for column in table.columns)


def _delete_on_sqlite(conn: Connection, table: Table, keys: Sequence[Values]) -> None:
    where = " AND ".join(f"{column.name} = ?" for column in table.primary_key)
    statement = f"DELETE FROM {table.name} WHERE {where}"  # noqa: S608 - names of the schema
    conn.exec_driver_sql(statement, list(keys))


def _insert_on_sqlite(conn: Connection, table: Table, rows: Sequence[Values]) -> None:
    names, places = _names(table), ", ".join("?" * len(table.columns))
    statement = f"INSERT INTO {table.name} ({names}) VALUES ({places})"  # noqa: S608 - as above
    conn.exec_driver_sql(statement, list(rows))


def _delete_on_postgresql(conn: Connection, table: Table, keys: Sequence[Values]) -> None:
    names = [column.name for column in table.primary_key]
    arrays = dict(zip(names, map(list, zip(*keys, strict=True)), strict=True))
    conn.execute(_delete_listed(table), arrays)


@cache
def _delete_listed(table: Table) -> Any:
    names = [column.name for column in table.primary_key]
    arrays = [bindparam(name, type_=ARRAY(table.c[name].type)) for name in names]
    listed = func.unnest(*arrays).table_valued(*names, name="listed").render_derived()
    return table.delete().where(*(table.c[name] == listed.c[name] for name in names))


def _copy(conn: Connection, table: Table, rows: Sequence[Values]) -> None:
    driver = conn.connection.driver_connection
    assert driver is not None
    with (
        driver.cursor() as cursor,
        cursor.copy(f"COPY {table.name} ({_names(table)}) FROM STDIN") as copy,
    ):
        for row in rows:
            copy.write_row(row)


_WAYS = {
    "sqlite": (_delete_on_sqlite, _insert_on_sqlite),
    "postgresql": (_delete_on_postgresql, _copy),
}
