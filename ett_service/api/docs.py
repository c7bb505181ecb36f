"""The API's own pages: its OpenAPI document, and a reader for it that needs no network."""

import hashlib
import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Annotated, Any, Literal

from anyio import to_thread
from fastapi import APIRouter, FastAPI, Path, Request
from fastapi.openapi.utils import get_openapi
from starlette.responses import (
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
)

from ett_service.api.load.overload import ALWAYS_IN
from ett_service.api.problems import Problem, ProblemDocument, ProblemKind, declared
from ett_service.ingest.requests import regression_remark_schema, remark_schema
from ett_service.ingest.trainer_status import trainer_status_schema
from ett_service.ingest.wire import event_schema

router = APIRouter(include_in_schema=False)

REFERENCES = "#/components/schemas/{model}"

_OWN = files("ett_service.api") / "static"
_EXAMPLES = files("ett_service.api") / "examples"
_SWAGGER = files("fastapi_offline") / "static"

# Swagger UI styles its parts in place and draws its icons from data URLs; no script is inline.
_POLICY = (
    "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)

_MEDIA_TYPES = {"css": "text/css", "js": "text/javascript"}

Asset = Literal["swagger-ui.css", "swagger-ui-bundle.js", "docs.js"]

_DESCRIPTION = """\
Effective Training Time (ETT%) of training jobs: send events, read exact ledgers.

Every request needs a key, `Authorization: Bearer ett_...`, except those for health and for this
page. Errors are problem documents (RFC 9457) with codes and pointers; they never repeat the
value that was sent. Every answer carries `X-Request-Id`. A busy service answers 429 or 503 with
`Retry-After`; an address that is too long 414, headers that are too large 431.

Examples are recorded answers. Their lists are cut to two items.
"""


def describe(app: FastAPI) -> dict[str, Any]:
    """Describe *app*, with the schemas of events and problems, and with recorded examples."""
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
            _problem_schemas()
            | remark_schema()
            | regression_remark_schema()
            | trainer_status_schema(),
            **event_schema(),
        )
        document["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        for path, operations in document["paths"].items():
            for operation in operations.values():
                operation["security"] = _security(path)
                of_every = declared(414, 431, *(() if path in ALWAYS_IN else (429, 503)))
                for status, refusal in of_every.items():
                    operation["responses"].setdefault(str(status), refusal)
                _add_examples(operation)
        app.openapi_schema = document
    return app.openapi_schema


@cache
def examples() -> dict[str, Any]:
    """Return the recorded request and answers of every operation, by its id.

    ``make openapi`` records them; they lie in the package because the service shows them.
    """
    recorded: dict[str, Any] = {}
    for file in sorted(_EXAMPLES.iterdir(), key=lambda each: each.name):
        recorded |= json.loads(file.read_text("utf-8"))
    return recorded


def _add_examples(operation: dict[str, Any]) -> None:
    recorded = examples().get(operation["operationId"], {})
    sent = operation.get("requestBody", {}).get("content", {})
    for media, example in recorded.get("request", {}).items():
        sent[media]["example"] = example
    for status, answers in recorded.get("answers", {}).items():
        for media, example in answers.items():
            operation["responses"][status]["content"][media]["example"] = example


def _problem_schemas() -> dict[str, Any]:
    problem = ProblemDocument.model_json_schema(ref_template=REFERENCES)
    problem["example"] = examples().get("problem")
    return {**problem.pop("$defs"), "Problem": problem}


def _security(path: str) -> list[dict[str, list[str]]]:
    if path.startswith("/v1/"):
        return [{"key": []}]
    return [{}, {"key": []}] if path == "/metrics" else []


@dataclass(frozen=True, slots=True)
class _Document:
    body: bytes
    tag: str


async def _document(request: Request) -> _Document:
    """Return the description, written down once: that takes a second, of a thread."""
    app = request.app
    if not hasattr(app.state, "document"):
        limiter = request.state.admission.decoding
        app.state.document = await to_thread.run_sync(_written, app, limiter=limiter)
    document: _Document = app.state.document
    return document


def _written(app: FastAPI) -> _Document:
    if not hasattr(app.state, "document"):
        body = bytes(JSONResponse(app.openapi()).body)
        app.state.document = _Document(body, f'"{hashlib.sha256(body).hexdigest()[:32]}"')
    document: _Document = app.state.document
    return document


@router.get("/openapi.json")
async def read_openapi(request: Request) -> Response:
    """Return the OpenAPI document, or 304 where the reader has it."""
    document = await _document(request)
    headers = {"ETag": document.tag, "Cache-Control": "public, max-age=300"}
    sent = (tag.strip() for tag in request.headers.get("if-none-match", "").split(","))
    if document.tag in {tag.removeprefix("W/") for tag in sent}:
        return Response(status_code=304, headers=headers)
    return Response(document.body, headers=headers, media_type="application/json")


@router.get("/docs")
def read_docs() -> Response:
    """Show the API in a browser."""
    page = (_OWN / "docs.html").read_text("utf-8")
    return HTMLResponse(page, headers={"Content-Security-Policy": _POLICY})


@router.get("/docs/runbooks")
def find_runbooks() -> Response:
    """Lead to their index, beside which its links are addresses."""
    return RedirectResponse("runbooks/")


@router.get("/docs/runbooks/")
def list_runbooks() -> Response:
    """Return the list of runbooks, as it is written."""
    return _runbook("README.md")


@router.get("/docs/runbooks/{page}")
def read_runbook(page: Annotated[str, Path(pattern=r"^[A-Za-z]+\.md$")]) -> Response:
    """Return the runbook of an alert, as it is written: what alerts link to.

    Raises:
        Problem: 404.
    """
    return _runbook(page)


def _runbook(page: str) -> Response:
    file = _runbooks() / page
    if not file.is_file():
        raise Problem(ProblemKind.NOT_FOUND, "No such runbook. /docs/runbooks/ lists them.")
    return PlainTextResponse(file.read_text("utf-8"))


def _runbooks() -> Traversable:
    """Return their folder: an installed package's own, else the checkout's."""
    package = files("ett_service")
    packaged = package / "_runbooks"
    return packaged if packaged.is_dir() else package / ".." / "docs" / "runbooks"


@router.get("/docs/{asset}")
def read_asset(asset: Asset) -> Response:
    """Return a style or a script of the page."""
    folder = _OWN if asset == "docs.js" else _SWAGGER
    media_type = _MEDIA_TYPES[asset.rpartition(".")[2]]
    headers = {"Cache-Control": "public, max-age=3600"}
    return Response((folder / asset).read_bytes(), media_type=media_type, headers=headers)
