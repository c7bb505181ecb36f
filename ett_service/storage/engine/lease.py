"""Leases: who alone may act, by the database's clock, and which jobs each worker looks after.

A holder that was paused for longer than its lease does not know that another took it. So every
write under a lease begins with :func:`hold`, which finds the epoch that the next holder made.

Several workers on one PostgreSQL database share the jobs by slots. A job's slot follows from its
key alone, and only the database computes it. Each slot is leased by one worker, and each worker
leases its place among them.
"""

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Integer,
    Table,
    Text,
    any_,
    bindparam,
    cast,
    delete,
    func,
    literal_column,
    select,
    update,
)
from sqlalchemy import case as choice
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.postgresql import ARRAY

from ett_service.core.errors import EttError
from ett_service.core.intervals import SECOND_US
from ett_service.storage.engine.driver import begin_and_read
from ett_service.storage.engine.statements import INSERTS
from ett_service.storage.schema import lease

IDLE_US = 2 * SECOND_US
"""Who is silent for so long inside a transaction loses it, and with it the row."""

SLOTS = 64
"""More than workers are wanted, so that each can have about as many."""

_WORKER, _SLOT = "worker ", "slot "


class LeaseLost(EttError):
    """Another holds the lease by now; nothing of the transaction stands."""

    hint = "Nothing needs to be done: the current holder runs."


_CLOCKS: dict[str, ColumnElement[int]] = {
    # Not now(), which is when the transaction began: it may have waited for the row since.
    "postgresql": cast(func.extract("epoch", func.clock_timestamp()) * SECOND_US, BigInteger),
    "sqlite": literal_column(
        "CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)", BigInteger
    ),
}


def _taking(dialect: str) -> Any:
    until_us = _CLOCKS[dialect] + bindparam("lease_us")
    fresh = INSERTS[dialect](lease).values(
        name=bindparam("of_name"), holder=bindparam("of_holder"), epoch=1, expires_us=until_us
    )
    return _unless_held(fresh, dialect).returning(lease.c.epoch)


def _taking_all() -> Any:
    names = func.unnest(bindparam("of_names", type_=ARRAY(Text))).table_valued("name")
    fresh = select(
        names.c.name,
        bindparam("of_holder", type_=Text),
        literal_column("1", BigInteger),
        _CLOCKS["postgresql"] + bindparam("lease_us", type_=BigInteger),
    )
    columns = ["name", "holder", "epoch", "expires_us"]
    insert = postgresql.insert(lease).from_select(columns, fresh)
    return _unless_held(insert, "postgresql").returning(lease.c.name)


def _unless_held(insert: Any, dialect: str) -> Any:
    """Have the leases of a row that is there taken if they ran out or are the holder's."""
    mine = lease.c.holder == insert.excluded.holder
    return insert.on_conflict_do_update(
        index_elements=[lease.c.name],
        set_={
            "holder": insert.excluded.holder,
            "epoch": lease.c.epoch + choice((mine, 0), else_=1),
            "expires_us": insert.excluded.expires_us,
        },
        where=mine | (lease.c.expires_us < _CLOCKS[dialect]),
    )


_TAKE = {dialect: _taking(dialect) for dialect in _CLOCKS}
_TAKE_ALL = _taking_all()
_NOW = {dialect: select(now_us) for dialect, now_us in _CLOCKS.items()}
_MINE = (lease.c.name == bindparam("of_name"), lease.c.epoch == bindparam("of_epoch"))
_HOLD = select(lease.c.epoch).where(*_MINE).with_for_update(read=True)
_RESIGN = update(lease).where(*_MINE).values(expires_us=0)
_RESIGN_ALL = (
    update(lease)
    .where(
        lease.c.name.in_(bindparam("of_names", expanding=True)),
        lease.c.holder == bindparam("of_holder"),
    )
    .values(expires_us=0)
)
_HELD = select(lease.c.name, lease.c.holder).where(lease.c.expires_us >= bindparam("now_us"))
_EXPIRED = (
    select(lease.c.name)
    .where(lease.c.expires_us < bindparam("now_us"))
    .with_for_update(skip_locked=True)
)


def now_us(conn: Connection) -> int:
    """Return the database's clock, in microseconds since the Unix epoch."""
    return int(conn.execute(_NOW[conn.dialect.name]).scalar_one())


def take(conn: Connection, name: str, holder: str, seconds: float) -> int | None:
    """Take the lease *name*, or renew it, for *seconds* from now; None while another holds it.

    Return its epoch, which is another one for each holder in turn. A *holder* is the name of one
    start of one process: one that starts again is another.
    """
    lease_us = round(seconds * SECOND_US)
    _end_if_silent(conn, min(IDLE_US, lease_us))
    of = {"of_name": name, "of_holder": holder, "lease_us": lease_us}
    epoch: int | None = conn.execute(_TAKE[conn.dialect.name], of).scalar_one_or_none()
    return epoch


def hold(conn: Connection, name: str, epoch: int, *, idle_us: int = IDLE_US) -> None:
    """Keep the lease with its holder until this transaction ends.

    Renewing waits for that end, too, so it has to be near.

    Raises:
        LeaseLost: Its epoch is another one.
    """
    _end_if_silent(conn, idle_us)
    of = {"of_name": name, "of_epoch": epoch}
    if conn.execute(_HOLD, of).scalar_one_or_none() is None:
        raise LeaseLost(f"The lease {name} is no longer held at epoch {epoch}.")


def take_all(conn: Connection, names: Sequence[str], holder: str, seconds: float) -> list[str]:
    """Take or renew several leases, in PostgreSQL; return the names of those that were got.

    They come in order, so that two holders never wait for each other in a circle.
    """
    of = {"of_names": list(names), "of_holder": holder, "lease_us": round(seconds * SECOND_US)}
    return list(conn.scalars(_TAKE_ALL, of))


def resign_all(conn: Connection, names: Sequence[str], holder: str) -> None:
    """Let go of the leases that are the holder's."""
    conn.execute(_RESIGN_ALL, {"of_names": list(names), "of_holder": holder})


def holders(conn: Connection, prefix: str) -> dict[str, str]:
    """Return who holds each of the leases whose names begin so."""
    held = _HELD.where(lease.c.name.startswith(prefix, autoescape=True))
    return dict(map(tuple, conn.execute(held, _now(conn))))


def forget_expired(conn: Connection, prefix: str) -> None:
    """Delete leases that ran out and whose names begin so, as no holder of theirs comes again."""
    gone = _EXPIRED.where(lease.c.name.startswith(prefix, autoescape=True))
    conn.execute(delete(lease).where(lease.c.name.in_(gone)), _now(conn))


def resign(conn: Connection, name: str, epoch: int) -> None:
    """Let the lease go, so that the next need not wait; its epoch goes on from here."""
    conn.execute(_RESIGN, {"of_name": name, "of_epoch": epoch})


def _now(conn: Connection) -> dict[str, int]:
    return {"now_us": now_us(conn)}


def _end_if_silent(conn: Connection, idle_us: int) -> None:
    """Have PostgreSQL end the transaction of a process that is paused in it.

    It locks the row of the lease, and would keep the next holder waiting for as long.
    """
    if conn.dialect.name == "postgresql":
        milliseconds = max(1, idle_us // 1_000)
        conn.exec_driver_sql(f"SET LOCAL idle_in_transaction_session_timeout = {milliseconds}")


class SlotShare(NamedTuple):
    """The slots of a worker."""

    slots: frozenset[int]
    whole: bool  #: whether these are as many as the worker should have


def slot_of(jobs: Table) -> ColumnElement[int]:
    """Return the slot of a row's job, from 0 to before ``SLOTS``."""
    return _slot(jobs.c.project_id, jobs.c.job)


def _slot(project_id: ColumnElement[int], job: ColumnElement[str]) -> ColumnElement[int]:
    key = cast(project_id, Text).concat(" ").concat(job)
    digest = func.decode(func.md5(key), "hex")
    return func.get_byte(digest, 0, type_=Integer) % SLOTS


def in_slots(jobs: Table) -> ColumnElement[bool]:
    """Say in PostgreSQL whether a row's job is in one of the parameter ``slots``."""
    return slot_of(jobs) == any_(bindparam("slots", type_=ARRAY(Integer)))


_MERGING = 0x6D_65_72_67
"""PostgreSQL's advisory locks of whoever merges the folds of a slot."""

_all = func.unnest(bindparam("slots", type_=ARRAY(Integer))).column_valued("slot")
_FREE = select(_all).where(func.pg_try_advisory_xact_lock(_MERGING, _all))
_jobs = func.unnest(bindparam("jobs", type_=ARRAY(Text))).column_valued("job")
_of_jobs = select(_slot(bindparam("project_id", type_=Integer), _jobs).label("slot")).distinct()
_WAIT_FOR = select(func.pg_advisory_xact_lock_shared(_MERGING, _of_jobs.subquery().c.slot))


def hold_free_slots(conn: Connection, slots: Collection[int]) -> list[int]:
    """Keep mergers from the slots until the transaction ends, and return those that none is at.

    Only PostgreSQL has slots. The transaction begins in the same trip.
    """
    (free,) = begin_and_read(conn, [(_FREE, {"slots": sorted(slots)})])
    return [slot for (slot,) in free]


def wait_for_slots(conn: Connection, project_id: int, jobs: Collection[str]) -> None:
    """Keep mergers from the slots of these jobs until the transaction ends, once none is there."""
    conn.execute(_WAIT_FOR, {"project_id": project_id, "jobs": list(jobs)})


def share_slots(conn: Connection, holder: str, seconds: float) -> SlotShare:
    """Lease for *seconds* as many slots as are the holder's due, and keep those it has.

    All workers that are there get the same number, or one less. What the holder has beyond that it
    lets go; what others have yet to let go it gets the next time.
    """
    take(conn, _WORKER + holder, holder, seconds)
    forget_expired(conn, _WORKER)
    workers = sorted(holders(conn, _WORKER).values())
    taken = {_slot_number(name): by for name, by in holders(conn, _SLOT).items()}
    due = _due(workers.index(holder), len(workers))
    mine = [number for number in range(SLOTS) if taken.get(number) == holder]
    free = [number for number in range(SLOTS) if number not in taken]
    if mine[due:]:
        resign_all(conn, [_slot_name(number) for number in mine[due:]], holder)
    wanted = [*mine, *free][:due]
    names = [_slot_name(number) for number in sorted(wanted)]
    held = {_slot_number(name) for name in take_all(conn, names, holder, seconds)}
    return SlotShare(frozenset(held), len(held) == due)


def leave_slots(conn: Connection, holder: str) -> None:
    """Let all go at once."""
    names = [_WORKER + holder, *map(_slot_name, range(SLOTS))]
    resign_all(conn, names, holder)
    forget_expired(conn, _WORKER)


def _due(place: int, workers: int) -> int:
    """Return how many slots are due to the worker in this place of so many."""
    each, left = divmod(SLOTS, workers)
    return each + (place < left)


def _slot_name(number: int) -> str:
    return f"{_SLOT}{number:02}"


def _slot_number(name: str) -> int:
    return int(name.removeprefix(_SLOT))
