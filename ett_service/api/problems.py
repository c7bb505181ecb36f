"""Refusals as RFC 9457 problem documents. They carry pointers and codes, never what was sent."""

import json
from collections.abc import Iterable, Mapping
from enum import Enum
from http import HTTPStatus
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from ett_service.ingest.refusals import Refusal

MEDIA_TYPE = "application/problem+json"

MOST_FAULTS = 100
"""More faults of one request are not told."""


class Kind(Enum):
    """Every kind of refusal: status, name in ``type``, and title."""

    MALFORMED_JSON = 400, "malformed-json", "The body is not JSON"
    BAD_ENCODING = 400, "bad-encoding", "The body cannot be decoded"
    BAD_REQUEST = 400, "bad-request", "The request cannot be read"
    UNAUTHORIZED = 401, "unauthorized", "No valid key"
    FORBIDDEN = 403, "forbidden", "The key may not do this"
    NOT_FOUND = 404, "not-found", "There is no such thing"
    METHOD_NOT_ALLOWED = 405, "method-not-allowed", "The method is not allowed here"
    CONFLICT = 409, "conflict", "It contradicts what is there"
    REQUEST_TIMEOUT = 408, "request-timeout", "The body came too slowly"
    TOO_LARGE = 413, "too-large", "The request is too large"
    UNSUPPORTED_MEDIA = 415, "unsupported-media", "The media type or encoding is not supported"
    VALIDATION_FAILED = 422, "validation-failed", "The request was understood and refused"
    INTERNAL = 500, "internal", "The service failed"
    STORAGE_UNAVAILABLE = 503, "storage-unavailable", "The database cannot be reached"

    def __init__(self, status: int, slug: str, title: str) -> None:
        self.status = status
        self.slug = slug
        self.title = title


class Problem(Exception):
    """A request that is refused; ``members`` extend the problem document."""

    def __init__(
        self,
        kind: Kind,
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
    """One thing that is wrong with a request; `allowed` says what a query parameter may be."""

    model_config = ConfigDict(extra="allow")

    code: str = Field(description="What is wrong, from a closed list.")
    pointer: str = Field(description="Where: a JSON pointer into the body, or `/query/NAME`.")


class ProblemDocument(BaseModel):
    """RFC 9457. Refusals of particular kinds have more members."""

    model_config = ConfigDict(
        extra="allow",
        title="Problem",
        json_schema_extra={
            "example": {
                "type": "urn:ett-service:problem:not-found",
                "title": "There is no such thing",
                "status": 404,
                "detail": "No such job.",
                "instance": "urn:req:5f0c2c1e9d4b4b3c8a6d1f2e3a4b5c6d",
            }
        },
    )

    type: str = Field(description="`urn:ett-service:problem:` and the kind of the refusal.")
    title: str
    status: int
    detail: str | None = None
    instance: str = Field(description="`urn:req:` and the request id, also in `X-Request-Id`.")
    errors: list[Fault] | None = None


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


def faults(errors: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Turn the errors of a pydantic model into codes and pointers, without what was sent.

    Of a query parameter it is told, too, what it may be.
    """
    found: list[dict[str, Any]] = []
    for error in errors:
        place = "".join(f"/{_escaped(part)}" for part in error["loc"])
        fault = {"code": str(error["type"]), "pointer": place}
        if error["loc"][:1] == ("query",):
            fault["allowed"] = error["msg"]
        found.append(fault)
    return found[:MOST_FAULTS]


def _escaped(part: object) -> str:
    return str(part)[:200].replace("~", "~0").replace("/", "~1")


def refusal_members(refusal: Refusal) -> dict[str, Any]:
    """Write a refusal as an answer tells it; it has an index and an id where it is an event's."""
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
