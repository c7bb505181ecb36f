"""The page that Prometheus scrapes."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.responses import Response

from ett_service.api.deps import AppParts, known_key, require
from ett_service.api.problems import declared

router = APIRouter(tags=["metrics"])

_EXAMPLE = 'ett_phase_seconds_total{cluster="a",cohort="llm-70b",phase="train_loop"} 6300.0\n'
_PAGE: dict[str, Any] = {
    "content": {"text/plain": {"schema": {"type": "string"}, "example": _EXAMPLE}}
}


def _may_scrape(request: Request, parts: AppParts) -> None:
    if not parts.open_metrics:
        with parts.store.reading() as conn:
            require(known_key(request, conn), "fleet")


@router.get(
    "/metrics",
    operation_id="read_metrics",
    response_class=Response,
    responses={200: _PAGE, **declared(401, 403, 503)},
)
def read_metrics(request: Request, _: Annotated[None, Depends(_may_scrape)]) -> Response:
    """Show the counters of the whole fleet in the text format of Prometheus.

    A service that listens on loopback shows them to any reader; others ask for `fleet`.
    """
    return Response(generate_latest(request.state.registry), media_type=CONTENT_TYPE_LATEST)
