"""How much room the store takes, how fast it grows, and what pruning would free."""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, func, select, text
from sqlalchemy.exc import OperationalError

from ett_service.core.intervals import DAY_US
from ett_service.storage import retention
from ett_service.storage.engine.statements import lift_time_limit, replace_rows
from ett_service.storage.retention import Prunable
from ett_service.storage.schema import event, job, job_ledger, metadata, segment, store_size

WEEK_DAYS = 7

_MOST_SCANNED = 1 << 30
"""Bytes of a SQLite file from which on its tables are not told apart: all of it would be read."""

WHOLE = "all"
"""The name of the whole file, where its tables are not told apart."""

_POSTGRESQL = text(
    "SELECT relname, pg_total_relation_size(oid) FROM pg_class "
    "WHERE relkind IN ('r', 'p') AND relnamespace = current_schema()::regnamespace"
)
_FILE = text("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")
_SQLITE = text(
    "SELECT schema.tbl_name, sum(dbstat.pgsize) FROM dbstat('main', 1) "
    "JOIN sqlite_schema AS schema ON schema.name = dbstat.name GROUP BY 1"
)
_BEFORE = (
    select(store_size.c.day_us, func.sum(store_size.c.bytes))
    .where(store_size.c.day_us >= bindparam("since_us"), store_size.c.day_us < bindparam("day_us"))
    .group_by(store_size.c.day_us)
    .order_by(store_size.c.day_us)
    .limit(1)
)
_EVENTS = (
    select(func.coalesce(func.sum(job_ledger.c.event_count), 0))
    .join_from(
        job_ledger,
        job,
        (job.c.project_id == job_ledger.c.project_id) & (job.c.job == job_ledger.c.job),
    )
    .where(job.c.pruned_us.is_(None))
)

SUGGESTED_DAYS = 90
"""Of retention, to say what pruning would free where nothing is pruned."""


@dataclass(frozen=True, slots=True)
class StoreSize:
    """Sizes in bytes, indexes included."""

    tables: dict[str, int]
    week_bytes: int | None  #: growth of a week; None without a measurement of an earlier day
    prunable: Prunable
    prunable_bytes: int  #: what deleting it would free, by the mean size of an event

    @property
    def total_bytes(self) -> int:
        """All tables."""
        return sum(self.tables.values())


def measure(conn: Connection, now_us: int, retention_us: int) -> StoreSize:
    """Measure the store, and roughly what pruning jobs closed for *retention_us* would free."""
    lift_time_limit(conn)  # every ledger is counted
    tables = table_sizes(conn)
    prunable = retention.prunable(conn, now_us - retention_us, roughly=True)
    week_bytes = _week_bytes(conn, sum(tables.values()), now_us)
    return StoreSize(tables, week_bytes, prunable, freed_bytes(conn, tables, prunable))


def freed_bytes(conn: Connection, tables: Mapping[str, int], prunable: Prunable) -> int:
    """Return what deleting it would free: its share of the room that events and segments take."""
    events = int(conn.scalar(_EVENTS) or 0)
    record_bytes = sum(tables.get(table.name, 0) for table in (event, segment))
    return record_bytes * prunable.events // events if events else 0


def record(conn: Connection, tables: Mapping[str, int], now_us: int) -> None:
    """Keep the sizes of a day, the latest of it."""
    day_us = now_us - now_us % DAY_US
    rows = [{"day_us": day_us, "name": name, "bytes": size} for name, size in tables.items()]
    replace_rows(conn, store_size, rows)


def table_sizes(conn: Connection) -> dict[str, int]:
    """Return the bytes of each table with its indexes; of a large SQLite file only ``WHOLE``."""
    if conn.dialect.name == "postgresql":
        rows = conn.execute(_POSTGRESQL).all()
    else:
        file_bytes = conn.execute(_FILE).scalar_one()
        if file_bytes > _MOST_SCANNED:
            return {WHOLE: file_bytes}
        try:
            rows = conn.execute(_SQLITE).all()
        except OperationalError:  # this SQLite was built without the table of pages
            return {WHOLE: file_bytes}
    return {name: int(size) for name, size in rows if name in metadata.tables}


def _week_bytes(conn: Connection, total_bytes: int, now_us: int) -> int | None:
    """Extend the growth since the earliest measured day of the last week to a whole one."""
    day_us = now_us - now_us % DAY_US
    since = {"since_us": day_us - WEEK_DAYS * DAY_US, "day_us": day_us}
    earlier = conn.execute(_BEFORE, since).first()
    if earlier is None:
        return None
    earlier_us, earlier_bytes = earlier
    days = (day_us - earlier_us) // DAY_US
    return int((total_bytes - int(earlier_bytes)) * WEEK_DAYS // days)
