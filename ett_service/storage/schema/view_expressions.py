"""Expressions that mean the same on both dialects, though each writes them differently."""

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Boolean, ColumnElement, Double, Text, cast, func, literal, literal_column
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from ett_service.core.intervals import SECOND_US
from ett_service.storage.schema import project

_NOT_FINITE = ("inf", "-inf", "nan")
"""How numbers are kept for which JSON has no word."""


class instant(FunctionElement[Any]):  # noqa: N801 - it is written as the function that it is
    """Microseconds since the Unix epoch as an instant.

    On PostgreSQL a ``timestamptz``; on SQLite text as the API writes it, null outside of the
    years 0 to 9999.
    """

    name = "instant"
    type = Text()
    inherit_cache = True


class json_member(FunctionElement[Any]):  # noqa: N801 - likewise
    """A member of a JSON text by its names and places, as text; null where there is none."""

    name = "json_member"
    type = Text()
    inherit_cache = True

    def __init__(self, document: ColumnElement[Any], *path: str | int) -> None:
        """*path* is written as it is: it is ours, and of plain words."""
        # As clauses its steps are in the key by which SQLAlchemy keeps what it compiled.
        super().__init__(document, *(literal_column(str(step)) for step in path))


class json_entry(FunctionElement[Any]):  # noqa: N801 - likewise
    """The text under a key of a JSON object, whatever the key is; null where there is none."""

    name = "json_entry"
    type = Text()
    inherit_cache = True

    def __init__(self, document: ColumnElement[Any], key: str) -> None:
        """*key* is a parameter of the statement."""
        super().__init__(document, literal(key, Text()))


def number(document: ColumnElement[Any], *path: str | int) -> ColumnElement[float]:
    """Return a number in a JSON text as a double; null where there is none, or no finite one."""
    value: ColumnElement[Any] = json_member(document, *path)
    for word in _NOT_FINITE:
        value = func.nullif(value, word)
    return cast(value, Double)


def seconds(us: ColumnElement[Any]) -> ColumnElement[float]:
    """Turn microseconds into seconds."""
    return divided(cast(us, Double), literal(float(SECOND_US)))


def divided(part: ColumnElement[float], by: ColumnElement[float]) -> ColumnElement[float]:
    """Divide floats, without the casts by which SQLAlchemy would make integers divide alike."""
    return part.op("/", return_type=Double())(by)


def flag(value: ColumnElement[Any]) -> ColumnElement[Any]:
    """Turn a stored flag, or a comparison, into a boolean; 0 or 1 on SQLite."""
    return cast(value, Boolean)


def instants(us: ColumnElement[Any], name: str) -> Iterator[ColumnElement[Any]]:
    """Return an instant as such and as its microseconds."""
    yield instant(us).label(f"{name}_at")
    yield us.label(f"{name}_us")


def of_project(rows: Any) -> ColumnElement[bool]:
    """Return the condition that joins *rows* to the project that they are of."""
    same: ColumnElement[bool] = project.c.id == rows.c.project_id
    return same


@compiles(instant, "postgresql")
def _instant_on_postgresql(element: instant, compiler: SQLCompiler, **kw: Any) -> str:
    us = f"({compiler.process(element.clauses, **kw)})"
    return f"(TIMESTAMP WITH TIME ZONE 'epoch' + {us} * INTERVAL '1 microsecond')"


@compiles(instant, "sqlite")
def _instant_on_sqlite(element: instant, compiler: SQLCompiler, **kw: Any) -> str:
    us = f"({compiler.process(element.clauses, **kw)})"
    # Its % takes the sign of what is divided, and its / cuts off towards 0.
    rest = f"(({us} % {SECOND_US} + {SECOND_US}) % {SECOND_US})"
    to_the_second = f"strftime('%Y-%m-%dT%H:%M:%S', ({us} - {rest}) / {SECOND_US}, 'unixepoch')"
    return f"({to_the_second} || printf('.%06dZ', {rest}))"


@compiles(json_member, "postgresql")
def _json_member_on_postgresql(element: json_member, compiler: SQLCompiler, **kw: Any) -> str:
    document, *path = (compiler.process(clause, **kw) for clause in element.clauses)
    return f"(({document})::jsonb #>> '{{{','.join(path)}}}')"


@compiles(json_member, "sqlite")
def _json_member_on_sqlite(element: json_member, compiler: SQLCompiler, **kw: Any) -> str:
    # Some versions take json_extract in a view for unsafe where schemas are not trusted.
    document, *outer, last = (compiler.process(clause, **kw) for clause in element.clauses)
    root = "$" + "".join(f"[{step}]" if step.isdecimal() else f".{step}" for step in outer)
    members = f"json_each({document}, '{root}')"
    return f"(SELECT value FROM {members} WHERE key = '{last}')"  # noqa: S608 - a path of ours


@compiles(json_entry, "postgresql")
def _json_entry_on_postgresql(element: json_entry, compiler: SQLCompiler, **kw: Any) -> str:
    document, key = (compiler.process(clause, **kw) for clause in element.clauses)
    return f"(({document})::jsonb ->> {key})"


@compiles(json_entry, "sqlite")
def _json_entry_on_sqlite(element: json_entry, compiler: SQLCompiler, **kw: Any) -> str:
    document, key = (compiler.process(clause, **kw) for clause in element.clauses)
    return f"(SELECT value FROM json_each({document}) WHERE key = {key})"  # noqa: S608 - parameters
