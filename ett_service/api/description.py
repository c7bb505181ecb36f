"""The description of the API, in OpenAPI."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from ett_service.api.problems import ProblemDocument
from ett_service.ingest.requests import regression_remark_schema, remark_schema
from ett_service.ingest.wire import event_schema

REFERENCES = "#/components/schemas/{model}"

_DESCRIPTION = """\
Effective Training Time of training jobs: send events, read exact ledgers.

Every request but those for health and for this page names a key:
`Authorization: Bearer ett_...`. Refusals are problem documents (RFC 9457) with codes and
pointers, never with the value that offended. Every answer carries `X-Request-Id`.
"""


def describe(app: FastAPI) -> dict[str, Any]:
    """Describe *app*, with the schemas of events and problems among its components."""
    if app.openapi_schema is None:
        document = get_openapi(
            title=app.title,
            version=app.version,
            description=_DESCRIPTION,
            routes=app.routes,
            tags=app.openapi_tags,
        )
        schemas = document["components"]["schemas"]
        schemas.update(
            _problem_schemas() | remark_schema() | regression_remark_schema(), **event_schema()
        )
        document["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        for path, operations in document["paths"].items():
            for operation in operations.values():
                operation["security"] = _security(path)
        app.openapi_schema = document
    return app.openapi_schema


def _problem_schemas() -> dict[str, Any]:
    problem = ProblemDocument.model_json_schema(ref_template=REFERENCES)
    return {**problem.pop("$defs"), "Problem": problem}


def _security(path: str) -> list[dict[str, list[str]]]:
    if path.startswith("/v1/"):
        return [{"key": []}]
    return [{}, {"key": []}] if path == "/metrics" else []
