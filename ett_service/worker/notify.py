"""Notification: pending notices go into the outbox, and deliveries are sent from it.

Up to 16 requests are under way at once, and one at a time to each receiver.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

from sqlalchemy import Connection
from typing_extensions import override

from ett_service.core.errors import EttError
from ett_service.core.intervals import SECOND_US
from ett_service.core.regressions.finding import Resolution, State
from ett_service.notifications.notice import Notice, Status, from_json, to_json
from ett_service.notifications.routing import Directory, Schedule, targets
from ett_service.notifications.sender import Outcome, Sender, is_repeated
from ett_service.storage.engine import lease
from ett_service.storage.engine.errors import StorageUnavailable
from ett_service.storage.engine.seal import NoSecretKey
from ett_service.storage.engine.store import Store
from ett_service.storage.receivers import deliveries
from ett_service.storage.receivers import receivers as stored
from ett_service.storage.receivers.deliveries import Claim, DeliveryState, Message, TryResult
from ett_service.storage.regressions import notices
from ett_service.storage.regressions.findings import Regression
from ett_service.storage.retention import prune_deliveries
from ett_service.worker.thread import PeriodicThread


@dataclass(frozen=True, slots=True)
class Audience:
    """Who is notified, and where people reach the server."""

    directory: Directory = field(default_factory=Directory)
    public_url: str = ""
    remind_us: int = 0  #: notify again of what nobody acknowledged for so long; 0 for never


def pending(conn: Connection, audience: Audience, now_us: int) -> list[Regression]:
    """Read the regressions that receivers are to be notified of, unless they are muted.

    Those are changes that receivers do not know, and reminders of what nobody acknowledges.
    Changes while a regression is muted are notified once the mute ends, as they are by then.
    """
    owed = notices.unnotified(conn)
    if audience.remind_us:
        owed += notices.unacknowledged(conn, now_us - audience.remind_us)
    projects = {regression.project_id for regression in owed}
    muted = {project_id: notices.muted(conn, project_id, now_us) for project_id in projects}
    return [
        regression
        for regression in owed
        if not any(mute.covers(regression.series, now_us) for mute in muted[regression.project_id])
    ]


def enqueue(conn: Connection, audience: Audience, now_us: int) -> None:
    """Put pending notices into the outbox, in the transaction of what led to them."""
    regressions = pending(conn, audience, now_us)
    receivers = audience.directory.all(conn, now_us) if regressions else []
    for regression in regressions:
        if regression.is_news:
            notice = _notice(regression, audience.public_url, now_us)
            body = to_json(notice)
            messages = [
                Message(receiver.owner, receiver.name, body)
                for receiver in targets(notice, receivers)
            ]
            deliveries.put(
                conn, notice.project_id, notice.fingerprint, notice.version, messages, now_us
            )
        notices.mark_notified(conn, regression, now_us)


def _notice(regression: Regression, public_url: str, now_us: int) -> Notice:
    standing = regression.standing
    assert standing.firing_us is not None
    is_firing = standing.state is State.FIRING and not regression.is_quiet
    return Notice(
        project_id=regression.project_id,
        project=regression.project,
        id=regression.id,
        fingerprint=regression.series.fingerprint,
        version=notices.version_to_notify(regression),
        status=Status.FIRING if is_firing else Status.RESOLVED,
        severity=regression.severity,
        starts_us=standing.firing_us,
        ends_us=None if is_firing else standing.resolved_us or now_us,
        finding=standing.finding,
        attribution=regression.attribution,
        public_url=public_url,
        remark=_remark(regression),
    )


def _remark(regression: Regression) -> str:
    """Return why a notice is sent again, or why the regression is over."""
    standing = regression.standing
    if regression.is_quiet:
        return "Somebody called it noise: nothing more is sent about it."
    if standing.state is State.FIRING:
        is_known = regression.notified_version == standing.version
        return "A reminder: nobody has acknowledged it yet." if is_known else ""
    if standing.ended is Resolution.MERGED:
        return f"{regression.merged_into} reports the same change from now on."
    return _REMARKS.get(standing.ended, "")


_REMARKS: Mapping[Resolution | None, str] = {
    Resolution.ACCEPTED: "Somebody accepted the present level.",
    Resolution.GONE: "Nothing of its cohort has run for so long as is searched.",
}


log = logging.getLogger(__name__)

Settle: TypeAlias = Callable[[int], TryResult]
"""From the instant at which a try ended to its consequences."""

_MOST_AT_ONCE = 16
_POLL_SECONDS = 0.5
_PRUNE_SECONDS = 3_600.0
_MOST_PRUNED = 500  #: in one transaction
_RECORD_RETRY_SECONDS = 1.0  #: while the database is away
_RECORD_RETRIES = 30
#: A claim lasts longer than the longest request, so that its outcome can still be recorded.
_CLAIM_MARGIN_US = 45 * SECOND_US


class DeliveryThread(PeriodicThread):
    """Sends due deliveries, each in a thread of its own.

    Several workers on one database share the deliveries, by the *clock* of the database. If one
    dies, the others take its deliveries once their claims expire. At the end, requests in flight
    get *patience_seconds* to finish. Deliveries that are over are removed after *keep_us*, where
    it is not 0.
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
        keep_us: int = 0,
    ) -> None:
        super().__init__(
            "delivery", failure="No delivery could be started.", event="deliveries_failed"
        )
        self._store = store
        self._directory = directory
        self._sender = sender
        self._schedule = schedule or Schedule()
        self._clock = clock
        self._patience_seconds = patience_seconds
        self._keep_us = keep_us
        self._prune_at = 0.0  #: on the monotonic clock
        self._longest_us = round(sender.longest_seconds * SECOND_US)
        self._in_flight: list[threading.Thread] = []

    @override
    def start(self) -> None:
        """Begin the thread, once no secret is sealed with a former key any more."""
        self._reseal()
        super().start()

    @override
    def step(self) -> float:
        self._prune()
        return 0.0 if self.run_once() else _POLL_SECONDS

    def _reseal(self) -> None:
        try:
            with self._store.reading() as conn:
                if not stored.listing(conn):
                    return
            resealed = self._store.write(self._directory.reseal)
        except (NoSecretKey, StorageUnavailable) as error:
            log.warning("Secrets were not sealed anew: %s", error, extra={"event": "not_resealed"})
            return
        if resealed.receivers:
            log.info(
                "Sealed the secrets of %d receivers with the newest key; no other is needed.",
                resealed.receivers,
                extra={"event": "resealed"},
            )
        if resealed.unreadable:
            names = ", ".join(resealed.unreadable)
            log.warning("No key reads the secrets of: %s.", names, extra={"event": "unreadable"})

    def _prune(self) -> None:
        if not self._keep_us or time.monotonic() < self._prune_at:
            return
        self._prune_at = time.monotonic() + _PRUNE_SECONDS
        with self._store.reading() as conn:
            before_us = self._clock(conn) - self._keep_us
        work = partial(prune_deliveries, before_us=before_us, most=_MOST_PRUNED)
        while self._store.write(work) == _MOST_PRUNED and not self.stopping.is_set():
            pass

    @override
    def join(self, seconds: float | None = None) -> None:
        """Wait for the thread, and a little for requests in flight.

        A request that takes longer is sent again once its claim has expired.
        """
        super().join(seconds)
        give_up = time.monotonic() + self._patience_seconds
        for thread in self._in_flight:
            thread.join(max(give_up - time.monotonic(), 0))

    def run_once(self) -> list[threading.Thread]:
        """Start to send due deliveries, and return their threads."""
        self._in_flight = [thread for thread in self._in_flight if thread.is_alive()]
        most = _MOST_AT_ONCE - len(self._in_flight)
        with self._store.reading() as conn:
            now_us, ready_us = self._clock(conn), deliveries.ready_us(conn)
        if ready_us is None or ready_us > now_us or not most:
            return []
        until_us = now_us + self._longest_us + _CLAIM_MARGIN_US
        claims = self._store.write(
            partial(deliveries.claim, now_us=now_us, until_us=until_us, most=most)
        )
        started = [
            threading.Thread(
                target=self._deliver, args=(claim,), name=f"ett-delivery {claim.receiver}",
                daemon=True,
            )
            for claim in claims
        ]  # fmt: skip
        for thread in started:
            thread.start()
        self._in_flight += started
        return started

    def _deliver(self, claim: Claim) -> None:
        try:
            settle = self._send(claim)
            if settle is not None:
                _log_failure(claim, self._record(claim, settle))
        except Exception:  # the claim expires, and the delivery is tried again
            log.exception(
                "A delivery could not be recorded.",
                extra={"event": "delivery_unrecorded", "receiver": claim.receiver},
            )
        self.wake()

    def _send(self, claim: Claim) -> Settle | None:
        """Send a delivery and return what settles it; None if its claim may expire meanwhile.

        That happens after a pause of the process: another worker may be sending it by now.
        """
        try:
            with self._store.reading() as conn:
                now_us = self._clock(conn)
                receiver = self._directory.find(conn, claim.owner, claim.receiver, now_us)
            if now_us + self._longest_us > claim.until_us:
                return None
            if receiver is None:
                removed = Outcome(None, "The receiver no longer exists.")
                return partial(self._schedule.give_up, claim, removed)
            notice = from_json(claim.body)
            outcome = self._sender.send(receiver, claim.id, notice, now_us)
            repeated = is_repeated(receiver, notice)
        except StorageUnavailable:
            raise
        except EttError as error:
            outcome, repeated = Outcome(None, str(error)), False
        except Exception as error:  # logged, and a failed try: it must not be made for ever
            log.exception("A delivery could not be made.", extra={"event": "delivery_error"})
            outcome, repeated = Outcome(None, f"It failed with {type(error).__name__}."), False
        return partial(self._schedule.settle, claim, outcome, is_repeated=repeated)

    def _record(self, claim: Claim, settle: Settle) -> TryResult:
        def work(conn: Connection) -> TryResult:
            now_us = self._clock(conn)
            result = settle(now_us)
            deliveries.record(conn, claim, result, now_us)
            return result

        for _ in range(_RECORD_RETRIES):
            try:
                return self._store.write(work)
            except StorageUnavailable:
                if self.stopping.wait(_RECORD_RETRY_SECONDS):
                    break
        return self._store.write(work)


def _log_failure(claim: Claim, result: TryResult) -> None:
    """Log a failed delivery without its address: that of some receivers is a secret."""
    if result.done in {DeliveryState.SENT, DeliveryState.REPEATING}:
        return
    is_dead = result.done is DeliveryState.DEAD
    log.log(
        logging.ERROR if is_dead else logging.WARNING,
        "Delivery to %s failed (%s, try %d); %s.",
        claim.receiver,
        result.tried.status or result.tried.said,
        result.tries,
        "it is now dead" if is_dead else "it will be retried",
        extra={
            "event": "delivery_dead" if is_dead else "delivery_failed",
            "receiver": claim.receiver,
            "delivery": claim.id,
        },
    )
