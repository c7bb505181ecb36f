"""What the public views say alike on both engines, though the engines say it differently."""

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Boolean, ColumnElement, Double, Text, cast, literal
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from ett_service.core.interval import SECOND_US
from ett_service.storage.tables import project


class instant(FunctionElement[Any]):  # noqa: N801 - it is written as the function that it is
    """Microseconds since the Unix epoch as an instant.

    On PostgreSQL a ``timestamptz``; on SQLite text as the API writes it, null outside of the
    years 0 to 9999.
    """

    name = "instant"
    type = Text()
    inherit_cache = True


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
