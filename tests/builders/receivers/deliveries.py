"""Notices, receivers and delivery threads for tests."""

import ssl
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from sqlalchemy import Connection

from ett_service.core.intervals import DAY_US
from ett_service.notifications.formats import FORMATS
from ett_service.notifications.guard import Allowed, Resolve, resolve
from ett_service.notifications.notice import OF_SETTINGS, Notice, Receiver, Status, to_json
from ett_service.notifications.routing import Directory, Schedule
from ett_service.notifications.sender import Sender, Sending
from ett_service.storage.engine.seal import Keyring
from ett_service.storage.engine.store import Store
from ett_service.storage.receivers import deliveries
from ett_service.storage.receivers.deliveries import Delivery, DeliveryFilter, Message
from ett_service.worker.notify import DeliveryThread
from tests.builders.clock import NOON, Clock
from tests.builders.receivers.notices import NOTICE

SIGNING = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def notice(status: Status = Status.FIRING, version: int = 1, project_id: int = 1) -> Notice:
    """Return the notice of a regression."""
    ends_us = NOON + DAY_US if status is Status.RESOLVED else None
    return replace(NOTICE, status=status, version=version, project_id=project_id, ends_us=ends_us)


def named(name: str, url: str, owner: int = OF_SETTINGS, kind: str = "generic") -> Receiver:
    """Return a receiver of signed messages."""
    return Receiver(owner, name, url, FORMATS[kind], (SIGNING,))


def put(
    store: Store,
    project_id: int,
    receivers: Iterable[str],
    now_us: int,
    *,
    fingerprint: str = "f",
    version: int = 1,
    status: Status = Status.FIRING,
) -> None:
    """Queue one notice for each of *receivers*, of the settings."""
    body = to_json(notice(status, version, project_id))
    messages = [Message(OF_SETTINGS, name, body) for name in receivers]
    store.write(
        partial(
            deliveries.put,
            project_id=project_id,
            fingerprint=fingerprint,
            version=version,
            messages=messages,
            now_us=now_us,
        )
    )


def put_one(store: Store, project_id: int, name: str, fingerprint: str, version: int) -> None:
    """Queue one message for a receiver that names its fingerprint and version."""
    messages = [Message(OF_SETTINGS, name, f"{fingerprint} {version}")]

    def work(conn: Connection) -> None:
        deliveries.put(conn, project_id, fingerprint, version, messages, NOON + version)

    store.write(work)


@contextmanager
def delivering(
    store: Store,
    clock: Clock,
    receivers: Iterable[Receiver],
    *,
    sending: Sending | None = None,
    sender: Sender | None = None,
    schedule: Schedule | None = None,
    patience_seconds: float = 5.0,
) -> Iterator[DeliveryThread]:
    """Send in the test's own thread, when the test calls it, and end in time."""
    directory = Directory(receivers, Keyring("", store.url))
    deliverer = DeliveryThread(
        store,
        directory,
        sender or Sender(sending),
        schedule,
        clock=lambda _: clock(),
        patience_seconds=patience_seconds,
    )
    try:
        yield deliverer
    finally:
        deliverer.stop_soon()
        deliverer.join()


def run_once(deliverer: DeliveryThread) -> int:
    """Send what is due, wait for the end, and return the number of threads begun."""
    begun = deliverer.run_once()
    for thread in begun:
        thread.join()
    return len(begun)


def deliveries_in(store: Store, **conditions: object) -> list[Delivery]:
    """Read deliveries, oldest first."""
    with store.reading() as conn:
        newest_first = deliveries.listing(conn, DeliveryFilter(**conditions), limit=1_000)  # type: ignore[arg-type]
    return newest_first[::-1]


def sender(
    *,
    trust: ssl.SSLContext | None = None,
    resolve: Resolve = resolve,
    allow: Iterable[str] = (),
    connect_seconds: float = 10.0,
    total_seconds: float = 20.0,
) -> Sender:
    """Return a sender."""
    sending = Sending(connect_seconds, total_seconds, allowed=Allowed.of(allow))
    return Sender(sending, trust=trust, resolve=resolve)
