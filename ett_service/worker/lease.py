"""Keeps a lease, so that of all workers on a database one acts."""

import logging
import os
import secrets
import socket
import threading
import time
from functools import partial
from typing import NamedTuple

from ett_service.storage.engine import lease
from ett_service.storage.engine.store import Store

log = logging.getLogger(__name__)

_RENEWALS = 3  #: in the time that a lease lasts, of who has it
_TRIES = 15  #: of who has not, so that it is taken soon after it ran out
_TRUSTED = 2 / 3  #: for that part of its time nobody can have taken what was renewed


class _Held(NamedTuple):
    epoch: int
    until: float  #: on the monotonic clock


class LeaseThread:
    """Takes the lease *name* as soon as it is free, and renews it in a thread of its own.

    A database that does not answer ends the right to act well before the lease runs out, by a
    clock that nobody sets.
    """

    def __init__(self, store: Store, name: str, seconds: float) -> None:
        self._store = store
        self._name = name
        self._seconds = seconds
        # Of this start alone: a process that starts again gets an epoch of its own.
        self._holder = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(8)}"
        self._held: _Held | None = None
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def epoch(self) -> int | None:
        """The epoch to write under; None while another leads, or nobody knows."""
        held = self._held
        return held.epoch if held is not None and time.monotonic() < held.until else None

    def start(self) -> None:
        """Begin the thread."""
        self._thread = threading.Thread(target=self._run, name="ett-lease", daemon=True)
        self._thread.start()

    def stop_soon(self) -> None:
        """Let the thread end, and the lease with it."""
        self._stopped.set()

    def join(self) -> None:
        """Wait until another may lead."""
        if self._thread is not None:
            self._thread.join()

    def renew(self) -> None:
        """Take the lease, or renew it."""
        until = time.monotonic() + self._seconds * _TRUSTED
        before = self._held
        epoch = self._store.write(
            partial(lease.take, name=self._name, holder=self._holder, seconds=self._seconds)
        )
        self._held = None if epoch is None else _Held(epoch, until)
        if epoch is not None and (before is None or before.epoch != epoch):
            log.info(
                "Leading as %s, epoch %d.",
                self._name,
                epoch,
                extra={"event": "lease_taken", "lease": self._name, "epoch": epoch},
            )

    def resign(self) -> None:
        """Let another take it at once."""
        held, self._held = self._held, None
        if held is not None:
            self._store.write(partial(lease.resign, name=self._name, epoch=held.epoch))

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self.renew()
            except Exception:  # the thread outlives all trouble: log it, wait, go on
                log.exception("No lease could be taken.", extra={"event": "lease_trouble"})
            self._stopped.wait(self._seconds / (_TRIES if self._held is None else _RENEWALS))
        try:
            self.resign()
        except Exception:  # the others wait until it runs out
            log.exception("The lease could not be let go.", extra={"event": "lease_trouble"})
