"""The page that Prometheus scrapes."""

import hashlib
import logging
import time
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from ett_service.api.deps import AppParts, known_key, require
from ett_service.api.problems import Problem, declared
from ett_service.metrics.text import TextFormat, negotiate
from ett_service.storage.engine.errors import StorageUnavailable

log = logging.getLogger(__name__)

router = APIRouter(tags=["metrics"])

_EXAMPLE = 'ett_phase_seconds_total{cluster="a",cohort="llm-70b",phase="train_loop"} 6300.0\n'
_PAGE: dict[str, Any] = {
    "content": {
        form.value.partition(";")[0]: {"schema": {"type": "string"}, "example": _EXAMPLE}
        for form in TextFormat
    }
}

_MOST_SCRAPERS = 16


class Scrapers:
    """Who may scrape, as far as is known without the database, by the digest of their keys."""

    def __init__(self) -> None:
        self._digests: dict[bytes, None] = {}

    def admit(self, authorization: str) -> None:
        """Keep in mind one whose key was found good."""
        self._digests[_digest(authorization)] = None
        while len(self._digests) > _MOST_SCRAPERS:
            self._digests.pop(next(iter(self._digests)), None)

    def forget(self, authorization: str) -> None:
        """Forget one whose key is good no more."""
        self._digests.pop(_digest(authorization), None)

    def know(self, authorization: str) -> bool:
        """Whether the key was good when it was last looked up."""
        return _digest(authorization) in self._digests


def _digest(authorization: str) -> bytes:
    return hashlib.sha256(authorization.encode()).digest()


def _may_scrape(request: Request, parts: AppParts) -> None:
    if parts.open_metrics:
        return
    scrapers: Scrapers = request.state.scrapers
    authorization = request.headers.get("authorization", "")
    try:
        with parts.store.reading() as conn:
            require(known_key(request, conn), "fleet")
    except Problem:
        scrapers.forget(authorization)
        raise
    except StorageUnavailable:
        # While the database is away this process has to be watched more than ever.
        if not scrapers.know(authorization):
            raise
    else:
        scrapers.admit(authorization)


@router.get(
    "/metrics",
    operation_id="read_metrics",
    response_class=Response,
    responses={200: _PAGE, **declared(401, 403, 503)},
)
def read_metrics(request: Request, _: Annotated[None, Depends(_may_scrape)]) -> Response:
    """Show the counters of the whole fleet, and what this process says of itself.

    In Prometheus' text format or, where `Accept` asks for it, in OpenMetrics. The fleet's part is
    the same from every replica, and missing while the database cannot be read. A service that
    listens on loopback shows the page to any reader; others ask for `fleet`.
    """
    form = negotiate(", ".join(request.headers.getlist("accept")))
    own = request.state.own
    began = time.perf_counter()
    try:
        _, fleet, left_out = request.state.fleet_part.read(form)
    except Exception:  # whatever is wrong with the fleet's part, the process has to be seen
        log.exception("The page goes without the fleet.", extra={"event": "scrape_trouble"})
        fleet, left_out = b"", 1
    own.count_scrape(time.perf_counter() - began, left_out)
    return Response(fleet + own.text(form), media_type=form.value)
