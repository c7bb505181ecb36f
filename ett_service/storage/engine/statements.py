"""Statements on both dialects: rows inserted, changed, deleted, found by pairs, summed exactly."""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import chain
from typing import Any, TypeAlias

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Executable,
    Integer,
    Row,
    Select,
    Table,
    Text,
    bindparam,
    func,
    literal,
    select,
    tuple_,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import OperationalError

from ett_service.storage.engine.driver import copy, is_last_trip

Rows = Sequence[Mapping[str, Any]]
Values: TypeAlias = tuple[Any, ...]

INSERTS: Mapping[str, type[postgresql.Insert] | type[sqlite.Insert]] = {
    "postgresql": postgresql.Insert,
    "sqlite": sqlite.Insert,
}
"""By dialect: inserts that can say what is to happen to a row that is there already."""

Condition: TypeAlias = Callable[[Any], ColumnElement[bool]]
"""Whether a row that is there already is to be changed, by the columns of the new row."""

#: From this many rows on PostgreSQL takes them faster by COPY, through a staging table.
COPY_FROM = 100

#: Rows of one statement on SQLite: few texts, so that each stays prepared, and few steps, as each
#: one hands the interpreter to other threads and has to get it back.
_PIECES = (100, 10, 1)

_TEXTS = 1024
_LOW_BITS = 32
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


def insert_new(conn: Connection, into: Table, rows: Rows) -> int:
    """Do the same for rows as mappings, all of the same columns."""
    if not rows:
        return 0
    return insert_values(conn, into, tuple(rows[0]), [tuple(row.values()) for row in rows])


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


def replace_rows(
    conn: Connection,
    into: Table,
    rows: Rows,
    columns: tuple[str, ...] = (),
    where: Condition | None = None,
) -> None:
    """Insert rows, or give *columns* to the row of their primary key *where* that holds.

    By default all columns are given, and to every row that is there.
    """
    if rows:
        # One alone takes no batch, which would be a round trip of its own.
        given = rows[0] if len(rows) == 1 else rows
        conn.execute(_replace(conn.dialect.name, into, columns, where), given)


@cache
def _replace(
    dialect: str, into: Table, columns: tuple[str, ...], where: Condition | None
) -> Executable:
    statement: Any = INSERTS[dialect](into)
    keys = [column.name for column in into.primary_key]
    changed = columns or [column.name for column in into.columns if column.name not in keys]
    given = {name: statement.excluded[name] for name in changed}
    replacement: Executable = statement.on_conflict_do_update(
        index_elements=keys, set_=given, where=where and where(statement.excluded)
    )
    return replacement


#: From this many rows on PostgreSQL takes them faster as one array a column.
_ARRAYS_FROM = 10


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
    if _as_arrays(conn, rows) and not is_last_trip(conn):
        copy(conn, table.name, (*_keys(table), *names), rows)
    else:
        put(conn, table, names, rows)


def delete(conn: Connection, table: Table, keys: Sequence[Values]) -> None:
    """Delete the rows of these primary keys."""
    arrays = _as_arrays(conn, keys)
    _execute(conn, _deletion(table, conn.dialect.paramstyle, arrays=arrays), keys, arrays=arrays)


def nonzero_places(rows: Iterable[Iterable[int]]) -> list[int]:
    """Return the places in which any of the rows has something but 0."""
    return [place for place, column in enumerate(zip(*rows, strict=True)) if any(column)]


def _upsert(
    conn: Connection, table: Table, names: tuple[str, ...], rows: Sequence[Values], *, adding: bool
) -> None:
    arrays = _as_arrays(conn, rows)
    text = _upserting(table, names, conn.dialect.paramstyle, adding=adding, arrays=arrays)
    _execute(conn, text, rows, arrays=arrays)


def _as_arrays(conn: Connection, rows: Sequence[Values]) -> bool:
    fewest = 2 if is_last_trip(conn) else _ARRAYS_FROM
    return conn.dialect.name == "postgresql" and len(rows) >= fewest


def _execute(conn: Connection, text: str, rows: Sequence[Values], *, arrays: bool) -> None:
    if arrays:
        conn.exec_driver_sql(text, tuple(map(list, zip(*rows, strict=True))))
    elif len(rows) == 1:
        conn.exec_driver_sql(text, rows[0])
    elif rows:
        conn.exec_driver_sql(text, list(rows))


@lru_cache(_TEXTS)
def _upserting(
    table: Table, names: tuple[str, ...], paramstyle: str, *, adding: bool, arrays: bool
) -> str:
    keys = _keys(table)
    columns = (*keys, *names)
    rows = f"VALUES ({', '.join([_place(paramstyle)] * len(columns))})"
    if arrays:
        rows = f"SELECT * FROM {unnested(table, columns)}"  # noqa: S608 - names of the schema
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
        listed = f"{unnested(table, keys)} AS listed({', '.join(keys)})"
        return f"DELETE FROM {table.name} USING {listed} WHERE {alike}"  # noqa: S608 - as above
    alike = " AND ".join(f"{name} = {_place(paramstyle)}" for name in keys)
    return f"DELETE FROM {table.name} WHERE {alike}"  # noqa: S608 - as above


def _keys(table: Table) -> tuple[str, ...]:
    return tuple(column.name for column in table.primary_key)


def _place(paramstyle: str) -> str:
    return "?" if paramstyle == "qmark" else "%s"


Pair: TypeAlias = tuple[str, str]
"""Values of two columns of text, such as a job and the id of an event in it."""


def among_pairs(
    conn: Connection,
    statement: Select[Any],
    columns: tuple[ColumnElement[str], ColumnElement[str]],
    pairs: Collection[Pair],
    parameters: Mapping[str, object],
) -> Iterable[Row[*tuple[Any, ...]]]:
    """Read what *statement* selects of the rows whose two columns are among *pairs*."""
    if not pairs:
        return ()
    values: dict[str, object]
    if conn.dialect.name == "sqlite":
        values = {"pairs": json.dumps(list(pairs))}
    else:
        values = dict(zip(("firsts", "seconds"), map(list, zip(*pairs, strict=True)), strict=True))
    cut = _among(conn.dialect.name, statement, columns)
    return conn.execute(cut, {**parameters, **values})


@cache
def _among(
    dialect: str,
    statement: Select[Any],
    columns: tuple[ColumnElement[str], ColumnElement[str]],
) -> Select[Any]:
    """Build one statement for any number of pairs, so that it is prepared only once."""
    return statement.where(tuple_(*columns).in_(_PAIRS[dialect]))


def _json_pairs() -> Select[Any]:
    pairs = func.json_each(bindparam("pairs")).table_valued("value")
    return select(*(func.json_extract(pairs.c.value, f"$[{place}]") for place in (0, 1)))


def _array_pairs() -> Select[Any]:
    arrays = [bindparam(name, type_=postgresql.ARRAY(Text)) for name in ("firsts", "seconds")]
    return select(func.unnest(*arrays).table_valued("first", "second").render_derived())


_PAIRS = {"sqlite": _json_pairs(), "postgresql": _array_pairs()}


@dataclass(frozen=True, slots=True)
class ExactSums:
    """Sums of 64-bit integers: columns to select, and rows to read. Halves cannot overflow."""

    names: tuple[str, ...]
    columns: tuple[ColumnElement[Any], ...]
    halves: bool

    @classmethod
    def plain(cls, amounts: Mapping[str, ColumnElement[Any]]) -> "ExactSums":
        """Sum each of the named amounts as it is."""
        sums = [part for amount in amounts.values() for part in _sums(amount, halves=False)]
        return cls(tuple(amounts), tuple(sums), halves=False)

    @classmethod
    def in_halves(cls, amounts: Mapping[str, ColumnElement[Any]]) -> "ExactSums":
        """Sum the halves of each of the named amounts."""
        sums = [part for amount in amounts.values() for part in _sums(amount, halves=True)]
        return cls(tuple(amounts), tuple(sums), halves=True)

    def read(self, columns: Sequence[Any]) -> dict[str, int]:
        """Return the sums by name that are not 0, from the *columns* of a row."""
        if not self.halves:
            return {
                name: int(amount)
                for name, amount in zip(self.names, columns, strict=True)
                if amount
            }
        pairs = zip(self.names, columns[::2], columns[1::2], strict=True)
        sums = {name: _joined(high, low) for name, high, low in pairs}
        return {name: amount for name, amount in sums.items() if amount}

    def only(self, columns: Sequence[Any]) -> int:
        """Return the sum of what has one amount."""
        return _joined(*columns) if self.halves else int(columns[0] or 0)


def _joined(high: Any, low: Any) -> int:
    return (int(high or 0) << _LOW_BITS) + int(low or 0)


def _sums(amount: ColumnElement[Any], *, halves: bool) -> tuple[ColumnElement[Any], ...]:
    # Those of a table's columns are made once: making them took a fifth of a question's time.
    return (_sums_of_column if isinstance(amount, Column) else _new_sums)(amount, halves=halves)


def _new_sums(amount: ColumnElement[Any], *, halves: bool) -> tuple[ColumnElement[Any], ...]:
    return tuple(func.sum(part) for part in (_halves(amount) if halves else (amount,)))


_sums_of_column = cache(_new_sums)


def _halves(amount: ColumnElement[Any]) -> tuple[ColumnElement[Any], ColumnElement[Any]]:
    low = (1 << _LOW_BITS) - 1
    return amount.op(">>")(literal(_LOW_BITS, Integer)), amount.op("&")(low)


Summing: TypeAlias = Callable[[Mapping[str, ColumnElement[Any]]], ExactSums]
Summed: TypeAlias = tuple[Select[Any], ExactSums]
"""A statement that sums, and what reads the sums in its rows."""


def summed_rows(
    conn: Connection, made: Callable[[Summing], Summed], parameters: Mapping[str, Any] | None = None
) -> tuple[Sequence[Row[*tuple[Any, ...]]], ExactSums]:
    """Return the rows of a statement that is *made* for a way to sum, and what reads its sums.

    PostgreSQL sums into a numeric. SQLite raises an error where a sum passes 64 bits, and only
    then the halves are summed, which takes twice as long.
    """
    statement, sums = made(ExactSums.plain)
    try:
        return conn.execute(statement, parameters).all(), sums
    except OperationalError as error:
        if "integer overflow" not in str(error.orig):
            raise
    statement, sums = made(ExactSums.in_halves)
    return conn.execute(statement, parameters).all(), sums
