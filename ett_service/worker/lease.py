"""The lease that lets one of all workers on a database act."""

import logging
import os
import secrets
import socket
import time
from functools import partial
from typing import NamedTuple

from typing_extensions import override

from ett_service.storage.engine import lease
from ett_service.storage.engine.store import Store
from ett_service.worker.thread import PeriodicThread

log = logging.getLogger(__name__)

_RENEWALS = 3  #: by the holder, in the time that a lease lasts
_TRIES = 15  #: by the others, so that it is taken soon after it ran out
_TRUSTED = 2 / 3  #: of its time, in which nobody else can have taken a renewed lease


class _Held(NamedTuple):
    epoch: int
    until: float  #: on the monotonic clock


class LeaseThread(PeriodicThread):
    """Takes the lease *name* as soon as it is free, and renews it.

    A database that does not answer ends the right to act well before the lease runs out, by a
    clock that nobody sets.
    """

    def __init__(self, store: Store, name: str, seconds: float) -> None:
        super().__init__(
            "lease",
            failure="The lease could not be taken or resigned.",
            event="lease_failed",
            retry_seconds=seconds / _TRIES,
        )
        self._store = store
        self._lease = name
        self._seconds = seconds
        # Unique to this start: a process that starts again gets an epoch of its own.
        self._holder = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(8)}"
        self._held: _Held | None = None

    @property
    def epoch(self) -> int | None:
        """The epoch to write under; None while another holds the lease, or nobody knows."""
        held = self._held
        return held.epoch if held is not None and time.monotonic() < held.until else None

    def renew(self) -> None:
        """Take the lease, or renew it."""
        until = time.monotonic() + self._seconds * _TRUSTED
        before = self._held
        epoch = self._store.write(
            partial(lease.take, name=self._lease, holder=self._holder, seconds=self._seconds)
        )
        self._held = None if epoch is None else _Held(epoch, until)
        if epoch is not None and (before is None or before.epoch != epoch):
            log.info(
                "Took the lease %s, epoch %d.",
                self._lease,
                epoch,
                extra={"event": "lease_taken", "lease": self._lease, "epoch": epoch},
            )

    def resign(self) -> None:
        """Let another worker take the lease at once."""
        held, self._held = self._held, None
        if held is not None:
            self._store.write(partial(lease.resign, name=self._lease, epoch=held.epoch))

    @override
    def step(self) -> float:
        self.renew()
        return self._seconds / (_TRIES if self._held is None else _RENEWALS)

    @override
    def finish(self) -> None:
        self.resign()
