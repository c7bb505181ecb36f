"""What people who administer ask for: one small JSON object a request."""

from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import Request

from ett_service.api.problems import Kind, Problem, faults
from ett_service.api.sent import read_sent_bytes
from ett_service.api.state import Parts

M = TypeVar("M", bound=BaseModel)


async def read_asked(request: Request, parts: Parts, kind: type[M]) -> M:
    """Read the body of *request* as one object of *kind*.

    Raises:
        Problem: 400, 408, 415 or 422.
        BodyTooLarge: If it is.
    """
    body = await read_sent_bytes(request, parts)
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        errors = error.errors(include_url=False, include_input=False, include_context=False)
        is_json = errors[0]["type"] != "json_invalid"
        problem = Kind.VALIDATION_FAILED if is_json else Kind.MALFORMED_JSON
        raise Problem(problem, errors=faults(errors)) from error


def described(kind: type[BaseModel], example: dict[str, Any]) -> dict[str, Any]:
    """Describe the body of a route for its OpenAPI page."""
    content = {"application/json": {"schema": kind.model_json_schema(), "example": example}}
    return {"requestBody": {"required": True, "content": content}}
