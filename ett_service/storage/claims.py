"""Deliveries that are claimed, sent and recorded.

One is claimed in one transaction, sent outside of any and recorded in another: who dies in between
leaves a claim that runs out, and it is sent again under the same id. At most one is on its way to
a receiver at a time, so a slow one keeps no other waiting, and older news never overtakes newer.
"""

import json
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    and_,
    bindparam,
    case,
    func,
    or_,
    select,
    update,
)

from ett_service.storage.outbox import TO_SEND, Done, end
from ett_service.storage.tables import delivery, receiver_health

_TRIES_KEPT = 12


@dataclass(frozen=True, slots=True)
class Tried:
    """One try. ``said`` is how the answer began, or what went wrong."""

    at_us: int
    took_us: int
    status: int | None  #: None where no answer came
    said: str


@dataclass(frozen=True, slots=True)
class Claimed:
    """A delivery that is ours to send until ``until_us``."""

    id: str
    project_id: int
    owner: int
    receiver: str
    body: str
    tries: int  #: that were in vain
    failures: int  #: of the receiver in a row, whatever it was sent
    until_us: int
    tried: tuple[Tried, ...]


@dataclass(frozen=True, slots=True)
class Settled:
    """What follows from a try."""

    tried: Tried
    done: Done
    due_us: int  #: of the next try, where there is one
    tries: int
    failures: int
    open_until_us: int | None = None  #: the receiver is left alone until then
    disabled_why: str = ""  #: the receiver wants nothing any more


_OF_RECEIVER = and_(
    delivery.c.owner == receiver_health.c.owner, delivery.c.receiver == receiver_health.c.name
)
_NEXT_DUE = (
    select(func.min(delivery.c.due_us))
    .where(_OF_RECEIVER, TO_SEND)
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
    select(delivery)
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
    """Return from when on there is something to claim; None while nothing waits."""
    instants = [
        max(row.due_us, row.busy_until_us or 0, row.open_until_us or 0)
        for row in conn.execute(_READY)
        if row.due_us is not None
    ]
    return min(instants, default=None)


def claim(conn: Connection, now_us: int, until_us: int, most: int) -> list[Claimed]:
    """Take up to *most* due deliveries, each of another receiver, until *until_us*."""
    claimed = []
    for owner, name, failures in conn.execute(_FREE, {"now_us": now_us, "most": most}).all():
        whose = {"of_owner": owner, "of_receiver": name, "now_us": now_us}
        row = conn.execute(_FIRST, whose).one_or_none()
        if row is None:
            continue  # another worker sent it while we came to the lock
        conn.execute(_HOLD.values(claimed_until_us=until_us), {"of_id": row.id})
        conn.execute(_health(owner, name).values(busy_until_us=until_us))
        claimed.append(_claimed(row, failures, until_us))
    return claimed


def record(conn: Connection, claimed: Claimed, settled: Settled, now_us: int) -> bool:
    """Write down how a try went; False where the claim had run out, and the try does not count."""
    still_ours = receiver_health.c.busy_until_us == claimed.until_us
    values: dict[str, Any] = {
        "busy_until_us": None,
        "failures": settled.failures,
        "open_until_us": settled.open_until_us,
    }
    if settled.disabled_why:
        values |= {"disabled_us": now_us, "disabled_why": settled.disabled_why}
    found = conn.execute(_health(claimed.owner, claimed.receiver).where(still_ours).values(values))
    if found.rowcount == 0:
        return False
    conn.execute(_HOLD.values(_outcome(claimed, settled, now_us)), {"of_id": claimed.id})
    if settled.disabled_why:
        _bury(conn, claimed.owner, claimed.receiver, now_us)
    return True


def tries(text: str) -> tuple[Tried, ...]:
    """Read the tries that a delivery keeps, the first of them first."""
    return tuple(Tried(*one) for one in json.loads(text))


def _health(owner: int, name: str) -> Any:
    return update(receiver_health).where(
        receiver_health.c.owner == owner, receiver_health.c.name == name
    )


def _claimed(row: Row[Any], failures: int, until_us: int) -> Claimed:
    return Claimed(
        id=row.id,
        project_id=row.project_id,
        owner=row.owner,
        receiver=row.receiver,
        body=row.body,
        tries=row.tries,
        failures=failures,
        until_us=until_us,
        tried=tries(row.tried),
    )


def _outcome(claimed: Claimed, settled: Settled, now_us: int) -> dict[str, Any]:
    """Say what becomes of the row: superseded on its way it stays that, unless it arrived."""
    arrived = settled.done in {Done.SENT, Done.REPEATING}
    overtaken = delivery.c.done == Done.SUPERSEDED.value
    kept = (*claimed.tried, settled.tried)[-_TRIES_KEPT:]
    return {
        "claimed_until_us": None,
        "due_us": settled.due_us,
        "tries": settled.tries,
        "tried": json.dumps([_as_list(one) for one in kept], separators=(",", ":")),
        "done": case(
            (overtaken, (Done.SENT if arrived else Done.SUPERSEDED).value),
            else_=settled.done.value,
        ),
        "done_us": case(
            (overtaken, delivery.c.done_us),
            else_=None if settled.done is Done.WAITING else now_us,
        ),
    }


def _as_list(one: Tried) -> list[Any]:
    return [one.at_us, one.took_us, one.status, one.said]


def _bury(conn: Connection, owner: int, name: str, now_us: int) -> None:
    theirs = and_(delivery.c.owner == owner, delivery.c.receiver == name)
    end(conn, theirs, Done.DEAD, now_us)
