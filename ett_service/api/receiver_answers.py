"""What is asked and told of receivers. No answer holds an address or a secret but a new one."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, WithJsonSchema

from ett_service.api.answers import Answer, Instant, Seconds
from ett_service.fleet.scope import Dimension
from ett_service.notifications.formats import Format

EXAMPLE: dict[str, Any] = {
    "name": "fleet-efficiency",
    "origin": "api",
    "project": "research",
    "format": "slack",
    "host": "hooks.slack.com",
    "where": {"model": "llm-70b"},
    "state": "working",
    "disabled_why": None,
    "failures": 0,
    "waiting": 0,
    "dead": 0,
    "both_sign_until": None,
    "made_by": "ett_4Zk0Xw7b",
    "made_by_name": "platform",
    "made_at": "2026-03-01T08:00:00.000000Z",
}
ASKED: dict[str, Any] = {
    "name": "fleet-efficiency",
    "url": "https://alerts.example.com/ett",
    "format": "generic",
    "where": {"model": "llm-70b"},
}
_SECRET = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"  # noqa: S105 - that of the specification
_TRY: dict[str, Any] = {
    "at": "2026-03-01T08:00:00.000000Z",
    "took_seconds": 0.12,
    "status": 503,
    "said": "try later",
}
_DELIVERY: dict[str, Any] = {
    "id": "msg_0123456789abcdef0123456789abcdef",
    "fingerprint": "6f1f0b2f3c1d9a77",
    "state_version": 3,
    "state": "dead",
    "made_at": "2026-03-01T08:00:00.000000Z",
    "due_at": None,
    "done_at": "2026-03-04T11:00:00.000000Z",
    "failed_tries": 10,
    "tried": [_TRY],
}

State = Literal["working", "failing", "disabled", "unreadable"]
Fate = Literal["waiting", "repeating", "sent", "dead", "superseded"]


class NewReceiver(Answer):
    """The receiver to make."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"example": ASKED})

    name: str = Field(
        pattern="^[a-z0-9][a-z0-9-]{0,62}$", description="Up to 63 of a-z, 0-9 and `-`."
    )
    url: str = Field(
        min_length=1,
        max_length=2_000,
        repr=False,
        description=(
            "Where messages are posted to: https, at a public address or one in `webhook_allow`. "
            "It is kept encrypted, and never shown again."
        ),
    )
    format: Annotated[Format, WithJsonSchema({"enum": list(Format), "type": "string"})] = Format(
        "generic"
    )
    where: dict[Dimension, str] = Field(
        default_factory=dict,
        description="It hears only of what concerns these; a cohort that spans a dimension does.",
    )
    routing_key: str = Field(
        default="",
        max_length=200,
        repr=False,
        description="That of a PagerDuty integration (Events API v2), and of nothing else.",
    )


class ReceiverAnswer(Answer):
    """A receiver, and how it does."""

    model_config = ConfigDict(json_schema_extra={"example": EXAMPLE})

    name: str
    origin: Literal["settings", "api"]
    project: str | None = Field(description="Null for one of the settings: it hears of all.")
    format: Format
    host: str | None = Field(description="Of its address. Null where it cannot be decrypted.")
    where: dict[str, str]
    state: State = Field(description="`disabled` once it answered 410.")
    disabled_why: str | None
    failures: int = Field(description="In a row.")
    waiting: int = Field(description="Messages that are still to be sent.")
    dead: int = Field(description="Messages that were given up; they can be replayed.")
    both_sign_until: Instant | None = Field(description="After a rotation, for a day.")
    made_by: str | None = Field(description="Prefix of the key that made it.")
    made_by_name: str | None
    made_at: Instant | None


class ReceiverList(Answer):
    """Receivers by name, those of the settings first."""

    model_config = ConfigDict(json_schema_extra={"example": {"receivers": [EXAMPLE]}})

    receivers: list[ReceiverAnswer]


class MadeReceiver(Answer):
    """A new receiver."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"name": "fleet-efficiency", "secret": _SECRET}}
    )

    name: str
    secret: str | None = Field(
        description="What messages are signed with (Standard Webhooks), shown only now; null "
        "where the format has no signature."
    )


class RotatedReceiver(Answer):
    """A receiver with a new secret."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "name": "fleet-efficiency",
                "secret": _SECRET,
                "both_sign_until": "2026-03-02T08:00:00.000000Z",
            }
        }
    )

    name: str
    secret: str = Field(description="The new one, shown only now.")
    both_sign_until: Instant = Field(description="Until then the former one signs, too.")


class TrialAnswer(Answer):
    """How a message went that was marked as a test."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "delivered": True,
                "outcome": "It answered 200 within 0.12 s.",
                "status": 200,
                "said": "ok",
                "took_seconds": 0.12,
            }
        }
    )

    delivered: bool
    outcome: str = Field(description="What happened, in words.")
    status: int | None = Field(description="Of the answer; null where none came.")
    said: str = Field(description="How the answer began, in up to 200 characters.")
    took_seconds: Seconds


class Try(Answer):
    """One try of a delivery."""

    model_config = ConfigDict(json_schema_extra={"example": _TRY})

    at: Instant
    took_seconds: Seconds
    status: int | None = Field(description="Null where no answer came.")
    said: str = Field(description="How the answer began, or what went wrong.")


class DeliveryAnswer(Answer):
    """A message to a receiver."""

    model_config = ConfigDict(json_schema_extra={"example": _DELIVERY})

    id: str = Field(description="The `webhook-id`; it stays through all tries.")
    fingerprint: str
    state_version: int
    state: Fate = Field(
        description="`repeating` was told and is told again; of one that is `superseded` a "
        "newer one took the place."
    )
    made_at: Instant
    due_at: Instant | None = Field(description="When it is tried next, if it is.")
    done_at: Instant | None
    failed_tries: int
    tried: list[Try] = Field(description="The last of them, the latest last.")


class DeliveryPage(Answer):
    """A page of deliveries, the latest first."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"deliveries": [_DELIVERY], "next_cursor": None}}
    )

    deliveries: list[DeliveryAnswer]
    next_cursor: str | None = Field(description="Sent as `cursor` it gives the next page.")


class Replayed(Answer):
    """Dead letters that are sent again."""

    model_config = ConfigDict(json_schema_extra={"example": {"replayed": 2}})

    replayed: int = Field(description="Those that something newer followed are left.")
