"""Slots: which jobs a worker looks after, where several work on one PostgreSQL database.

A job's slot follows from its key alone, and only the database works it out. Each slot is leased by
one worker, and each worker leases its place among them.
"""

from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, Integer, Table, Text, any_, bindparam, cast, func
from sqlalchemy.dialects.postgresql import ARRAY

from ett_service.storage.engine import lease

SLOTS = 64
"""More than workers are wanted, so that each can have about as many."""

_WORKER, _SLOT = "worker ", "slot "


class Share(NamedTuple):
    """The slots of a worker."""

    slots: frozenset[int]
    whole: bool  #: whether these are as many as the worker should have


def slot(jobs: Table) -> ColumnElement[int]:
    """Return the slot of a row's job, from 0 to before ``SLOTS``."""
    key = cast(jobs.c.project_id, Text).concat(" ").concat(jobs.c.job)
    digest = func.decode(func.md5(key), "hex")
    return func.get_byte(digest, 0, type_=Integer) % SLOTS


def in_slots(jobs: Table) -> ColumnElement[bool]:
    """Say in PostgreSQL whether a row's job is in one of the parameter ``slots``."""
    return slot(jobs) == any_(bindparam("slots", type_=ARRAY(Integer)))


def share(conn: Connection, holder: str, seconds: float) -> Share:
    """Lease for *seconds* as many slots as are the holder's due, and keep those it has.

    All workers that are there get the same number, or one less. What the holder has beyond that it
    lets go; what others have yet to let go it gets the next time.
    """
    lease.take(conn, _WORKER + holder, holder, seconds)
    lease.forget_expired(conn, _WORKER)
    workers = sorted(lease.holders(conn, _WORKER).values())
    taken = {_number(name): by for name, by in lease.holders(conn, _SLOT).items()}
    due = _due(workers.index(holder), len(workers))
    mine = [number for number in range(SLOTS) if taken.get(number) == holder]
    free = [number for number in range(SLOTS) if number not in taken]
    if mine[due:]:
        lease.resign_all(conn, [_name(number) for number in mine[due:]], holder)
    wanted = [*mine, *free][:due]
    names = [_name(number) for number in sorted(wanted)]
    held = {_number(name) for name in lease.take_all(conn, names, holder, seconds)}
    return Share(frozenset(held), len(held) == due)


def leave(conn: Connection, holder: str) -> None:
    """Let all go at once."""
    names = [_WORKER + holder, *map(_name, range(SLOTS))]
    lease.resign_all(conn, names, holder)
    lease.forget_expired(conn, _WORKER)


def _due(place: int, workers: int) -> int:
    """Return how many slots are due to the worker in this place of so many."""
    each, left = divmod(SLOTS, workers)
    return each + (place < left)


def _name(number: int) -> str:
    return f"{_SLOT}{number:02}"


def _number(name: str) -> int:
    return int(name.removeprefix(_SLOT))
