"""The columns of a list, from the schema of what is listed.

They follow from the schema alone, so a list has the same columns whatever its rows hold, and when
it has none. Objects are flattened, their members' names joined by dots.
"""

from collections.abc import Iterator, Mapping
from enum import Enum
from functools import cache
from typing import Any, NamedTuple

from pydantic import BaseModel

from ett_service.ingest.wire import event_schema

Schema = Mapping[str, Any]


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


@cache
def event_columns() -> tuple[Column, ...]:
    """Return the columns of listed events: the members of every type of event."""
    components = event_schema()
    columns: dict[str, Column] = {}
    for kind in components["Event"]["anyOf"]:
        for column in _columns(_resolved(kind, components), components, ()):
            columns.setdefault(column.name, column)
    first = [columns.pop(name) for name in ("type", "id", "at")]
    received = Column(("received_at",), ColumnKind.INSTANT)
    return (*first, received, *(columns[name] for name in sorted(columns)))


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
