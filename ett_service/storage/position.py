"""How far a recomputation of everything has come, so that one that was cut off goes on there."""

from typing import NamedTuple

import msgspec
from sqlalchemy import Connection, delete, insert, select

from ett_service.storage.marks import JobKey
from ett_service.storage.tables import store

_NAME = "recompute"


class Position(NamedTuple):
    """What is done: all jobs up to this one, in the order of their keys."""

    last: JobKey
    jobs: int
    events: int


def read(conn: Connection) -> Position | None:
    """Return where the last recomputation was cut off; None if it came to its end."""
    text = conn.scalar(select(store.c.value).where(store.c.name == _NAME))
    return None if text is None else msgspec.json.decode(text, type=Position)


def write(conn: Connection, position: Position | None) -> None:
    """Note how far it has come; None that it came to its end."""
    conn.execute(delete(store).where(store.c.name == _NAME))
    if position is not None:
        text = msgspec.json.encode(position).decode()
        conn.execute(insert(store), {"name": _NAME, "value": text})
