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


class Kind(Enum):
    """What a column holds."""

    TEXT = "text"
    WHOLE = "whole"
    NUMBER = "number"
    FLAG = "flag"
    INSTANT = "instant"
    JSON = "json"  #: an object or a list of no fixed shape


class Column(NamedTuple):
    """A column, and where its value lies in a row."""

    path: tuple[str, ...]
    kind: Kind
    absent: float | None = None  #: stands for a member that its object leaves out

    @property
    def name(self) -> str:
        """Its heading."""
        return ".".join(self.path)

    def value(self, row: Mapping[str, Any]) -> Any:
        """Find the value in a row; None where an object on the way is null."""
        found: Any = row
        for name in self.path[:-1]:
            found = found.get(name)
            if found is None:
                return None
        return found.get(self.path[-1], self.absent)


_SIMPLE = {
    "string": Kind.TEXT,
    "integer": Kind.WHOLE,
    "number": Kind.NUMBER,
    "boolean": Kind.FLAG,
}


@cache
def columns_of(model: type[BaseModel]) -> tuple[Column, ...]:
    """Return the columns of rows that are *model*."""
    schema = model.model_json_schema(mode="serialization")
    return tuple(_columns(schema, schema.get("$defs", {}), ()))


@cache
def event_columns() -> tuple[Column, ...]:
    """Return the columns of events as they are listed: the members that any type of event has."""
    components = event_schema()
    found: dict[str, Column] = {}
    for kind in components["Event"]["anyOf"]:
        for column in _columns(_resolved(kind, components), components, ()):
            found.setdefault(column.name, column)
    first = [found.pop(name) for name in ("type", "id", "at")]
    received = Column(("received_at",), Kind.INSTANT)
    return (*first, received, *(found[name] for name in sorted(found)))


def _columns(schema: Schema, known: Schema, path: tuple[str, ...]) -> Iterator[Column]:
    schema = _resolved(schema, known)
    if "properties" in schema:
        for name, member in schema["properties"].items():
            yield from _columns(member, known, (*path, name))
    elif names := _resolved(schema.get("propertyNames", {}), known).get("enum"):
        member = _resolved(schema["additionalProperties"], known)
        absent = 0 if member.get("type") in ("integer", "number") else None
        for name in names:
            for column in _columns(member, known, (*path, name)):
                yield column._replace(absent=absent)
    else:
        yield Column(path, _kind(schema, known))


def _kind(schema: Schema, known: Schema) -> Kind:
    """Return what all that the schema allows beside null have in common."""
    kinds = {
        _of_one(_resolved(one, known))
        for one in schema.get("anyOf", [schema])
        if one.get("type") != "null"
    }
    return kinds.pop() if len(kinds) == 1 else Kind.JSON


def _of_one(schema: Schema) -> Kind:
    if schema.get("format") == "date-time":
        return Kind.INSTANT
    if "enum" in schema or "const" in schema:
        return Kind.TEXT
    return _SIMPLE.get(schema.get("type", ""), Kind.JSON)


def _resolved(schema: Schema, known: Schema) -> Schema:
    """Follow references, and look through what may be null."""
    while True:
        if "$ref" in schema:
            schema = known[schema["$ref"].rpartition("/")[2]]
            continue
        choices = [one for one in schema.get("anyOf", ()) if one.get("type") != "null"]
        if len(choices) != 1:
            return schema
        schema = choices[0]
