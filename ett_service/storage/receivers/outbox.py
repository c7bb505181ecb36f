"""The outbox: what receivers are to be told, until they were.

A delivery is put in the transaction of what it tells of, and claimed, sent and recorded by
``storage.claims``. What is newer supersedes what did not arrive yet: receivers are told how things
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
    """What became of a delivery."""

    WAITING = ""
    REPEATING = "repeating"  #: told, and told again until something newer is
    SENT = "sent"
    DEAD = "dead"  #: given up; it can be replayed
    SUPERSEDED = "superseded"  #: something newer was to be told before it arrived


class Message(NamedTuple):
    """Who is to be told what; *owner* is a project's number, 0 that of the settings."""

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
    notices: Iterable[tuple[int, str, str]],
    now_us: int,
) -> None:
    """Have receivers told, each a notice, once the transaction is committed.

    What they were to be told before of the same fingerprint and did not hear is superseded. Of a
    receiver that is disabled the delivery is dead at once, and can be replayed. Put twice by one
    clock it is there once.
    """
    told = sorted(Message(*one) for one in notices)
    disabled = {(owner, name) for owner, name in conn.execute(_DISABLED)}
    rows = []
    for one in told:
        name = _id(project_id, fingerprint, version, one, now_us)
        older = and_(
            delivery.c.owner == one.owner,
            delivery.c.receiver == one.receiver,
            delivery.c.project_id == project_id,
            delivery.c.fingerprint == fingerprint,
            delivery.c.id != name,
        )
        end(conn, older, DeliveryState.SUPERSEDED, now_us)
        is_dead = (one.owner, one.receiver) in disabled
        rows.append(
            {
                "id": name,
                "project_id": project_id,
                "owner": one.owner,
                "receiver": one.receiver,
                "fingerprint": fingerprint,
                "version": version,
                "body": one.body,
                "made_us": now_us,
                "due_us": now_us,
                "tries": 0,
                "done": (DeliveryState.DEAD if is_dead else DeliveryState.WAITING).value,
                "done_us": now_us if is_dead else None,
                "tried": "[]",
            }
        )
    health = [{"owner": one.owner, "name": one.receiver, "failures": 0} for one in told]
    insert_new(conn, receiver_health, health)
    insert_new(conn, delivery, sorted(rows, key=lambda row: str(row["id"])))


def end(
    conn: Connection, which: ColumnElement[bool], otherwise: DeliveryState, now_us: int
) -> None:
    """End what is to be sent: what was told is sent, and what was not is *otherwise*."""
    told = delivery.c.done == DeliveryState.REPEATING.value
    ended = {
        "done": case((told, DeliveryState.SENT.value), else_=otherwise.value),
        "done_us": case((told, delivery.c.done_us), else_=now_us),
    }
    conn.execute(update(delivery).where(TO_SEND, which).values(ended))


def _id(project_id: int, fingerprint: str, version: int, told: Message, now_us: int) -> str:
    """Name a delivery after what makes it another one."""
    parts = [project_id, fingerprint, version, told.owner, told.receiver, now_us]
    return f"msg_{sha256(json.dumps(parts).encode()).hexdigest()[:32]}"
