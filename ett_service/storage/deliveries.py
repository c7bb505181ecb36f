"""What receivers were sent and are to be sent, as people look at it, and what they do about it."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, and_, exists, func, or_, select, tuple_, update

from ett_service.storage.claims import Tried, tries
from ett_service.storage.outbox import Done
from ett_service.storage.tables import delivery, receiver_health


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
    tries: int  #: in vain
    done: Done
    done_us: int | None
    tried: tuple[Tried, ...]  #: the latest of them, the last of them last


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which deliveries; what is empty or None asks nothing."""

    project_id: int | None = None
    owner: int | None = None
    receiver: str = ""
    done: Collection[Done] = ()
    ids: Collection[str] = ()


_COLUMNS = [column for column in delivery.c if column.name not in {"body", "claimed_until_us"}]


def listing(
    conn: Connection, wanted: Wanted, *, limit: int, after: tuple[int, str] | None = None
) -> list[Delivery]:
    """Read up to *limit* deliveries, the latest first.

    *after* is when the last one of the page before was made, and its id.
    """
    keys = (delivery.c.made_us, delivery.c.id)
    statement = select(*_COLUMNS).where(*_conditions(wanted))
    if after is not None:
        statement = statement.where(tuple_(*keys) < tuple_(*after))
    ordered = statement.order_by(*(key.desc() for key in keys)).limit(limit)
    return [_delivery(row) for row in conn.execute(ordered)]


def counts(conn: Connection) -> Mapping[tuple[int, str], Mapping[Done, int]]:
    """Count the deliveries by owner and name of the receiver and by what became of them."""
    of = (delivery.c.owner, delivery.c.receiver, delivery.c.done)
    found: dict[tuple[int, str], dict[Done, int]] = {}
    for owner, name, done, count in conn.execute(select(*of, func.count()).group_by(*of)):
        found.setdefault((owner, name), {})[Done(done)] = count
    return found


def replay(conn: Connection, wanted: Wanted, now_us: int) -> int:
    """Have dead deliveries sent after all, under their ids; return how many.

    One that something newer was put after is superseded instead.
    """
    newer = delivery.alias()
    overtaken = exists(
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
    dead = (delivery.c.done == Done.DEAD.value, *_conditions(wanted))
    conn.execute(
        update(delivery).where(*dead, overtaken).values(done=Done.SUPERSEDED.value, done_us=now_us)
    )
    again = {"done": Done.WAITING.value, "done_us": None, "due_us": now_us, "tries": 0}
    return conn.execute(update(delivery).where(*dead).values(again)).rowcount


def enable(conn: Connection, owner: int, name: str) -> bool:
    """Forget that a receiver failed or wanted nothing; False where it was never sent anything."""
    fresh = {"failures": 0, "open_until_us": None, "disabled_us": None, "disabled_why": None}
    of_it = update(receiver_health).where(
        receiver_health.c.owner == owner, receiver_health.c.name == name
    )
    return conn.execute(of_it.values(fresh)).rowcount > 0


def _conditions(wanted: Wanted) -> Iterable[Any]:
    if wanted.project_id is not None:
        yield delivery.c.project_id == wanted.project_id
    if wanted.owner is not None:
        yield delivery.c.owner == wanted.owner
    if wanted.receiver:
        yield delivery.c.receiver == wanted.receiver
    if wanted.done:
        yield delivery.c.done.in_([one.value for one in wanted.done])
    if wanted.ids:
        yield delivery.c.id.in_(wanted.ids)


def _delivery(row: Row[Any]) -> Delivery:
    return Delivery(
        id=row.id,
        project_id=row.project_id,
        owner=row.owner,
        receiver=row.receiver,
        fingerprint=row.fingerprint,
        version=row.version,
        made_us=row.made_us,
        due_us=row.due_us,
        tries=row.tries,
        done=Done(row.done),
        done_us=row.done_us,
        tried=tries(row.tried),
    )
