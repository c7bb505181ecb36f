"""Types of query parameters."""

from typing import Annotated

from fastapi import Query
from pydantic import BeforeValidator, WithJsonSchema

from ett_service.ingest.wire import parse_instant

Text = Annotated[str | None, Query(max_length=200, pattern=r"^[^\x00]*$")]

At = Annotated[
    int | None,
    BeforeValidator(lambda value: None if value is None else parse_instant(value)),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
"""An RFC 3339 instant with an offset, read into microseconds."""

CursorText = Annotated[
    str | None, Query(max_length=2000, description="`next_cursor` of the page before.")
]
