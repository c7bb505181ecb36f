"""Refusals as RFC 9457 problem documents. They carry pointers and codes, never what was sent."""

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from functools import partial
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Match, Route

from ett_service.api.answers import add_headers
from ett_service.core.intervals import rfc3339
from ett_service.fleet.scope import BadQuestion
from ett_service.ingest.refusals import (
    BadBatch,
    BadEncoding,
    BodyTooLarge,
    MalformedBody,
    Refusal,
    Refused,
    UnsupportedMedia,
)
from ett_service.storage.engine.errors import DamagedEvent, Migrating, StorageUnavailable
from ett_service.storage.fleet.hours import HoursPruned
from ett_service.storage.record.pruned import RecordPruned

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"

MOST_FAULTS = 100
"""A problem document lists at most so many faults."""

RETRY_AFTER_S = 2


class ProblemKind(Enum):
    """Every kind of refusal: status, name in ``type``, and title."""

    MALFORMED_JSON = 400, "malformed-json", "The body is not JSON"
    BAD_ENCODING = 400, "bad-encoding", "The body cannot be decoded"
    BAD_REQUEST = 400, "bad-request", "The request cannot be read"
    UNAUTHORIZED = 401, "unauthorized", "No valid key"
    FORBIDDEN = 403, "forbidden", "The key lacks a scope"
    NOT_FOUND = 404, "not-found", "Not found"
    METHOD_NOT_ALLOWED = 405, "method-not-allowed", "The method is not allowed here"
    PRUNED = 410, "pruned", "The record of the job was pruned"
    HOURS_PRUNED = 410, "hours-pruned", "The hours of this time were pruned"
    CONFLICT = 409, "conflict", "The request conflicts with the stored state"
    REQUEST_TIMEOUT = 408, "request-timeout", "The request arrived too slowly"
    TOO_LARGE = 413, "too-large", "The request is too large"
    UNSUPPORTED_MEDIA = 415, "unsupported-media", "The media type or encoding is not supported"
    HEADERS_LARGE = 431, "headers-too-large", "The headers are too large, or too many"
    ADDRESS_LONG = 414, "address-too-long", "The address of the request is too long"
    RATE_LIMITED = 429, "rate-limited", "This key sends more than its share"
    OVERLOADED = 503, "overloaded", "The service is busy"
    VALIDATION_FAILED = 422, "validation-failed", "The request is not valid"
    INTERNAL = 500, "internal", "The service failed"
    STORAGE_UNAVAILABLE = 503, "storage-unavailable", "The database cannot be reached"
    MIGRATING = 503, "migrating", "The database is being migrated"

    def __init__(self, status: int, slug: str, title: str) -> None:
        self.status = status
        self.slug = slug
        self.title = title


_OF_REFUSED = {
    MalformedBody: ProblemKind.MALFORMED_JSON,
    BadEncoding: ProblemKind.BAD_ENCODING,
    UnsupportedMedia: ProblemKind.UNSUPPORTED_MEDIA,
}
_OF_STATUS = {404: ProblemKind.NOT_FOUND, 405: ProblemKind.METHOD_NOT_ALLOWED}
_NO_ROUTE = "There is no such route. /docs lists them for people, /openapi.json for programs."


class Problem(Exception):
    """A request that is refused; ``members`` extend the problem document."""

    def __init__(
        self,
        kind: ProblemKind,
        detail: str = "",
        *,
        headers: Mapping[str, str] | None = None,
        **members: object,
    ) -> None:
        super().__init__(detail or kind.title)
        self.kind = kind
        self.detail = detail
        self.headers = dict(headers or {})
        self.members = members


class Fault(BaseModel):
    """One fault of a request. For a query parameter, `allowed` says what it may be."""

    model_config = ConfigDict(extra="allow")

    code: str = Field(description="What is wrong, from a closed list.")
    pointer: str = Field(description="Where: a JSON pointer into the body, or `/query/NAME`.")


class ProblemDocument(BaseModel):
    """An RFC 9457 problem document. Some kinds of problems have more members."""

    model_config = ConfigDict(extra="allow", title="Problem")

    type: str = Field(description="`urn:ett-service:problem:` and the kind of problem.")
    title: str
    status: int
    detail: str | None = None
    instance: str = Field(description="`urn:req:` and the request id, also in `X-Request-Id`.")
    errors: list[Fault] | None = None


def fault_members(errors: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Turn the errors of a pydantic model into codes and pointers, without what was sent.

    For a query parameter, ``allowed`` says what it may be.
    """
    faults: list[dict[str, Any]] = []
    for error in errors:
        pointer = "".join(f"/{_escaped(step)}" for step in error["loc"])
        fault = {"code": str(error["type"]), "pointer": pointer}
        if error["loc"][:1] == ("query",):
            fault["allowed"] = error["msg"]
        faults.append(fault)
    return faults[:MOST_FAULTS]


def _escaped(step: object) -> str:
    return str(step)[:200].replace("~", "~0").replace("/", "~1")


def refusal_members(refusal: Refusal) -> dict[str, Any]:
    """Write a refusal; that of an event has its index and id."""
    members = {"code": refusal.code.value, "pointer": refusal.pointer}
    if refusal.index is None:
        return members
    return {"index": refusal.index, "id": refusal.id, **members}


def declared(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Describe these refusals for the OpenAPI page of a route."""
    schema = {"$ref": "#/components/schemas/Problem"}
    return {
        status: {
            "description": HTTPStatus(status).phrase,
            "content": {MEDIA_TYPE: {"schema": schema}},
        }
        for status in statuses
    }


def add_handlers(app: FastAPI, routers: Sequence[APIRouter]) -> None:
    """Answer every error in *app*, which has *routers*, with a problem document."""
    expected = (
        Problem,
        BadQuestion,
        RequestValidationError,
        HTTPException,
        RecordPruned,
        HoursPruned,
        Refused,
        StorageUnavailable,
        DamagedEvent,
        ClientDisconnect,
    )
    for kind in expected:
        app.add_exception_handler(kind, _refuse)
    app.add_exception_handler(405, partial(_refuse_method, routers))
    app.add_exception_handler(Exception, _fail)


def problem_of(error: Exception) -> Problem:
    """Return the problem that a client reads for *error*: the one table of all errors."""
    match error:
        case Problem():
            problem = error
        case BadQuestion():
            problem = _of_question(error)
        case RequestValidationError():
            errors = fault_members(error.errors())
            problem = Problem(ProblemKind.VALIDATION_FAILED, errors=errors)
        case HTTPException():
            kind = _OF_STATUS.get(error.status_code, ProblemKind.BAD_REQUEST)
            detail = _NO_ROUTE if kind is ProblemKind.NOT_FOUND else ""
            problem = Problem(kind, detail, headers=error.headers)
        case Refused() | RecordPruned() | HoursPruned() | DamagedEvent():
            problem = _of_refused(error)
        case StorageUnavailable():
            headers = {"Retry-After": str(RETRY_AFTER_S)}
            is_migrating = isinstance(error, Migrating)
            kind = ProblemKind.MIGRATING if is_migrating else ProblemKind.STORAGE_UNAVAILABLE
            problem = Problem(kind, headers=headers)
        case ClientDisconnect():
            problem = Problem(ProblemKind.BAD_REQUEST, "The client closed the connection.")
        case _:
            problem = Problem(ProblemKind.INTERNAL)
    return problem


def _of_question(error: BadQuestion) -> Problem:
    fault = {"code": error.code, "pointer": f"/query/{error.parameter}", "allowed": error.allowed}
    return Problem(ProblemKind.VALIDATION_FAILED, str(error), errors=[fault])


def _of_stored(error: RecordPruned | HoursPruned | DamagedEvent) -> Problem:
    match error:
        case RecordPruned():
            return Problem(ProblemKind.PRUNED, str(error))
        case HoursPruned():
            since = rfc3339(error.hourly_from_us)
            detail = f"{error} {error.hint}"
            return Problem(ProblemKind.HOURS_PRUNED, detail, hourly_from=since)
        case DamagedEvent():
            return Problem(ProblemKind.INTERNAL, f"{error}. {error.hint}")


def _of_refused(error: Refused | RecordPruned | HoursPruned | DamagedEvent) -> Problem:
    match error:
        case RecordPruned() | HoursPruned() | DamagedEvent():
            return _of_stored(error)
        case BodyTooLarge():
            # The rest of the body is not read, so the connection cannot be used again.
            headers = {"Connection": "close"}
            return Problem(ProblemKind.TOO_LARGE, str(error), headers=headers, limit=error.limit)
        case BadBatch():
            faults = [refusal_members(error.refusal)]
            return Problem(ProblemKind.VALIDATION_FAILED, str(error), errors=faults)
        case _:
            return Problem(_OF_REFUSED[type(error)], str(error))


def render(request: Request, problem: Problem) -> Response:
    """Write *problem* as the answer to *request*."""
    kind = problem.kind
    document: dict[str, Any] = {
        "type": f"urn:ett-service:problem:{kind.slug}",
        "title": kind.title,
        "status": kind.status,
    }
    if problem.detail:
        document["detail"] = problem.detail
    document["instance"] = f"urn:req:{request.state.request_id}"
    document.update(problem.members)
    # ASCII only: a member name from the request may hold a lone surrogate.
    return Response(json.dumps(document), kind.status, problem.headers, MEDIA_TYPE)


def _refuse(request: Request, error: Exception) -> Response:
    if isinstance(error, StorageUnavailable):
        log.warning("%s", error, extra=_log_fields(request, "storage_unavailable"))
    elif isinstance(error, DamagedEvent):
        log.error("%s", error, extra=_log_fields(request, "damaged_event"))
    return render(request, problem_of(error))


def _refuse_method(routers: Sequence[APIRouter], request: Request, _: Exception) -> Response:
    routes = [route for router in routers for route in router.routes if isinstance(route, Route)]
    methods = {
        method
        for route in routes
        if route.matches(request.scope)[0] is not Match.NONE
        for method in route.methods or ()
    }
    allowed = ", ".join(sorted(methods))
    detail = f"This route takes {allowed}."
    problem = Problem(ProblemKind.METHOD_NOT_ALLOWED, detail, headers={"Allow": allowed})
    return render(request, problem)


def _fail(request: Request, error: Exception) -> Response:
    log.error("The service failed.", exc_info=error, extra=_log_fields(request, "failed"))
    answer = render(request, problem_of(error))
    # This answer passes outside the middleware that marks all others.
    add_headers(MutableHeaders(raw=answer.raw_headers), request.state.request_id)
    return answer


def _log_fields(request: Request, event: str) -> dict[str, str]:
    return {"event": event, "request_id": request.state.request_id}
