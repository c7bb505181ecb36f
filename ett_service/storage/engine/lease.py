"""Leases: who alone may act, by the database's clock.

A holder that was paused for longer than its lease does not know that another took it. So every
write under a lease begins with :func:`hold`, which finds the epoch that the next holder made.
"""

from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    bindparam,
    cast,
    func,
    literal_column,
    select,
    update,
)
from sqlalchemy import case as choice

from ett_service.core.errors import EttError
from ett_service.core.intervals import SECOND_US
from ett_service.storage.engine.statements import INSERTS
from ett_service.storage.schema import lease

IDLE_US = 2 * SECOND_US
"""Who is silent for so long inside a transaction loses it, and with it the row."""


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
    now_us = _CLOCKS[dialect]
    until_us = now_us + bindparam("lease_us")
    mine = lease.c.holder == bindparam("of_holder")
    fresh = INSERTS[dialect](lease).values(
        name=bindparam("of_name"), holder=bindparam("of_holder"), epoch=1, expires_us=until_us
    )
    return fresh.on_conflict_do_update(
        index_elements=[lease.c.name],
        set_={
            "holder": bindparam("of_holder"),
            "epoch": lease.c.epoch + choice((mine, 0), else_=1),
            "expires_us": until_us,
        },
        where=mine | (lease.c.expires_us < now_us),
    ).returning(lease.c.epoch)


_TAKE = {dialect: _taking(dialect) for dialect in _CLOCKS}
_NOW = {dialect: select(now_us) for dialect, now_us in _CLOCKS.items()}
_MINE = (lease.c.name == bindparam("of_name"), lease.c.epoch == bindparam("of_epoch"))
_HOLD = select(lease.c.epoch).where(*_MINE).with_for_update(read=True)
_RESIGN = update(lease).where(*_MINE).values(expires_us=0)


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


def resign(conn: Connection, name: str, epoch: int) -> None:
    """Let the lease go, so that the next need not wait; its epoch goes on from here."""
    conn.execute(_RESIGN, {"of_name": name, "of_epoch": epoch})


def _end_if_silent(conn: Connection, idle_us: int) -> None:
    """Have PostgreSQL end the transaction of a process that is paused in it.

    It locks the row of the lease, and would keep the next holder waiting for as long.
    """
    if conn.dialect.name == "postgresql":
        milliseconds = max(1, idle_us // 1_000)
        conn.exec_driver_sql(f"SET LOCAL idle_in_transaction_session_timeout = {milliseconds}")
