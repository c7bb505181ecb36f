"""Types of query parameters."""

from typing import Annotated

from fastapi import Query
from pydantic import BeforeValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from ett_service.ingest.refusals import Fault
from ett_service.ingest.text import parse_instant

Text = Annotated[str | None, Query(max_length=200, pattern=r"^[^\x00]*$")]

CursorText = Annotated[
    str | None, Query(max_length=2000, description="`next_cursor` of the page before.")
]


def _instant(value: str | None) -> int | None:
    if value is None:
        return None
    try:
        return parse_instant(value)
    except Fault as fault:
        raise PydanticCustomError(
            fault.code.value,
            "It is an RFC 3339 instant with an offset, such as 2026-03-01T08:00:00Z.",
        ) from fault


At = Annotated[
    int | None,
    BeforeValidator(_instant),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
"""An RFC 3339 instant with an offset, read into microseconds."""
