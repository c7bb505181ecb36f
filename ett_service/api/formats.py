"""Every list as JSON, CSV and Parquet, by one mechanism.

A route hands its answer and the rows in it to :func:`listed`. The rows' model says what the
columns are, so a route adds nothing for the other formats but its parameter ``format``.
"""

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, TypeVar

import pyarrow as pa
from fastapi import Query
from fastapi.responses import Response
from pyarrow import parquet
from pydantic import BaseModel

from ett_service.api.columns import Column, ColumnKind, columns_of

A = TypeVar("A", bound=BaseModel)
Row = Mapping[str, Any]
FileFormat = Literal["json", "csv", "parquet"]

FormatParameter = Annotated[
    FileFormat,
    Query(
        alias="format",
        description=(
            "`csv` (RFC 4180, UTF-8) and `parquet` contain only the rows, one column a member. "
            "Names of nested members are joined by dots. In CSV, a text that a spreadsheet "
            "would read as a formula starts with `'`."
        ),
    ),
]

CSV = "text/csv; charset=utf-8; header=present"
PARQUET = "application/vnd.apache.parquet"
NEXT_CURSOR = "ETT-Next-Cursor"

_A_FORMULA_BEGINS = ("=", "+", "-", "@", "\t", "\r")
_LARGEST = 2**63 - 1
_ARROW = {
    ColumnKind.TEXT: pa.string(),
    ColumnKind.WHOLE: pa.int64(),
    ColumnKind.NUMBER: pa.float64(),
    ColumnKind.FLAG: pa.bool_(),
    ColumnKind.INSTANT: pa.timestamp("us", tz="UTC"),
    ColumnKind.JSON: pa.string(),
}


def listed(
    form: FileFormat,
    answer: A,
    rows: Sequence[BaseModel],
    *,
    of: type[BaseModel],
    name: str,
    next_cursor: str | None = None,
) -> A | Response:
    """Return *answer* for JSON, else its *rows*, each of which is *of* this model, as a file.

    Of a page, *next_cursor* goes into the header ``ETT-Next-Cursor``.
    """
    if form == "json":
        return answer
    plain = [row.model_dump(mode="json", by_alias=True) for row in rows]
    return as_file(form, columns_of(of), plain, name=name, next_cursor=next_cursor)


def as_file(
    form: FileFormat,
    columns: Sequence[Column],
    rows: Sequence[Row],
    *,
    name: str,
    next_cursor: str | None = None,
) -> Response:
    """Write *rows* as a file ``name.csv`` or ``name.parquet``."""
    body, media = (
        (_csv(columns, rows), CSV) if form == "csv" else (_parquet(columns, rows), PARQUET)
    )
    headers = {"Content-Disposition": f'attachment; filename="{name}.{form}"'}
    if next_cursor is not None:
        headers[NEXT_CURSOR] = next_cursor
    return Response(body, headers=headers, media_type=media)


def as_files(*, paged: bool = False) -> dict[int | str, dict[str, Any]]:
    """Describe, for a route's ``responses``, the formats beside JSON."""
    cursor = {"description": "`next_cursor`, for CSV and Parquet.", "schema": {"type": "string"}}
    answer: dict[str, Any] = {
        "content": {
            "text/csv": {"schema": {"type": "string"}},
            PARQUET: {"schema": {"type": "string", "format": "binary"}, "example": "PAR1"},
        }
    }
    if paged:
        answer["headers"] = {NEXT_CURSOR: cursor}
    return {200: answer}


def _csv(columns: Sequence[Column], rows: Iterable[Row]) -> bytes:
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, lineterminator="\r\n")
    writer.writerow([column.name for column in columns])
    writer.writerows([_cell(column.value(row)) for column in columns] for row in rows)
    return buffer.getvalue().encode()


def _cell(value: Any) -> str | int | float:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case int() | float():
            return value
        case str():
            return f"'{value}" if value.startswith(_A_FORMULA_BEGINS) else value
        case _:
            return _json(value)


def _parquet(columns: Sequence[Column], rows: Sequence[Row]) -> bytes:
    fields = [pa.field(column.name, _ARROW[column.kind]) for column in columns]
    arrays = [
        pa.array([_typed(column.kind, column.value(row)) for row in rows], field.type)
        for column, field in zip(columns, fields, strict=True)
    ]
    buffer = io.BytesIO()
    parquet.write_table(pa.Table.from_arrays(arrays, schema=pa.schema(fields)), buffer)
    return buffer.getvalue()


def _typed(kind: ColumnKind, value: Any) -> Any:
    if value is None:
        return None
    match kind:
        case ColumnKind.INSTANT:
            return datetime.fromisoformat(value)
        case ColumnKind.JSON:
            return _json(value)
        case ColumnKind.WHOLE:
            # A sum of what senders made up may pass what a column holds.
            return max(-_LARGEST, min(value, _LARGEST))
        case _:
            return value


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
