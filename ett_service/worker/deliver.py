"""Sends what the outbox holds: up to 16 deliveries at once, and to each receiver one at a time."""

import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from sqlalchemy import Connection

from ett_service.core.errors import EttError
from ett_service.core.intervals import SECOND_US
from ett_service.notifications.notice import from_json
from ett_service.notifications.routing import Directory
from ett_service.notifications.schedule import Schedule
from ett_service.notifications.sender import Outcome, Sender, repeats
from ett_service.storage.engine import lease
from ett_service.storage.engine.errors import StorageUnavailable
from ett_service.storage.engine.store import Store
from ett_service.storage.receivers import deliveries
from ett_service.storage.receivers.deliveries import Claim, TryResult
from ett_service.storage.receivers.outbox import DeliveryState

log = logging.getLogger(__name__)

AT_ONCE = 16

Settle: TypeAlias = Callable[[int], TryResult]
"""From an instant to what follows from a try that ended then."""

_POLL_SECONDS = 0.5
_AFTER_TROUBLE_SECONDS = 1.0
_TIMES_RECORDED = 30  #: while the database is away
#: Beyond the longest request: what was sent is still to be recorded.
_CLAIM_MARGIN_US = 45 * SECOND_US


class DeliveryThread:
    """Goes on in a thread of its own, with more of them while receivers are slow.

    Several workers on one database share the deliveries, by the *clock* of the database. One that
    dies leaves its own to the others once their claims have run out. In the end what is on its way
    is waited for up to *patience_seconds*.
    """

    def __init__(
        self,
        store: Store,
        directory: Directory,
        sender: Sender,
        schedule: Schedule | None = None,
        *,
        clock: Callable[[Connection], int] = lease.now_us,
        patience_seconds: float = 5.0,
    ) -> None:
        self._store = store
        self._directory = directory
        self._sender = sender
        self._schedule = schedule or Schedule()
        self._clock = clock
        self._patience_seconds = patience_seconds
        self._longest_us = round(sender.longest_seconds * SECOND_US)
        self._on_their_way: list[threading.Thread] = []
        self._awake = threading.Event()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin the thread."""
        self._thread = threading.Thread(target=self._run, name="ett-delivery", daemon=True)
        self._thread.start()

    def stop_soon(self) -> None:
        """Let the thread end after what is on its way."""
        self._stopped.set()
        self._awake.set()

    def join(self) -> None:
        """Wait for the end of the thread, and a little for what is on its way.

        What takes longer is sent again once its claim has run out.
        """
        if self._thread is not None:
            self._thread.join()
        give_up = time.monotonic() + self._patience_seconds
        for one in self._on_their_way:
            one.join(max(give_up - time.monotonic(), 0))

    def pass_over(self) -> list[threading.Thread]:
        """Begin to send what is due, each in a thread of its own, and return these."""
        self._on_their_way = [one for one in self._on_their_way if one.is_alive()]
        most = AT_ONCE - len(self._on_their_way)
        with self._store.reading() as conn:
            now_us, ready_us = self._clock(conn), deliveries.ready_us(conn)
        if ready_us is None or ready_us > now_us or not most:
            return []
        until_us = now_us + self._longest_us + _CLAIM_MARGIN_US
        claimed = self._store.write(
            partial(deliveries.claim, now_us=now_us, until_us=until_us, most=most)
        )
        begun = [
            threading.Thread(
                target=self._deliver, args=(one,), name=f"ett-delivery {one.receiver}", daemon=True
            )
            for one in claimed
        ]
        for thread in begun:
            thread.start()
        self._on_their_way += begun
        return begun

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._awake.clear()
            try:
                begun = self.pass_over()
            except Exception:  # the thread outlives all trouble: log it, wait, go on
                log.exception("Nothing could be sent.", extra={"event": "delivering_trouble"})
                self._stopped.wait(_AFTER_TROUBLE_SECONDS)
                continue
            if not begun:
                self._awake.wait(_POLL_SECONDS)

    def _deliver(self, claimed: Claim) -> None:
        try:
            settle = self._tried(claimed)
            if settle is not None:
                _tell(claimed, self._recorded(claimed, settle))
        except Exception:  # its claim runs out, and it is tried again
            log.exception(
                "A delivery could not be recorded.",
                extra={"event": "delivery_unrecorded", "receiver": claimed.receiver},
            )
        self._awake.set()

    def _tried(self, claimed: Claim) -> Settle | None:
        """Send it and return what settles it; None where it is too late to send it.

        That is so after a pause of the process: somebody else may be at it by now.
        """
        try:
            with self._store.reading() as conn:
                now_us = self._clock(conn)
                receiver = self._directory.find(conn, claimed.owner, claimed.receiver, now_us)
            if now_us + self._longest_us > claimed.until_us:
                return None
            if receiver is None:
                gone = Outcome(None, "There is no such receiver any more.")
                return partial(self._schedule.given_up, claimed, gone)
            notice = from_json(claimed.body)
            outcome = self._sender.send(receiver, claimed.id, notice, now_us)
            is_repeated = repeats(receiver, notice)
        except StorageUnavailable:
            raise
        except EttError as error:
            outcome, is_repeated = Outcome(None, str(error)), False
        except Exception as error:
            log.exception("A delivery could not be made.", extra={"event": "delivery_trouble"})
            outcome, is_repeated = Outcome(None, f"It ended in {type(error).__name__}."), False
        return partial(self._schedule.settle, claimed, outcome, is_repeated=is_repeated)

    def _recorded(self, claimed: Claim, settle: Settle) -> TryResult:
        def work(conn: Connection) -> TryResult:
            now_us = self._clock(conn)
            settled = settle(now_us)
            deliveries.record(conn, claimed, settled, now_us)
            return settled

        for _ in range(_TIMES_RECORDED):
            try:
                return self._store.write(work)
            except StorageUnavailable:
                if self._stopped.wait(_AFTER_TROUBLE_SECONDS):
                    break
        return self._store.write(work)


def _tell(claimed: Claim, settled: TryResult) -> None:
    """Log what did not arrive, without the address: that of some receivers is a secret."""
    if settled.done in {DeliveryState.SENT, DeliveryState.REPEATING}:
        return
    log.log(
        logging.ERROR if settled.done is DeliveryState.DEAD else logging.WARNING,
        "%s was not told (%s, try %d)%s",
        claimed.receiver,
        settled.tried.status or settled.tried.said,
        settled.tries,
        ", and is given up." if settled.done is DeliveryState.DEAD else "; it is tried again.",
        extra={
            "event": "delivery_dead" if settled.done is DeliveryState.DEAD else "delivery_failed",
            "receiver": claimed.receiver,
            "delivery": claimed.id,
        },
    )
