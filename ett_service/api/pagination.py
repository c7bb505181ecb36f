"""Lists: their pages, the opaque cursors that say where a page ended, and their columns.

Columns follow from the schema of what is listed alone, so a list has the same columns whatever its
rows hold, and when it has none. Objects are flattened, their members' names joined by dots.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import cache
from typing import Annotated, Any, NamedTuple, TypeVar

import msgspec
from fastapi import Query
from pydantic import BaseModel

from ett_service.api.answers import Words
from ett_service.api.problems import Problem, ProblemKind
from ett_service.ingest.wire import event_schema

Schema = Mapping[str, Any]

T = TypeVar("T")
R = TypeVar("R")

Whole = Annotated[int, msgspec.Meta(ge=-(1 << 62), le=1 << 62)]
Word = Annotated[str, msgspec.Meta(max_length=256, pattern=r"^[^\x00]*$")]
BY_TIME = tuple[Whole, Word]
"""The place in a list in order of time: an instant, then an id."""

Cursor = Annotated[
    str | None, Query(max_length=2000, description="`next_cursor` of the page before.")
]
Limit = Annotated[int, Query(ge=1, le=1000)]


class ColumnKind(Enum):
    """The type of a column."""

    TEXT = "text"
    WHOLE = "whole"
    NUMBER = "number"
    FLAG = "flag"
    INSTANT = "instant"
    JSON = "json"  #: an object or a list of no fixed shape


class Column(NamedTuple):
    """A column, and where its value lies in a row."""

    path: tuple[str, ...]
    kind: ColumnKind
    absent: float | None = None  #: stands for a member that its object leaves out

    @property
    def name(self) -> str:
        """Its heading."""
        return ".".join(self.path)

    def value(self, row: Mapping[str, Any]) -> Any:
        """Return the value in a row; None where an object on the way is null."""
        parent: Any = row
        for name in self.path[:-1]:
            parent = parent.get(name)
            if parent is None:
                return None
        return parent.get(self.path[-1], self.absent)


_SIMPLE = {
    "string": ColumnKind.TEXT,
    "integer": ColumnKind.WHOLE,
    "number": ColumnKind.NUMBER,
    "boolean": ColumnKind.FLAG,
}


@cache
def columns_of(model: type[BaseModel]) -> tuple[Column, ...]:
    """Return the columns of rows that are *model*."""
    schema = model.model_json_schema(mode="serialization")
    return tuple(_columns(schema, schema.get("$defs", {}), ()))


UNREADABLE = "unreadable"
"""The member of a listed event that says what keeps it from being read."""


@cache
def event_columns() -> tuple[Column, ...]:
    """Return the columns of listed events: the members of every type, and why one has none."""
    components = event_schema()
    columns: dict[str, Column] = {}
    for kind in components["Event"]["anyOf"]:
        for column in _columns(_resolved(kind, components), components, ()):
            columns.setdefault(column.name, column)
    first = [columns.pop(name) for name in ("type", "id", "at")]
    received = Column(("received_at",), ColumnKind.INSTANT)
    unreadable = Column((UNREADABLE,), ColumnKind.TEXT)
    return (*first, received, *(columns[name] for name in sorted(columns)), unreadable)


def _columns(schema: Schema, components: Schema, path: tuple[str, ...]) -> Iterator[Column]:
    schema = _resolved(schema, components)
    if "properties" in schema:
        for name, member in schema["properties"].items():
            yield from _columns(member, components, (*path, name))
    elif names := _resolved(schema.get("propertyNames", {}), components).get("enum"):
        member = _resolved(schema["additionalProperties"], components)
        absent = 0 if member.get("type") in ("integer", "number") else None
        for name in names:
            for column in _columns(member, components, (*path, name)):
                yield column._replace(absent=absent)
    else:
        yield Column(path, _kind(schema, components))


def _kind(schema: Schema, components: Schema) -> ColumnKind:
    """Return the kind that all choices beside null share."""
    kinds = {
        _kind_of_choice(_resolved(choice, components))
        for choice in schema.get("anyOf", [schema])
        if choice.get("type") != "null"
    }
    return kinds.pop() if len(kinds) == 1 else ColumnKind.JSON


def _kind_of_choice(schema: Schema) -> ColumnKind:
    if schema.get("format") == "date-time":
        return ColumnKind.INSTANT
    if "enum" in schema or "const" in schema:
        return ColumnKind.TEXT
    return _SIMPLE.get(schema.get("type", ""), ColumnKind.JSON)


def _resolved(schema: Schema, components: Schema) -> Schema:
    """Follow references, and look into what may be null."""
    while True:
        if "$ref" in schema:
            schema = components[schema["$ref"].rpartition("/")[2]]
            continue
        choices = [each for each in schema.get("anyOf", ()) if each.get("type") != "null"]
        if len(choices) != 1:
            return schema
        schema = choices[0]


def orders(names: Iterable[str]) -> Words:
    """Allow to sort by each of *names*, and by ``-NAME`` for the largest first."""
    ascending = tuple(names)
    return Words((*(f"-{name}" for name in ascending), *ascending))


def write(place: tuple[object, ...]) -> str:
    """Write *place* as a cursor."""
    return urlsafe_b64encode(msgspec.json.encode(place)).decode().rstrip("=")


def read(cursor: str, shape: type[T] | Any) -> T:
    """Read back a place of this *shape*.

    Raises:
        Problem: 422, if ``write`` made no such cursor.
    """
    padded = cursor + "=" * (-len(cursor) % 4)
    try:
        place: T = msgspec.json.decode(urlsafe_b64decode(padded.encode()), type=shape)
    except (ValueError, msgspec.MsgspecError) as error:
        raise refused() from error
    return place


def refused() -> Problem:
    """Say that a cursor is not one of this list."""
    fault = {"code": "bad_cursor", "pointer": "/query/cursor"}
    return Problem(ProblemKind.VALIDATION_FAILED, errors=[fault])


def page(
    rows: Sequence[R], limit: int, place: Callable[[R], tuple[object, ...]]
) -> tuple[Sequence[R], str | None]:
    """Cut *rows*, of which one more than *limit* was asked for; return them and the next cursor."""
    shown = rows[:limit]
    return shown, write(place(shown[-1])) if len(rows) > limit else None
