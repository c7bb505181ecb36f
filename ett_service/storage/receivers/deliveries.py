"""The outbox: messages to receivers, until they are delivered.

A delivery is added in the transaction of the change that it reports, then claimed, sent and
recorded. A newer one supersedes those that did not arrive yet: receivers get the present state, not
earlier ones.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    RowMapping,
    and_,
    bindparam,
    case,
    exists,
    func,
    or_,
    select,
    tuple_,
    update,
)

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


_TRIES_KEPT = 12


class DeliveryTry(NamedTuple):
    """One try. ``said`` is the beginning of the answer, or what went wrong."""

    at_us: int
    took_us: int
    status: int | None  #: None without an answer
    said: str


@dataclass(frozen=True, slots=True)
class Claim:
    """A delivery that nobody else may send until ``until_us``."""

    id: str
    project_id: int
    owner: int
    receiver: str
    body: str
    tries: int  #: that failed
    failures: int  #: of the receiver in a row, over all its deliveries
    until_us: int
    tried: tuple[DeliveryTry, ...]


@dataclass(frozen=True, slots=True)
class TryResult:
    """The consequences of a try."""

    tried: DeliveryTry
    done: DeliveryState
    due_us: int  #: of the next try, if there is one
    tries: int
    failures: int
    open_until_us: int | None = None  #: the receiver is paused until then
    disabled_why: str = ""  #: set if the receiver wants no more deliveries


_NEXT_DUE = (
    select(func.min(delivery.c.due_us))
    .where(
        delivery.c.owner == receiver_health.c.owner,
        delivery.c.receiver == receiver_health.c.name,
        TO_SEND,
    )
    .correlate(receiver_health)
    .scalar_subquery()
)


def _over(column: ColumnElement[int]) -> ColumnElement[bool]:
    return or_(column.is_(None), column <= bindparam("now_us"))


_FREE = (
    select(receiver_health.c.owner, receiver_health.c.name, receiver_health.c.failures)
    .where(
        receiver_health.c.disabled_us.is_(None),
        _over(receiver_health.c.busy_until_us),
        _over(receiver_health.c.open_until_us),
        bindparam("now_us") >= _NEXT_DUE,
    )
    .order_by(_NEXT_DUE, receiver_health.c.owner, receiver_health.c.name)
    .limit(bindparam("most"))
    .with_for_update(of=receiver_health, skip_locked=True)
)
_FIRST = (
    select(
        delivery.c.id,
        delivery.c.project_id,
        delivery.c.owner,
        delivery.c.receiver,
        delivery.c.body,
        delivery.c.tries,
        delivery.c.tried,
    )
    .where(
        delivery.c.owner == bindparam("of_owner"),
        delivery.c.receiver == bindparam("of_receiver"),
        TO_SEND,
        delivery.c.due_us <= bindparam("now_us"),
    )
    .order_by(delivery.c.due_us, delivery.c.made_us, delivery.c.id)
    .limit(1)
    .with_for_update(skip_locked=True)
)
_HOLD = update(delivery).where(delivery.c.id == bindparam("of_id"))
_READY = select(
    receiver_health.c.busy_until_us, receiver_health.c.open_until_us, _NEXT_DUE.label("due_us")
).where(receiver_health.c.disabled_us.is_(None))


def ready_us(conn: Connection) -> int | None:
    """Return when the next delivery can be claimed; None while none is pending."""
    instants = [
        max(row.due_us, row.busy_until_us or 0, row.open_until_us or 0)
        for row in conn.execute(_READY)
        if row.due_us is not None
    ]
    return min(instants, default=None)


def claim(conn: Connection, now_us: int, until_us: int, most: int) -> list[Claim]:
    """Claim up to *most* due deliveries, each of another receiver, until *until_us*."""
    claimed = []
    for owner, name, failures in conn.execute(_FREE, {"now_us": now_us, "most": most}).all():
        receiver = {"of_owner": owner, "of_receiver": name, "now_us": now_us}
        row = conn.execute(_FIRST, receiver).mappings().one_or_none()
        if row is None:
            continue  # another worker sent it before the lock was ours
        conn.execute(_HOLD.values(claimed_until_us=until_us), {"of_id": row["id"]})
        conn.execute(_health(owner, name).values(busy_until_us=until_us))
        parsed = {"tried": tries(row["tried"]), "failures": failures, "until_us": until_us}
        claimed.append(Claim(**{**row, **parsed}))
    return claimed


def record(conn: Connection, claim: Claim, result: TryResult, now_us: int) -> bool:
    """Record the result of a try; False if the claim had expired, and the try does not count."""
    still_ours = receiver_health.c.busy_until_us == claim.until_us
    values: dict[str, Any] = {
        "busy_until_us": None,
        "failures": result.failures,
        "open_until_us": result.open_until_us,
    }
    if result.disabled_why:
        values |= {"disabled_us": now_us, "disabled_why": result.disabled_why}
    health = _health(claim.owner, claim.receiver).where(still_ours).values(values)
    if conn.execute(health).rowcount == 0:
        return False
    conn.execute(_HOLD.values(_outcome(claim, result, now_us)), {"of_id": claim.id})
    if result.disabled_why:
        theirs = and_(delivery.c.owner == claim.owner, delivery.c.receiver == claim.receiver)
        end(conn, theirs, DeliveryState.DEAD, now_us)
    return True


def tries(text: str) -> tuple[DeliveryTry, ...]:
    """Read the tries that a delivery stores, in their order."""
    return tuple(DeliveryTry(*columns) for columns in json.loads(text))


def _health(owner: int, name: str) -> Any:
    return update(receiver_health).where(
        receiver_health.c.owner == owner, receiver_health.c.name == name
    )


def _outcome(claim: Claim, result: TryResult, now_us: int) -> dict[str, Any]:
    """Return the new values of the row; one superseded meanwhile stays so, unless it arrived."""
    arrived = result.done in {DeliveryState.SENT, DeliveryState.REPEATING}
    superseded = delivery.c.done == DeliveryState.SUPERSEDED.value
    return {
        "claimed_until_us": None,
        "due_us": result.due_us,
        "tries": result.tries,
        "tried": json.dumps((*claim.tried, result.tried)[-_TRIES_KEPT:], separators=(",", ":")),
        "done": case(
            (superseded, (DeliveryState.SENT if arrived else DeliveryState.SUPERSEDED).value),
            else_=result.done.value,
        ),
        "done_us": case(
            (superseded, delivery.c.done_us),
            else_=None if result.done is DeliveryState.WAITING else now_us,
        ),
    }


@dataclass(frozen=True, slots=True)
class Delivery:
    """One delivery; instants are microseconds since the Unix epoch."""

    id: str
    project_id: int
    owner: int
    receiver: str
    fingerprint: str
    version: int
    made_us: int
    due_us: int
    tries: int  #: that failed
    done: DeliveryState
    done_us: int | None
    tried: tuple[DeliveryTry, ...]  #: the latest, in their order


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryFilter:
    """Which deliveries; empty and None do not filter."""

    project_id: int | None = None
    owner: int | None = None
    receiver: str = ""
    done: Collection[DeliveryState] = ()
    ids: Collection[str] = ()


_COLUMNS = [column for column in delivery.c if column.name not in {"body", "claimed_until_us"}]


def listing(
    conn: Connection, query: DeliveryFilter, *, limit: int, after: tuple[int, str] | None = None
) -> list[Delivery]:
    """Read up to *limit* deliveries, the latest first.

    *after* is the instant and the id of the last delivery of the previous page.
    """
    keys = (delivery.c.made_us, delivery.c.id)
    statement = select(*_COLUMNS).where(*_conditions(query))
    if after is not None:
        statement = statement.where(tuple_(*keys) < tuple_(*after))
    ordered = statement.order_by(*(key.desc() for key in keys)).limit(limit)
    return [_delivery(row) for row in conn.execute(ordered).mappings()]


def counts(conn: Connection) -> Mapping[tuple[int, str], Mapping[DeliveryState, int]]:
    """Count the deliveries by owner and name of the receiver, and by state."""
    keys = (delivery.c.owner, delivery.c.receiver, delivery.c.done)
    by_receiver: dict[tuple[int, str], dict[DeliveryState, int]] = {}
    for owner, name, done, count in conn.execute(select(*keys, func.count()).group_by(*keys)):
        by_receiver.setdefault((owner, name), {})[DeliveryState(done)] = count
    return by_receiver


def replay(conn: Connection, query: DeliveryFilter, now_us: int) -> int:
    """Send dead deliveries again, under their ids; return how many.

    Those with a newer delivery of their fingerprint are superseded instead.
    """
    newer = delivery.alias()
    superseded = exists(
        select(1).where(
            newer.c.project_id == delivery.c.project_id,
            newer.c.fingerprint == delivery.c.fingerprint,
            newer.c.owner == delivery.c.owner,
            newer.c.receiver == delivery.c.receiver,
            or_(
                newer.c.made_us > delivery.c.made_us,
                and_(newer.c.made_us == delivery.c.made_us, newer.c.version > delivery.c.version),
            ),
        )
    )
    dead = (delivery.c.done == DeliveryState.DEAD.value, *_conditions(query))
    conn.execute(
        update(delivery)
        .where(*dead, superseded)
        .values(done=DeliveryState.SUPERSEDED.value, done_us=now_us)
    )
    again = {"done": DeliveryState.WAITING.value, "done_us": None, "due_us": now_us, "tries": 0}
    return conn.execute(update(delivery).where(*dead).values(again)).rowcount


def enable(conn: Connection, owner: int, name: str) -> bool:
    """Reset the health of a receiver; False if it was never sent anything."""
    fresh = {"failures": 0, "open_until_us": None, "disabled_us": None, "disabled_why": None}
    return int(conn.execute(_health(owner, name).values(fresh)).rowcount) > 0


def _conditions(query: DeliveryFilter) -> Iterable[Any]:
    if query.project_id is not None:
        yield delivery.c.project_id == query.project_id
    if query.owner is not None:
        yield delivery.c.owner == query.owner
    if query.receiver:
        yield delivery.c.receiver == query.receiver
    if query.done:
        yield delivery.c.done.in_([state.value for state in query.done])
    if query.ids:
        yield delivery.c.id.in_(query.ids)


def _delivery(row: RowMapping) -> Delivery:
    parsed = {"done": DeliveryState(row["done"]), "tried": tries(row["tried"])}
    return Delivery(**{**row, **parsed})
