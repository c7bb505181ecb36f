"""What people send: one small JSON object a request, read as strictly as events are."""

from enum import Enum
from typing import Any, TypeVar

import msgspec
from starlette.requests import Request

from ett_service.api.body import read_body
from ett_service.api.problems import Kind, Problem
from ett_service.api.state import Parts
from ett_service.core.events import MarkerKind
from ett_service.core.regressions.finding import Triage
from ett_service.core.words import Cause, Origin
from ett_service.ingest.refusals import Code, Fault, fault_of
from ett_service.ingest.text import Frame, read_members

LARGEST_BODY = 16 << 10

S = TypeVar("S", bound=msgspec.Struct)

_ALLOWED: dict[str, type[Enum]] = {
    "/kind": MarkerKind,
    "/origin": Origin,
    "/cause": Cause,
    "/verdict": Triage,
}


async def read_sent(request: Request, parts: Parts, kind: type[S]) -> S:
    """Read the body of *request* as one object of *kind*.

    Raises:
        Problem: 400, 408, 415 or 422.
        BodyTooLarge: If it is.
    """
    body = await read_sent_bytes(request, parts)
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise refused(fault_of(error)) from error
    except RecursionError as error:
        raise refused(Fault(Code.TOO_DEEP)) from error
    except msgspec.DecodeError as error:
        raise Problem(Kind.MALFORMED_JSON) from error
    except UnicodeDecodeError as error:
        raise Problem(Kind.BAD_ENCODING, "The body is not UTF-8.") from error


async def read_sent_bytes(request: Request, parts: Parts) -> bytes:
    """Read the body of *request*, which says that it is JSON.

    Raises:
        Problem: 408 or 415.
        BodyTooLarge: If it is.
    """
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise Problem(Kind.UNSUPPORTED_MEDIA, "Send application/json.")
    return await read_body(request, most=LARGEST_BODY, deadline_s=parts.body_deadline_s)


def members(sent: msgspec.Struct, frame: Frame, pointer: str = "") -> dict[str, Any]:
    """Return the members of what was sent as they are kept; *pointer* is where it stands.

    Raises:
        Problem: 422.
    """
    try:
        return read_members(sent, frame)
    except Fault as fault:
        raise refused(Fault(fault.code, pointer + fault.pointer)) from fault


def refused(fault: Fault) -> Problem:
    """Tell what is wrong with a body, and of a closed list what is allowed."""
    detail = ""
    if fault.code is Code.UNKNOWN_VALUE and fault.pointer in _ALLOWED:
        words = ", ".join(each.value for each in _ALLOWED[fault.pointer])
        detail = f"{fault.pointer.removeprefix('/')} is one of: {words}."
    errors = [{"code": fault.code.value, "pointer": fault.pointer}]
    return Problem(Kind.VALIDATION_FAILED, detail, errors=errors)


def refused_window(pointer: str) -> Problem:
    """Tell that a window is empty: its end, at *pointer*, is not after its begin."""
    errors = [{"code": "bad_window", "pointer": pointer}]
    return Problem(Kind.VALIDATION_FAILED, "A window ends after it begins.", errors=errors)


def described_body(kind: type[msgspec.Struct], example: dict[str, Any]) -> dict[str, Any]:
    """Describe the body of a route for its OpenAPI page."""
    schema = {"$ref": f"#/components/schemas/{kind.__name__}"}
    content = {"application/json": {"schema": schema, "example": example}}
    return {"requestBody": {"required": True, "content": content}}
