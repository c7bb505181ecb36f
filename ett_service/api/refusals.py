"""The one table from what can go wrong to the problem that a client reads."""

import logging

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from ett_service.api.access import mark
from ett_service.api.problems import Kind, Problem, faults, refusal_members, render
from ett_service.fleet.scope import BadQuestion
from ett_service.ingest.refusals import (
    BadBatch,
    BadEncoding,
    BodyTooLarge,
    MalformedBody,
    Refused,
    UnsupportedMedia,
)
from ett_service.storage.engine.errors import StorageUnavailable

log = logging.getLogger(__name__)

RETRY_AFTER_S = 2

_OF_REFUSED = {
    MalformedBody: Kind.MALFORMED_JSON,
    BadEncoding: Kind.BAD_ENCODING,
    UnsupportedMedia: Kind.UNSUPPORTED_MEDIA,
}
_OF_STATUS = {404: Kind.NOT_FOUND, 405: Kind.METHOD_NOT_ALLOWED}


def add_handlers(app: FastAPI) -> None:
    """Answer everything that goes wrong in *app* with a problem document."""
    expected = (
        Problem,
        BadQuestion,
        RequestValidationError,
        HTTPException,
        Refused,
        StorageUnavailable,
        ClientDisconnect,
    )
    for kind in expected:
        app.add_exception_handler(kind, _refuse)
    app.add_exception_handler(Exception, _fail)


def problem_of(error: Exception) -> Problem:
    """Say what a client is told about *error*."""
    match error:
        case Problem():
            told = error
        case BadQuestion():
            told = _unanswerable(error)
        case RequestValidationError():
            told = Problem(Kind.VALIDATION_FAILED, errors=faults(error.errors()))
        case HTTPException():
            kind = _OF_STATUS.get(error.status_code, Kind.BAD_REQUEST)
            told = Problem(kind, headers=error.headers)
        case Refused():
            told = _refused(error)
        case StorageUnavailable():
            told = Problem(Kind.STORAGE_UNAVAILABLE, headers={"Retry-After": str(RETRY_AFTER_S)})
        case ClientDisconnect():
            told = Problem(Kind.BAD_REQUEST, "The sender hung up.")
        case _:
            told = Problem(Kind.INTERNAL)
    return told


def _unanswerable(error: BadQuestion) -> Problem:
    fault = {"code": error.code, "pointer": f"/query/{error.parameter}", "allowed": error.allowed}
    return Problem(Kind.VALIDATION_FAILED, str(error), errors=[fault])


def _refused(error: Refused) -> Problem:
    match error:
        case BodyTooLarge():
            # What is still to come is not read, so the connection cannot be used again.
            headers = {"Connection": "close"}
            return Problem(Kind.TOO_LARGE, str(error), headers=headers, limit=error.limit)
        case BadBatch():
            return Problem(Kind.VALIDATION_FAILED, errors=[refusal_members(error.refusal)])
        case _:
            return Problem(_OF_REFUSED[type(error)], str(error))


def _refuse(request: Request, error: Exception) -> Response:
    if isinstance(error, StorageUnavailable):
        log.warning("%s", error, extra=_marks(request, "storage_unavailable"))
    return render(request, problem_of(error))


def _fail(request: Request, error: Exception) -> Response:
    log.error("The service failed", exc_info=error, extra=_marks(request, "failed"))
    answer = render(request, problem_of(error))
    # This answer passes outside the middleware that marks all others.
    mark(MutableHeaders(raw=answer.raw_headers), request.state.request_id)
    return answer


def _marks(request: Request, event: str) -> dict[str, str]:
    return {"event": event, "request_id": request.state.request_id}
