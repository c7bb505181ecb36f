"""The application: its routes and what they find in the state of a request."""

import asyncio
import gc
import logging
import math
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator
from contextlib import (
    AbstractContextManager,
    asynccontextmanager,
    closing,
    nullcontext,
    suppress,
)
from functools import partial
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from threading import Event
from types import FrameType
from typing import Any, TypedDict

import uvicorn
from fastapi import APIRouter, FastAPI
from starlette.middleware import Middleware

from ett_service.api import docs, fleet, health, processes
from ett_service.api.access import Access, OwnMetrics, UsageCounts, UsageThread
from ett_service.api.jobs import attempts, productivity, timeline
from ett_service.api.jobs import listing as jobs
from ett_service.api.load import connections
from ett_service.api.load.admission import Admission
from ett_service.api.load.overload import Admitted, Reads
from ett_service.api.metrics import scrape
from ett_service.api.problems import add_handlers
from ett_service.api.receivers import deliveries, receivers
from ett_service.api.record import audit, corrections, events, keys, markers, traces, trainer_status
from ett_service.api.regressions import causes, comparison, confirmation, mutes, power, triage
from ett_service.api.regressions import listing as regressions
from ett_service.api.start import hand_out_first_key, record_settings
from ett_service.api.state import AppState, is_loopback
from ett_service.ingest.refusals import Code
from ett_service.metrics.page import FleetPart
from ett_service.settings import Settings
from ett_service.storage.engine import migrate
from ett_service.storage.record.events import StoreEpoch
from ett_service.storage.record.keys import RecentKeys, list_keys


def _questions() -> list[APIRouter]:
    """Return the routers of all questions about the fleet: a new one only needs its module."""
    modules = [
        import_module(entry.name) for entry in iter_modules(fleet.__path__, f"{fleet.__name__}.")
    ]
    routers = (module.router for module in modules if hasattr(module, "router"))
    return list({id(each): each for each in routers}.values())  # two modules may share one


# A literal path comes before one with a parameter that would match it.
ROUTERS = (
    events.router,
    traces.router,
    trainer_status.router,
    jobs.router,
    events.job_router,
    timeline.router,
    attempts.router,
    productivity.router,
    attempts.id_router,
    *_questions(),
    corrections.router,
    corrections.deletion_router,
    markers.router,
    comparison.router,
    power.router,
    causes.router,
    triage.tuning_router,
    mutes.router,
    regressions.router,
    triage.router,
    confirmation.router,
    keys.router,
    keys.usage_router,
    audit.router,
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
    admission: Admission
    fleet_part: FleetPart
    scrapers: scrape.Scrapers
    store_epoch: StoreEpoch
    recent_keys: RecentKeys
    usage: UsageCounts


def create_app(
    open_state: StateOpener, pages: Iterable[APIRouter] = (), usage: UsageCounts | None = None
) -> FastAPI:
    """Put the application together; it opens its state at its start and closes it at its end.

    *pages* are the routers of what people read; they come last. What keys send is counted in
    *usage*, for a caller who writes it.
    """

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[LifespanState]:
        with open_state() as state:
            epoch = StoreEpoch(state.now_us)
            with state.store.reading() as conn:
                epoch.of(conn)
            yield _lifespan_state(state, epoch, usage or UsageCounts())

    app = Described(
        title="ETT service",
        version="1",
        lifespan=lifespan,
        middleware=[Middleware(Access), Middleware(Admitted), Middleware(Reads)],
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    routers = (*ROUTERS, *pages)
    add_handlers(app, routers)
    for router in routers:
        app.include_router(router)
    return app


class Described(FastAPI):
    """FastAPI with its description completed."""

    def openapi(self) -> dict[str, object]:
        """Describe the routes, once."""
        return docs.describe(self)


def _lifespan_state(state: AppState, store_epoch: StoreEpoch, usage: UsageCounts) -> LifespanState:
    revision = migrate.schema_revision()
    own = OwnMetrics(version=state.version, revision=revision, codes=Code, now_us=state.now_us())
    admission = Admission(state.capacities, own.count_refused)
    own.watch(admission)
    return {
        "app": state,
        "own": own,
        "admission": admission,
        "fleet_part": FleetPart(state.store.reading, cohort_histograms=state.cohort_histograms),
        "scrapers": scrape.Scrapers(),
        "store_epoch": store_epoch,
        "recent_keys": RecentKeys(),
        "usage": usage,
    }


log = logging.getLogger(__name__)

_GRACE_S = 10

_SILENT_MS = 60_000

_TURN_S = 0.0005
"""So long a thread computes while others wait; with Python's 5 ms a large read delayed each batch
by 5 ms at every one of its hand-overs."""


def serve(
    settings: Settings,
    opened: AbstractContextManager[AppState],
    pages: Collection[APIRouter] = (),
    first_key: Path | None = None,
    n_processes: int = 1,
) -> None:
    """Serve what is *opened* until SIGINT or SIGTERM, in so many processes over one socket.

    The first key of a new SQLite file is written to the file *first_key*, or else printed. On
    loopback the log of one process has a link that signs in once.

    Raises:
        EttError: The database cannot be opened.
        OSError: The address cannot be listened on.
        SystemExit: One of several processes failed.
    """
    with closing(_listening(settings)) as listener:
        if n_processes == 1:
            _serve(settings, listener, opened, pages, first_key)
            return
        _log_address(listener)
        processes.run(n_processes, partial(_serve, settings, listener, opened, pages, alone=False))


def _serve(
    settings: Settings,
    listener: socket.socket,
    opened: AbstractContextManager[AppState],
    pages: Collection[APIRouter],
    first_key: Path | None = None,
    *,
    alone: bool = True,
) -> None:
    ended = Event()
    # Uvicorn raises the signal that stopped it again when it is done, and SIGTERM would then end
    # the process before the store is closed.
    signal.signal(signal.SIGTERM, partial(_exit, ended))
    usage = UsageCounts()
    with opened as state:
        connections.write_no_line_a_request()
        limits = connections.affordable(state.connections)
        config = uvicorn.Config(
            create_app(lambda: nullcontext(state), pages, usage),
            http=connections.bounded_protocol(limits),
            ws="none",
            timeout_keep_alive=math.ceil(limits.idle_s),
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=_GRACE_S,
        )
        record_settings(state.store, settings, state.now_us())
        if alone:
            address = _log_address(listener)
            hand_out_first_key(state.store, state.now_us(), first_key, address)
            if pages and is_loopback(listener.getsockname()[0]):
                _log_sign_in(state, address)
        settle()
        sys.setswitchinterval(_TURN_S)
        with UsageThread(usage, state.store, state.now_us):
            _Server(config, state, ended).run(sockets=[listener])


class _Server(uvicorn.Server):
    """Tells what streams to browsers that the end has come."""

    def __init__(self, config: uvicorn.Config, state: AppState, ended: Event) -> None:
        super().__init__(config)
        self._stopping = state.stopping
        self._ended = ended

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop, as uvicorn does."""
        self._stopping.set()
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop, as uvicorn does; who has connected by now is answered and not reset."""
        listeners = sockets or []
        connected = [each for listener in listeners for each in _connected(listener)]
        for server in self.servers:
            server.close()
        loop = asyncio.get_running_loop()
        for each in connected:
            await loop.connect_accepted_socket(self._protocol, each)
        await super().shutdown(sockets)

    def _protocol(self) -> asyncio.Protocol:
        protocol: Any = self.config.http_protocol_class
        made: asyncio.Protocol = protocol(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return made

    async def on_tick(self, counter: int) -> bool:
        """Whether to stop: also for a signal that came before uvicorn heeded signals."""
        return await super().on_tick(counter) or self._ended.is_set()


def _connected(listener: socket.socket) -> Iterator[socket.socket]:
    """Yield who has connected and waits to be taken in."""
    with suppress(OSError):  # there is none, or no descriptor for one
        while True:
            yield listener.accept()[0]


def settle() -> None:
    """Take what is in memory by now out of garbage collection.

    It stays as long as the process; collecting it delayed single requests by 70 ms.
    """
    gc.collect()
    gc.freeze()


def _exit(ended: Event, _signal: int, _frame: object) -> None:
    ended.set()  # what is raised inside of a callback of the garbage collector is lost
    raise SystemExit(0)


def _listening(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.create_server((settings.host, settings.port), family=family, backlog=2048)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        # Connections inherit it. The system drops those whose client takes nothing of what is left.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _SILENT_MS)
    return listener


def _log_address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    log.info("Serving on %s", address, extra={"event": "serving"})
    return address


def _log_sign_in(state: AppState, address: str) -> None:
    """Log a link that signs in whoever can read this log, once and on this machine alone."""
    with state.store.reading() as conn:
        standing = [key for key in list_keys(conn) if key.stands(state.now_us())]
    if standing:
        owner = max(standing, key=lambda key: len(key.scopes))  # of several the oldest
        ticket = state.sessions.ticket(owner.prefix)
        extra = {"event": "sign_in"}
        log.info("Open %s/sign-in?ticket=%s in a browser, once.", address, ticket, extra=extra)
