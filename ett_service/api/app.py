"""The application: routes, refusals and what every request gets, put together."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager
from typing import TypedDict

from fastapi import FastAPI
from starlette.middleware import Middleware

from ett_service.api import (
    advice,
    attempts,
    changes,
    comparison,
    corrections,
    deletion,
    detection_power,
    docs,
    estimate,
    events,
    explain,
    fleet,
    health,
    job_events,
    jobs,
    keys,
    markers,
    metrics,
    mutes,
    productivity,
    projection,
    receiver_deliveries,
    receivers,
    regression_acts,
    regressions,
    timeline,
    what_if,
)
from ett_service.api.access import Access
from ett_service.api.description import describe
from ett_service.api.parts import Parts
from ett_service.api.refusals import add_handlers
from ett_service.ingest.refusals import Code
from ett_service.metrics.own import OwnMetrics
from ett_service.metrics.page import FleetPart
from ett_service.storage.engine import migrate
from ett_service.storage.record import events as stored_events

ROUTERS = (
    events.router,
    jobs.router,
    job_events.router,
    timeline.router,
    attempts.router,
    productivity.router,
    fleet.router,
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
    detection_power.router,
    mutes.router,
    regressions.router,
    regression_acts.router,
    keys.router,
    receivers.router,
    receiver_deliveries.router,
    metrics.router,
    health.router,
    docs.router,
)

PartsOpener = Callable[[], AbstractContextManager[Parts]]


class State(TypedDict):
    """What routes find in ``request.state``."""

    parts: Parts
    own: OwnMetrics
    fleet_part: FleetPart
    scrapers: metrics.Scrapers
    store_epoch: str


def create_app(open_parts: PartsOpener) -> FastAPI:
    """Put the application together; it opens its parts at its start and closes them at its end."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[State]:
        with open_parts() as parts:
            with parts.store.reading() as conn:
                epoch = stored_events.store_epoch(conn)
            yield _state(parts, epoch)

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
        return describe(self)


def _state(parts: Parts, store_epoch: str) -> State:
    revision = migrate.schema_revision()
    return {
        "parts": parts,
        "own": OwnMetrics(
            version=parts.version, revision=revision, codes=Code, now_us=parts.now_us()
        ),
        "fleet_part": FleetPart(parts.store.reading, cohort_histograms=parts.cohort_histograms),
        "scrapers": metrics.Scrapers(),
        "store_epoch": store_epoch,
    }
