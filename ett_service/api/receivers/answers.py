"""Answers about receivers. No answer holds an address, nor a secret except a new one."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AliasPath, Field

from ett_service.api.answers import Answer, ComputedAnswer, Instant, KeyPrefix, Of, Seconds
from ett_service.notifications.formats import Format
from ett_service.notifications.notice import Receiver
from ett_service.notifications.routing import Directory
from ett_service.storage.engine.seal import CannotUnseal, NoSecretKey
from ett_service.storage.receivers.deliveries import DeliveryState
from ett_service.storage.receivers.receivers import Health as ReceiverHealth
from ett_service.storage.receivers.receivers import StoredReceiver

Counts = Mapping[DeliveryState, int]
"""The deliveries of a receiver by what became of them."""

ReceiverState = Literal["working", "failing", "paused", "disabled", "unreadable"]


def _state(receiver: Any) -> ReceiverState:
    if receiver.origin == "api" and receiver.host is None:
        return "unreadable"
    if receiver.health.disabled_why is not None:
        return "disabled"
    if _paused_until(receiver) is not None:
        return "paused"
    return "failing" if receiver.health.failures else "working"


def _paused_until(receiver: Any) -> int | None:
    until_us: int | None = receiver.health.paused_until_us(receiver.now_us)
    return until_us


def _count(done: DeliveryState) -> Of:
    return Of(lambda receiver: receiver.counts.get(done, 0))


class ReceiverAnswer(ComputedAnswer):
    """A receiver and its state."""

    name: str
    origin: Literal["settings", "api"]
    project: str | None = Field(
        description="Null for a receiver of the settings, which hears of every project."
    )
    format: Format
    host: str | None = Field(description="Of its address; null where it cannot be decrypted.")
    where: dict[str, str]
    state: Annotated[ReceiverState, Of(_state)] = Field(
        description="`disabled` after it answered 410; `paused` after failures in a row."
    )
    paused_until: Annotated[Instant | None, Of(_paused_until)] = Field(
        description="Nothing is sent to it before. Each further failure makes the pause longer."
    )
    disabled_why: str | None = Field(validation_alias=AliasPath("health", "disabled_why"))
    failures: int = Field(
        validation_alias=AliasPath("health", "failures"), description="Failed tries in a row."
    )
    waiting: Annotated[int, _count(DeliveryState.WAITING)] = Field(
        description="Pending deliveries."
    )
    dead: Annotated[int, _count(DeliveryState.DEAD)] = Field(
        description="Deliveries that were given up. They can be replayed."
    )
    both_sign_until: Instant | None = Field(
        description="For a day after a rotation, both secrets sign."
    )
    made_by: KeyPrefix | None
    made_by_name: str | None
    made_at: Instant | None

    @classmethod
    def of_settings(
        cls, receiver: Receiver, health: ReceiverHealth | None, counts: Counts, now_us: int
    ) -> "ReceiverAnswer":
        """Read a receiver of the settings."""
        return cls.of(
            receiver,
            origin="settings",
            format=receiver.format.name,
            host=_host(receiver.url),
            health=health or ReceiverHealth(),
            counts=counts,
            now_us=now_us,
            **dict.fromkeys(("project", "both_sign_until", "made_by", "made_by_name", "made_at")),
        )

    @classmethod
    def of_project(
        cls, receiver: StoredReceiver, directory: Directory, counts: Counts, now_us: int
    ) -> "ReceiverAnswer":
        """Read a receiver that was created over the API."""
        try:
            host = _host(directory.opened(receiver, now_us).url)
        except (CannotUnseal, NoSecretKey):
            host = None
        until_us = receiver.old_until_us
        overlaps = until_us is not None and now_us < until_us
        return cls.of(
            receiver,
            origin="api",
            host=host,
            where=receiver.cohort,
            both_sign_until=until_us if overlaps else None,
            counts=counts,
            now_us=now_us,
        )


def _host(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


class ReceiverList(Answer):
    """Receivers by name, those of the settings first."""

    receivers: list[ReceiverAnswer]


class MadeReceiver(Answer):
    """A new receiver."""

    name: str
    secret: str | None = Field(
        description="The secret that signs its messages (Standard Webhooks), shown only once. "
        "Null for a format without signatures."
    )


class RotatedReceiver(Answer):
    """A receiver with a new secret."""

    name: str
    secret: str = Field(description="The new secret, shown only once.")
    both_sign_until: Instant = Field(description="Until then the former secret signs, too.")


class TrialAnswer(Answer):
    """The result of a test message."""

    delivered: bool = Field(validation_alias="is_success")
    outcome: str = Field(description="What happened, in words.")
    status: int | None = Field(description="HTTP status of the answer; null without an answer.")
    said: str = Field(description="The first 200 characters of the answer.")
    took_seconds: Seconds
