"""Bodies of requests and of answers.

Requests are read up to a limit of bytes and of time, and refused by code and pointer. What people
say of the record (markers, verdicts, exclusions, mutes, triage) is read by the types of the wire,
as events are. Keys, receivers and scenarios are read by pydantic models.

Every list is answered as JSON, CSV and Parquet: a route hands its answer and the rows in it to
:func:`listed`, and the rows' model says what the columns are.
"""

import asyncio
import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from enum import Enum
from typing import Annotated, Any, ClassVar, Literal, TypeVar

import msgspec
import pyarrow as pa
from fastapi import Query
from fastapi.responses import Response
from pyarrow import parquet
from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.requests import Request

from ett_service.api.load.admission import Refused as Refusal
from ett_service.api.load.overload import Packed
from ett_service.api.pagination import Column, ColumnKind, columns_of
from ett_service.api.problems import Problem, ProblemKind, declared, fault_members
from ett_service.api.state import AppState
from ett_service.core.events import MarkerKind
from ett_service.core.regressions.finding import Triage
from ett_service.core.words import Cause, Origin
from ett_service.ingest.members import Frame, read_members
from ett_service.ingest.refusals import BodyTooLarge, Code, Fault, fault_of

LARGEST_BODY = 16 << 10

S = TypeVar("S", bound=msgspec.Struct)
M = TypeVar("M", bound="RequestBody")

_ALLOWED: dict[str, type[Enum]] = {
    "/kind": MarkerKind,
    "/origin": Origin,
    "/cause": Cause,
    "/verdict": Triage,
}


class RequestBody(BaseModel):
    """The body of a request, as a model."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    points_at_bad_json: ClassVar[bool] = True
    """Whether the problem of a body that is not JSON lists that as a fault."""


async def read_body(
    request: Request,
    *,
    most: int,
    deadline_s: float,
    count: Callable[[int], None] = lambda _: None,
) -> bytes:
    """Read the body of *request*, of up to *most* bytes, within *deadline_s* seconds.

    *count* is called with the length of each piece, and may refuse it.

    Raises:
        BodyTooLarge: As soon as it is.
        Problem: 408, when the deadline has passed.
    """
    announced = request.headers.get("content-length", "")
    if announced.isascii() and announced.isdigit() and int(announced) > most:
        raise BodyTooLarge("bytes", most)
    try:
        async with asyncio.timeout(deadline_s):
            return await _read(request, most, count)
    except TimeoutError as error:
        request.state.admission.refuse(Refusal.BODY_SLOW)
        raise Problem(ProblemKind.REQUEST_TIMEOUT, headers={"Connection": "close"}) from error


async def _read(request: Request, most: int, count: Callable[[int], None]) -> bytes:
    pieces: list[bytes] = []
    size = 0
    async for piece in request.stream():
        size += len(piece)
        if size > most:
            raise BodyTooLarge("bytes", most)
        count(len(piece))
        pieces.append(piece)
    return b"".join(pieces)


async def _read_json(request: Request, state: AppState) -> bytes:
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise Problem(ProblemKind.UNSUPPORTED_MEDIA, "Send application/json.")
    return await read_body(request, most=LARGEST_BODY, deadline_s=state.body_deadline_s)


async def read_struct(request: Request, state: AppState, kind: type[S]) -> S:
    """Read the body of *request* as an object of the wire.

    Raises:
        Problem: 400, 408, 415 or 422.
        BodyTooLarge: If it is.
    """
    body = await _read_json(request, state)
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise refused(fault_of(error)) from error
    except RecursionError as error:
        raise refused(Fault(Code.TOO_DEEP)) from error
    except msgspec.DecodeError as error:
        raise Problem(ProblemKind.MALFORMED_JSON) from error
    except UnicodeDecodeError as error:
        raise Problem(ProblemKind.BAD_ENCODING, "The body is not UTF-8.") from error


async def read_model(request: Request, state: AppState, kind: type[M]) -> M:
    """Read the body of *request* as a model.

    Raises:
        Problem: 400, 408, 415 or 422.
        BodyTooLarge: If it is.
    """
    body = await _read_json(request, state)
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        errors = error.errors(include_url=False, include_input=False, include_context=False)
        is_json = errors[0]["type"] != "json_invalid"
        problem = ProblemKind.VALIDATION_FAILED if is_json else ProblemKind.MALFORMED_JSON
        if not is_json and not kind.points_at_bad_json:
            raise Problem(problem) from error
        raise Problem(problem, errors=fault_members(errors)) from error


def members(body: msgspec.Struct, frame: Frame, pointer: str = "") -> dict[str, Any]:
    """Return the members of *body* as they are stored; *pointer* says where it stands.

    Raises:
        Problem: 422.
    """
    try:
        return read_members(body, frame)
    except Fault as fault:
        raise refused(Fault(fault.code, pointer + fault.pointer)) from fault


def refused(fault: Fault) -> Problem:
    """Say what is wrong with a body; for a closed list, what is allowed."""
    detail = ""
    if fault.code is Code.UNKNOWN_VALUE and fault.pointer in _ALLOWED:
        words = ", ".join(each.value for each in _ALLOWED[fault.pointer])
        detail = f"{fault.pointer.removeprefix('/')} is one of: {words}."
    errors = [{"code": fault.code.value, "pointer": fault.pointer}]
    return Problem(ProblemKind.VALIDATION_FAILED, detail, errors=errors)


def refused_window(pointer: str) -> Problem:
    """Say that a window is empty: its end, at *pointer*, is not after its start."""
    errors = [{"code": "bad_window", "pointer": pointer}]
    return Problem(
        ProblemKind.VALIDATION_FAILED, "A window must end after it starts.", errors=errors
    )


def described(kind: type[msgspec.Struct] | type[RequestBody]) -> dict[str, Any]:
    """Describe the body of a route for its OpenAPI page."""
    if issubclass(kind, RequestBody):
        schema = kind.model_json_schema()
    else:
        schema = {"$ref": f"#/components/schemas/{kind.__name__}"}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


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

_A_FORMULA_BEGINS = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20\ufe62\ufe63\ufe66\ufe6b\u2212")
"""What a formula begins with, in the full-width and small forms that spreadsheets read, too."""

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
) -> A | Response:
    """Return *answer* for JSON, else its *rows*, each of which is *of* this model, as a file.

    The cursor of a page goes into the header ``ETT-Next-Cursor``.
    """
    if form == "json":
        return answer
    plain = [row.model_dump(mode="json", by_alias=True) for row in rows]
    next_cursor = getattr(answer, "next_cursor", None)
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
    write, media = _FILES[form]
    headers = _attached(name, form)
    if next_cursor is not None:
        headers[NEXT_CURSOR] = next_cursor
    return Response(b"".join(write(columns, [rows])), headers=headers, media_type=media)


def listed_in_pieces(
    form: FileFormat,
    answer: BaseModel,
    pieces: Iterable[Sequence[BaseModel]],
    *,
    of: type[BaseModel],
    name: str,
    check: Callable[[], None],
) -> Response:
    """Do what :func:`listed` does for rows that are made *piece* by piece.

    The rows are the last member of *answer*, where they are missing. Before each piece *check* may
    end the reading by an error.
    """
    checked = _checked(pieces, check)
    if form == "json":
        return Packed(_json_list(answer, checked)).response("application/json", {})
    write, media = _FILES[form]
    rows = ([row.model_dump(mode="json", by_alias=True) for row in piece] for piece in checked)
    return Packed(write(columns_of(of), rows)).response(media, _attached(name, form))


P = TypeVar("P")


def _checked(pieces: Iterable[P], check: Callable[[], None]) -> Iterator[P]:
    for piece in pieces:
        check()
        yield piece


def _json_list(answer: BaseModel, pieces: Iterable[Sequence[BaseModel]]) -> Iterator[bytes]:
    separator = answer.model_dump_json(by_alias=True).encode().removesuffix(b"]}")
    for piece in pieces:
        for row in piece:
            yield separator + row.model_dump_json(by_alias=True).encode()
            separator = b","
    yield b"]}" if separator == b"," else separator + b"]}"


def _attached(name: str, form: FileFormat) -> dict[str, str]:
    return {"Content-Disposition": f'attachment; filename="{name}.{form}"'}


OF_RECORD = (401, 403, 404, 410, 422, 429, 503)
"""What is refused of a job's events and segments, which may be pruned."""

OF_WINDOW = OF_RECORD
"""What is refused of the fleet's time in a window, of which hours may be pruned."""


def as_files(
    refusals: Sequence[int] = (401, 403, 404, 422, 429, 503), *, paged: bool = False
) -> dict[int | str, dict[str, Any]]:
    """Describe the ``responses`` of a route that lists: the formats beside JSON, and *refusals*."""
    cursor = {"description": "`next_cursor`, for CSV and Parquet.", "schema": {"type": "string"}}
    answer: dict[str, Any] = {
        "content": {
            "text/csv": {"schema": {"type": "string"}},
            PARQUET: {"schema": {"type": "string", "format": "binary"}, "example": "PAR1"},
        }
    }
    if paged:
        answer["headers"] = {NEXT_CURSOR: cursor}
    return {200: answer, **declared(*refusals)}


def _csv(columns: Sequence[Column], pieces: Iterable[Iterable[Row]]) -> Iterator[bytes]:
    heading = [column.name for column in columns]
    yield _lines([heading])
    for rows in pieces:
        yield _lines([_cell(column.value(row)) for column in columns] for row in rows)


def csv_of(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> bytes:
    """Write objects of JSON as CSV; what a row lacks is empty."""
    return _lines([columns]) + _lines([_cell(row.get(name)) for name in columns] for row in rows)


def _lines(rows: Iterable[Sequence[str | int | float]]) -> bytes:
    buffer = io.StringIO(newline="")
    csv.writer(buffer, lineterminator="\r\n").writerows(rows)
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


def _parquet(columns: Sequence[Column], pieces: Iterable[Sequence[Row]]) -> Iterator[bytes]:
    fields = [pa.field(column.name, _ARROW[column.kind]) for column in columns]
    buffer = io.BytesIO()
    with parquet.ParquetWriter(buffer, pa.schema(fields)) as writer:
        for rows in pieces:
            arrays = [
                pa.array([_typed(column.kind, column.value(row)) for row in rows], field.type)
                for column, field in zip(columns, fields, strict=True)
            ]
            writer.write_table(pa.Table.from_arrays(arrays, schema=writer.schema))
    yield buffer.getvalue()


_FILES: dict[FileFormat, tuple[Callable[..., Iterator[bytes]], str]] = {
    "csv": (_csv, CSV),
    "parquet": (_parquet, PARQUET),
}


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
