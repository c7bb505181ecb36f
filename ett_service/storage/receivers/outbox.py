"""The outbox: messages to receivers, until they are delivered.

A delivery is put in the transaction of what it reports, and claimed, sent and recorded by
``deliveries``. A newer one supersedes those that did not arrive yet: receivers are told how things
stand, not how they stood.
"""

import json
from collections.abc import Iterable
from enum import StrEnum
from hashlib import sha256
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, and_, case, select, update

from ett_service.storage.engine.statements import insert_new
from ett_service.storage.schema import delivery, receiver_health


class DeliveryState(StrEnum):
    """The state of a delivery, as ``delivery.done`` has it."""

    WAITING = ""
    REPEATING = "repeating"  #: delivered, and delivered again until it is superseded
    SENT = "sent"
    DEAD = "dead"  #: given up; it can be replayed
    SUPERSEDED = "superseded"  #: by a newer one before it arrived


class Message(NamedTuple):
    """A body for one receiver; *owner* is its project, 0 for a receiver of the settings."""

    owner: int
    receiver: str
    body: str


TO_SEND = delivery.c.done.in_((DeliveryState.WAITING.value, DeliveryState.REPEATING.value))
_DISABLED = select(receiver_health.c.owner, receiver_health.c.name).where(
    receiver_health.c.disabled_us.is_not(None)
)


def put(
    conn: Connection,
    project_id: int,
    fingerprint: str,
    version: int,
    messages: Iterable[Message],
    now_us: int,
) -> None:
    """Add a delivery for each message, to be sent once the transaction is committed.

    Earlier deliveries of the same fingerprint that did not arrive are superseded. Those to a
    disabled receiver are dead at once, and can be replayed. Putting the same twice at one instant
    adds it once.
    """
    ordered = sorted(messages)
    disabled = {(owner, name) for owner, name in conn.execute(_DISABLED)}
    rows = []
    for message in ordered:
        parts = [project_id, fingerprint, version, message.owner, message.receiver, now_us]
        delivery_id = f"msg_{sha256(json.dumps(parts).encode()).hexdigest()[:32]}"
        older = and_(
            delivery.c.owner == message.owner,
            delivery.c.receiver == message.receiver,
            delivery.c.project_id == project_id,
            delivery.c.fingerprint == fingerprint,
            delivery.c.id != delivery_id,
        )
        end(conn, older, DeliveryState.SUPERSEDED, now_us)
        is_dead = (message.owner, message.receiver) in disabled
        rows.append(
            {
                "id": delivery_id,
                "project_id": project_id,
                "owner": message.owner,
                "receiver": message.receiver,
                "fingerprint": fingerprint,
                "version": version,
                "body": message.body,
                "made_us": now_us,
                "due_us": now_us,
                "tries": 0,
                "done": (DeliveryState.DEAD if is_dead else DeliveryState.WAITING).value,
                "done_us": now_us if is_dead else None,
                "tried": "[]",
            }
        )
    health = [
        {"owner": message.owner, "name": message.receiver, "failures": 0} for message in ordered
    ]
    insert_new(conn, receiver_health, health)
    insert_new(conn, delivery, sorted(rows, key=lambda row: str(row["id"])))


def end(
    conn: Connection, which: ColumnElement[bool], otherwise: DeliveryState, now_us: int
) -> None:
    """End deliveries that are to be sent: those that repeat are sent, the others *otherwise*."""
    arrived = delivery.c.done == DeliveryState.REPEATING.value
    ended = {
        "done": case((arrived, DeliveryState.SENT.value), else_=otherwise.value),
        "done_us": case((arrived, delivery.c.done_us), else_=now_us),
    }
    conn.execute(update(delivery).where(TO_SEND, which).values(ended))
