"""The page that Prometheus scrapes."""

import hashlib
import logging
import time
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from ett_service.api.deps import State, key_of, require
from ett_service.api.problems import Problem, declared
from ett_service.api.state import is_loopback
from ett_service.metrics.families import TextFormat, negotiate
from ett_service.storage.engine.errors import StorageUnavailable

log = logging.getLogger(__name__)

router = APIRouter(tags=["metrics"])

_PAGE: dict[str, Any] = {
    "content": {form.value.partition(";")[0]: {"schema": {"type": "string"}} for form in TextFormat}
}

_MOST_SCRAPERS = 16


class Scrapers:
    """Who may scrape while the database is unavailable, by the digest of their keys."""

    def __init__(self) -> None:
        self._digests: dict[bytes, None] = {}

    def admit(self, authorization: str) -> None:
        """Remember a key that was valid."""
        self._digests[_digest(authorization)] = None
        while len(self._digests) > _MOST_SCRAPERS:
            self._digests.pop(next(iter(self._digests)), None)

    def forget(self, authorization: str) -> None:
        """Forget a key that is not valid any more."""
        self._digests.pop(_digest(authorization), None)

    def know(self, authorization: str) -> bool:
        """Whether the key was valid when it was last looked up."""
        return _digest(authorization) in self._digests


def _digest(authorization: str) -> bytes:
    return hashlib.sha256(authorization.encode()).digest()


_OF_A_PROXY = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto",
               "x-real-ip")  # fmt: skip


def _is_of_this_machine(request: Request) -> bool:
    """Whether somebody on this machine asks, and not a proxy on it for somebody elsewhere."""
    if any(name in request.headers for name in _OF_A_PROXY) or request.client is None:
        return False
    return is_loopback(request.client.host) and is_loopback(request.url.hostname or "")


def _may_scrape(request: Request, state: State) -> None:
    if state.open_metrics or (state.local_metrics and _is_of_this_machine(request)):
        return
    scrapers: Scrapers = request.state.scrapers
    authorization = request.headers.get("authorization", "")
    try:
        with state.store.reading() as conn:
            require(key_of(request, conn), "fleet")
    except Problem:
        scrapers.forget(authorization)
        raise
    except StorageUnavailable:
        # This process must be monitored above all while the database is unavailable.
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
    """Return the counters of the whole fleet and the metrics of this process.

    The format is Prometheus' text format or, if `Accept` asks for it, OpenMetrics. The fleet's
    part is the same on every replica, and missing while the database is unavailable. A service
    that listens on loopback needs no key of who asks on its machine by a name of it, and not
    through a proxy that says so; all others need one of scope `fleet`.
    """
    form = negotiate(", ".join(request.headers.getlist("accept")))
    own = request.state.own
    began = time.perf_counter()
    try:
        _, fleet, left_out = request.state.fleet_part.read(form)
    except Exception:  # whatever is wrong with the fleet's part, the process must be visible
        log.exception("The fleet's metrics are missing.", extra={"event": "scrape_trouble"})
        fleet, left_out = b"", 1
    own.count_scrape(time.perf_counter() - began, left_out)
    return Response(fleet + own.text(form), media_type=form.value)
