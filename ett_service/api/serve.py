"""Serves the application until told to stop."""

import gc
import logging
import signal
import socket
import sys
from contextlib import AbstractContextManager, closing, nullcontext

import uvicorn

from ett_service.api.app import create_app
from ett_service.api.state import AppState
from ett_service.settings import Settings
from ett_service.storage.engine.store import Store
from ett_service.storage.record.keys import SCOPES, create_key, list_keys

log = logging.getLogger(__name__)

FIRST_PROJECT = "default"

_GRACE_S = 10


def serve(settings: Settings, opened: AbstractContextManager[AppState]) -> None:
    """Serve what is *opened* until SIGINT or SIGTERM; the first key of a new file is printed.

    Raises:
        EttError: The database cannot be opened.
        OSError: The address cannot be listened on.
    """
    # Uvicorn raises the signal that stopped it again when it is done, and SIGTERM would then end
    # the process before the store is closed.
    signal.signal(signal.SIGTERM, _exit)
    with closing(_listening(settings)) as listener, opened as state:
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


def _exit(_signal: int, _frame: object) -> None:
    raise SystemExit(0)


def _listening(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    return socket.create_server((settings.host, settings.port), family=family, backlog=2048)


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
