"""The API's own pages: its description, and a reader for it that needs no network."""

from importlib.resources import files
from typing import Literal

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, JSONResponse, Response

router = APIRouter(include_in_schema=False)

_OWN = files("ett_service.api") / "static"
_SWAGGER = files("fastapi_offline") / "static"

# Swagger UI styles its parts in place and draws its icons from data URLs; no script is inline.
_POLICY = (
    "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)

_MEDIA_TYPES = {"css": "text/css", "js": "text/javascript"}

Asset = Literal["swagger-ui.css", "swagger-ui-bundle.js", "docs.js"]


@router.get("/openapi.json")
def read_openapi(request: Request) -> Response:
    """Describe the API."""
    return JSONResponse(request.app.openapi())


@router.get("/docs")
def read_docs() -> Response:
    """Show the API in a browser."""
    page = (_OWN / "docs.html").read_text("utf-8")
    return HTMLResponse(page, headers={"Content-Security-Policy": _POLICY})


@router.get("/docs/{asset}")
def read_asset(asset: Asset) -> Response:
    """Give a style or a script of the page."""
    folder = _OWN if asset == "docs.js" else _SWAGGER
    media_type = _MEDIA_TYPES[asset.rpartition(".")[2]]
    headers = {"Cache-Control": "public, max-age=3600"}
    return Response((folder / asset).read_bytes(), media_type=media_type, headers=headers)
