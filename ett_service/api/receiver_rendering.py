"""Receivers and deliveries as answers tell them."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from ett_service.api.receiver_answers import DeliveryAnswer, Fate, ReceiverAnswer, State, Try
from ett_service.api.rendering import maybe_instant
from ett_service.core.intervals import SECOND_US, rfc3339
from ett_service.notifications.formats import Format
from ett_service.notifications.receiver import OF_SETTINGS, Receiver
from ett_service.notifications.routing import Directory
from ett_service.storage.engine.seal import CannotUnseal, NoSecretKey
from ett_service.storage.receivers.deliveries import Delivery, DeliveryTry
from ett_service.storage.receivers.outbox import DeliveryState
from ett_service.storage.receivers.receivers import Health, StoredReceiver

Counts = Mapping[tuple[int, str], Mapping[DeliveryState, int]]

_FATES: Mapping[DeliveryState, Fate] = {
    DeliveryState.WAITING: "waiting",
    DeliveryState.REPEATING: "repeating",
    DeliveryState.SENT: "sent",
    DeliveryState.DEAD: "dead",
    DeliveryState.SUPERSEDED: "superseded",
}
DONE: Mapping[Fate, DeliveryState] = {fate: done for done, fate in _FATES.items()}


def rendered(
    kept: StoredReceiver, directory: Directory, counts: Counts, now_us: int
) -> ReceiverAnswer:
    """Tell of a receiver that was made by API."""
    try:
        host = _host(directory.opened(kept, now_us).url)
    except (CannotUnseal, NoSecretKey):
        host = None
    overlaps = kept.old_until_us is not None and now_us < kept.old_until_us
    return ReceiverAnswer(
        name=kept.name,
        origin="api",
        project=kept.project,
        format=Format(kept.format),
        host=host,
        where=dict(kept.cohort),
        both_sign_until=maybe_instant(kept.old_until_us if overlaps else None),
        made_by=kept.made_by,
        made_by_name=kept.made_by_name,
        made_at=rfc3339(kept.made_us),
        **_doing(kept.health, counts.get((kept.project_id, kept.name), {})),
        state="unreadable" if host is None else _state(kept.health),
    )


def of_settings(receiver: Receiver, health: Health | None, counts: Counts) -> ReceiverAnswer:
    """Tell of a receiver that the settings name."""
    known = health or Health()
    return ReceiverAnswer(
        name=receiver.name,
        origin="settings",
        project=None,
        format=Format(receiver.format.name),
        host=_host(receiver.url),
        where=dict(receiver.where),
        both_sign_until=None,
        made_by=None,
        made_by_name=None,
        made_at=None,
        **_doing(known, counts.get((OF_SETTINGS, receiver.name), {})),
        state=_state(known),
    )


def delivery(one: Delivery) -> DeliveryAnswer:
    """Tell of one message."""
    is_open = one.done in {DeliveryState.WAITING, DeliveryState.REPEATING}
    return DeliveryAnswer(
        id=one.id,
        fingerprint=one.fingerprint,
        state_version=one.version,
        state=_FATES[one.done],
        made_at=rfc3339(one.made_us),
        due_at=rfc3339(one.due_us) if is_open else None,
        done_at=maybe_instant(one.done_us),
        failed_tries=one.tries,
        tried=[_try(each) for each in one.tried],
    )


def _try(one: DeliveryTry) -> Try:
    return Try(
        at=rfc3339(one.at_us),
        took_seconds=one.took_us / SECOND_US,
        status=one.status,
        said=one.said,
    )


def _doing(health: Health, counts: Mapping[DeliveryState, int]) -> dict[str, Any]:
    return {
        "disabled_why": health.disabled_why,
        "failures": health.failures,
        "waiting": counts.get(DeliveryState.WAITING, 0),
        "dead": counts.get(DeliveryState.DEAD, 0),
    }


def _state(health: Health) -> State:
    if health.disabled_why is not None:
        return "disabled"
    return "failing" if health.failures else "working"


def _host(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None
