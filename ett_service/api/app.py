"""The application: its routes, and for every request an id, headers and a line in the log."""

import logging
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager
from typing import TypedDict
from uuid import uuid4

from fastapi import FastAPI
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ett_service.api import docs, health
from ett_service.api.answers import add_headers
from ett_service.api.fleet import advice, changes, estimate, explain, projection, summary, what_if
from ett_service.api.jobs import attempts, productivity, timeline
from ett_service.api.jobs import listing as jobs
from ett_service.api.metrics import scrape
from ett_service.api.problems import add_handlers
from ett_service.api.receivers import deliveries, receivers
from ett_service.api.record import corrections, deletion, events, keys, markers
from ett_service.api.regressions import comparison, mutes, power, triage
from ett_service.api.regressions import listing as regressions
from ett_service.api.state import AppState
from ett_service.ingest.refusals import Code
from ett_service.metrics.own import OwnMetrics
from ett_service.metrics.page import FleetPart
from ett_service.storage.engine import migrate
from ett_service.storage.record import events as stored_events

log = logging.getLogger(__name__)

_ACCEPTABLE_ID = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)


class Access:
    """ASGI middleware. It keeps a request id of the sender that is a plain word."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, and log it when it is over."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request_id = _request_id(scope)
        scope.setdefault("state", {})["request_id"] = request_id
        status = 500
        began = time.perf_counter()

        async def send_marked(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                add_headers(MutableHeaders(scope=message), request_id)
            await send(message)

        try:
            await self.app(scope, receive, send_marked)
        finally:
            seconds = time.perf_counter() - began
            # The route rather than the path: a path holds names that a client made up.
            route = getattr(scope.get("route"), "path", None)
            scope["state"]["own"].count_request(scope["method"], route, status, seconds)
            _write_line(scope, request_id, route, status, seconds)


def _request_id(scope: Scope) -> str:
    sent = Headers(scope=scope).get("x-request-id", "")
    return sent if _ACCEPTABLE_ID.fullmatch(sent) else uuid4().hex


def _write_line(
    scope: Scope, request_id: str, route: str | None, status: int, seconds: float
) -> None:
    log.info(
        "%s %s %d",
        scope["method"],
        route or "-",
        status,
        extra={
            "event": "request",
            "request_id": request_id,
            "method": scope["method"],
            "route": route,
            "status": status,
            "seconds": round(seconds, 6),
            "key": scope["state"].get("key_prefix"),
        },
    )


# A literal path comes before one with a parameter that would match it.
ROUTERS = (
    events.router,
    jobs.router,
    events.job_router,
    timeline.router,
    attempts.router,
    productivity.router,
    summary.router,
    corrections.router,
    deletion.router,
    markers.router,
    explain.router,
    changes.router,
    advice.router,
    projection.router,
    estimate.router,
    what_if.router,
    comparison.router,
    power.router,
    mutes.router,
    regressions.router,
    triage.router,
    keys.router,
    receivers.router,
    deliveries.router,
    scrape.router,
    health.router,
    docs.router,
)

StateOpener = Callable[[], AbstractContextManager[AppState]]


class LifespanState(TypedDict):
    """What routes find in ``request.state``."""

    app: AppState
    own: OwnMetrics
    fleet_part: FleetPart
    scrapers: scrape.Scrapers
    store_epoch: str


def create_app(open_state: StateOpener) -> FastAPI:
    """Put the application together; it opens its state at its start and closes it at its end."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[LifespanState]:
        with open_state() as state:
            with state.store.reading() as conn:
                epoch = stored_events.store_epoch(conn)
            yield _lifespan_state(state, epoch)

    app = Described(
        title="ETT service",
        version="1",
        lifespan=lifespan,
        middleware=[Middleware(Access)],
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    add_handlers(app)
    for router in ROUTERS:
        app.include_router(router)
    return app


class Described(FastAPI):
    """FastAPI with its description completed."""

    def openapi(self) -> dict[str, object]:
        """Describe the routes, once."""
        return docs.describe(self)


def _lifespan_state(state: AppState, store_epoch: str) -> LifespanState:
    revision = migrate.schema_revision()
    return {
        "app": state,
        "own": OwnMetrics(
            version=state.version, revision=revision, codes=Code, now_us=state.now_us()
        ),
        "fleet_part": FleetPart(state.store.reading, cohort_histograms=state.cohort_histograms),
        "scrapers": scrape.Scrapers(),
        "store_epoch": store_epoch,
    }
