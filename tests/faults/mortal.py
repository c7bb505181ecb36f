"""Faults that a process of the service is given before it begins."""

import itertools
import os
import re
import signal
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine
from sqlalchemy import event as sql_event
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle


def die() -> None:
    """End this process as a power cut would."""
    os.kill(os.getpid(), signal.SIGKILL)


_WRITES = re.compile(
    r"BEGIN IMMEDIATE|INSERT|UPDATE|DELETE|CREATE|ALTER|DROP|COMMIT|SAVEPOINT|RELEASE"
)


def dies_at_write(armed: Path, number: int) -> None:
    """Die before the statement of that number by which SQLite writes once *armed* is there."""
    numbers = itertools.count()

    def count(statement: str) -> None:
        if _WRITES.match(statement) and armed.exists() and next(numbers) == number:
            die()

    def watch(connection: Any, _record: Any) -> None:
        connection.set_trace_callback(count)

    sql_event.listen(Engine, "connect", watch)


def dies_answering(armed: Path, part: str) -> None:
    """Die once *armed* is there, before the first byte of an answer or after its last."""
    send = RequestResponseCycle.send

    async def send_or_die(cycle: RequestResponseCycle, message: Any) -> None:
        is_begin = message["type"] == "http.response.start"
        dies = os.path.exists(armed) and is_begin == (part == "begin")  # noqa: ASYNC240, PTH110
        if dies and is_begin:
            die()
        await send(cycle, message)
        if dies:
            die()

    RequestResponseCycle.send = send_or_die  # type: ignore[assignment, method-assign]


def forgets_to_sync() -> None:
    """Leave the syncs of SQLite's log to checkpoints."""

    def change(connection: Connection) -> None:
        connection.connection.cursor().execute("PRAGMA synchronous = NORMAL")

    sql_event.listen(Engine, "engine_connect", change)  # the store has set its own by then


def checkpoints_often() -> None:
    """Carry SQLite's log over into its file after few pages."""

    def change(connection: Any, _record: Any) -> None:
        connection.execute("PRAGMA wal_autocheckpoint = 8")

    sql_event.listen(Engine, "connect", change)
