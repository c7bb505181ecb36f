"""The application: its routes and what they find in the state of a request."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager
from typing import TypedDict

from fastapi import FastAPI
from starlette.middleware import Middleware

from ett_service.api import docs, health
from ett_service.api.access import Access, OwnMetrics
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
from ett_service.metrics.page import FleetPart
from ett_service.storage.engine import migrate
from ett_service.storage.record import events as stored_events

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
