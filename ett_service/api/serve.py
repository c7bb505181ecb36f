"""Serves the application until told to stop."""

import gc
import logging
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from importlib.metadata import version
from ipaddress import ip_address
from typing import Protocol

import uvicorn

from ett_service.api.app import create_app
from ett_service.api.state import AppState, Notifications, Waker
from ett_service.core.intervals import SECOND_US
from ett_service.ingest.limits import Limits
from ett_service.notifications.guard import Allowed
from ett_service.notifications.routing import Directory
from ett_service.notifications.sender import Sender, Sending
from ett_service.settings import Settings
from ett_service.storage.engine import migrate, sqlite
from ett_service.storage.engine.seal import Keyring
from ett_service.storage.engine.store import Store, open_store
from ett_service.storage.record.keys import SCOPES, create_key, list_keys

log = logging.getLogger(__name__)

FIRST_PROJECT = "default"

_GRACE_S = 10


class Worker(Waker, Protocol):
    """A worker that runs inside this process."""

    def start(self) -> None:
        """Start, in a thread of its own."""

    def stop(self) -> None:
        """Stop after the jobs in progress, and wait for that."""


MakeWorker = Callable[[Settings, Store], Worker]


def serve(settings: Settings, make_worker: MakeWorker) -> None:
    """Serve until SIGINT or SIGTERM, with a worker inside where the settings ask for one.

    A SQLite file that does not exist is created. If it holds no key, one is made and printed.

    Raises:
        EttError: The database cannot be opened.
        OSError: The address cannot be listened on.
    """
    # Uvicorn raises the signal that stopped it again when it is done, and SIGTERM would then end
    # the process before the store is closed.
    signal.signal(signal.SIGTERM, _exit)
    with closing(_listening(settings)) as listener, _opened(settings, make_worker) as state:
        config = uvicorn.Config(
            create_app(lambda: nullcontext(state)),
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=_GRACE_S,
        )
        host, port = listener.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        log.info("Serving on http://%s:%d", shown, port, extra={"event": "serving"})
        _print_first_key(state.store, state.now_us())
        settle()
        uvicorn.Server(config).run(sockets=[listener])


def settle() -> None:
    """Take what is in memory by now out of garbage collection.

    It stays as long as the process; collecting it delayed single requests by 70 ms.
    """
    gc.collect()
    gc.freeze()


def notifications(settings: Settings) -> Notifications:
    """Return the receivers of regression messages by these settings, and what sends to them."""
    alerting = settings.alerting
    sending = Sending(
        connect_seconds=alerting.connect_seconds,
        total_seconds=alerting.total_seconds,
        resend_us=round(alerting.resend_seconds * SECOND_US),
        allowed=Allowed.of(settings.webhook_allow),
    )
    keyring = Keyring(settings.secret_key.get_secret_value(), settings.database_url)
    return Notifications(
        directory=Directory(settings.told, keyring),
        sender=lambda: Sender(sending),
        public_url=settings.public_url,
    )


def now_us() -> int:
    """Read the wall clock, in microseconds since the Unix epoch."""
    return time.time_ns() // 1000


def _exit(_signal: int, _frame: object) -> None:
    raise SystemExit(0)


def _listening(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    return socket.create_server((settings.host, settings.port), family=family, backlog=2048)


@contextmanager
def _opened(settings: Settings, make_worker: MakeWorker) -> Iterator[AppState]:
    _make_file(settings.database_url)
    with closing(open_store(settings.database_url)) as store:
        worker = make_worker(settings, store) if settings.embedded_worker else None
        state = AppState(
            store=store,
            now_us=now_us,
            limits=_limits(settings),
            worker=worker,
            version=version("ett-service"),
            open_metrics=settings.open_metrics or _is_loopback(settings.host),
            cohort_histograms=settings.metrics.cohort_histograms,
            body_deadline_s=settings.body_deadline_seconds,
            economy=settings.economy,
            sla=settings.sla,
            notifications=notifications(settings),
        )
        if worker is None:
            yield state
            return
        worker.start()
        try:
            yield state
        finally:
            worker.stop()


def _limits(settings: Settings) -> Limits:
    return Limits(
        max_body_bytes=settings.max_body_bytes,
        max_inflated_bytes=settings.max_inflated_bytes,
        max_batch_events=settings.max_batch_events,
        max_event_bytes=settings.max_event_bytes,
        max_depth=settings.max_depth,
        max_future_us=settings.max_future_seconds * 1_000_000,
    )


def _make_file(url: str) -> None:
    address = migrate.address(url)
    if address.get_backend_name() == "sqlite" and not sqlite.path_of(address).exists():
        migrate.migrate(url)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _print_first_key(store: Store, at_us: int) -> None:
    """Print a key of every scope, if this embedded database has no key yet."""
    if store.dialect != "sqlite":
        return
    with store.reading() as conn:
        if list_keys(conn):
            return
    key = store.write(
        lambda conn: create_key(
            conn, project=FIRST_PROJECT, name="first key", scopes=SCOPES, now_us=at_us
        )
    )
    log.info("Standard output shows the first key, only this once. It has every scope.")
    sys.stdout.write(key + "\n")
    sys.stdout.flush()
