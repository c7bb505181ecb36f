"""The slots that a worker looks after, while others of one database look after the rest."""

import os
import secrets
import socket
import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from typing_extensions import override

from ett_service.storage.engine import lease
from ett_service.storage.engine.store import Store
from ett_service.worker.thread import PeriodicThread

LEASE_SECONDS = 6.0
"""After so long others take over the slots of a worker that was killed."""

_RENEWALS = 3  #: in the time that a lease lasts
_TRIES = 12  #: likewise, while others have yet to let go of this worker's share
_TRUSTED = 2 / 3  #: of its time, in which nobody else can have taken a renewed lease


class _Leased(NamedTuple):
    slots: frozenset[int]
    until: float  #: on the monotonic clock


class SlotsThread(PeriodicThread):
    """Leases a fair share of the slots, and renews it; *gained* is called for each new one.

    A worker that is paused or cut off from the database looks after none, well before others
    take them. Nothing depends on that but who reads in vain: each job has a lock of its own.
    """

    def __init__(self, store: Store, gained: Callable[[], None], seconds: float) -> None:
        super().__init__(
            "slots",
            failure="Slots could not be leased or resigned.",
            event="slots_failed",
            retry_seconds=seconds / _TRIES,
        )
        self._store = store
        self._gained = gained
        self._seconds = seconds
        self._holder = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(8)}"
        self._held = _Leased(frozenset(), 0.0)

    @property
    def slots(self) -> frozenset[int]:
        """The slots that are this worker's now."""
        held = self._held
        return held.slots if time.monotonic() < held.until else frozenset()

    @override
    def step(self) -> float:
        until, before = time.monotonic() + self._seconds * _TRUSTED, self._held.slots
        share = self._store.write(
            partial(lease.share_slots, holder=self._holder, seconds=self._seconds)
        )
        self._held = _Leased(share.slots, until)
        if share.slots - before:
            self._gained()
        return self._seconds / (_RENEWALS if share.whole else _TRIES)

    @override
    def finish(self) -> None:
        self._held = _Leased(frozenset(), 0.0)
        self._store.write(partial(lease.leave_slots, holder=self._holder))
