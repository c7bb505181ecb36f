"""How much room the tables take, how fast they grow, and what pruning would free."""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, func, select, text
from sqlalchemy.exc import OperationalError

from ett_service.core.intervals import DAY_US
from ett_service.storage.engine import citus
from ett_service.storage.engine.driver import lift_time_limit
from ett_service.storage.engine.statements import replace_rows
from ett_service.storage.fleet import hours
from ett_service.storage.retention import Kept, Prunable, prunable
from ett_service.storage.schema import event, job, job_ledger, metadata, segment, store_size

WEEK_DAYS = 7

_MOST_SCANNED = 1 << 30
"""Bytes of a SQLite file above which its tables are not sized one by one: that reads all of it."""

WHOLE = "all"
"""The name of the whole file, where its tables are not sized one by one."""

_POSTGRESQL_SIZES = text(
    "SELECT relname, pg_total_relation_size(oid) FROM pg_class "
    "WHERE relkind IN ('r', 'p') AND relnamespace = current_schema()::regnamespace"
)
_FILE_SIZE = text("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")
_SQLITE_SIZES = text(
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
"""Days of retention, to say what pruning would free where nothing is pruned."""


def suggested(record_days: int = 0, hourly_days: int = 0) -> Kept:
    """Return how long the settings keep what is pruned, or should where they keep it for ever."""
    return Kept.for_days(record_days or SUGGESTED_DAYS, hourly_days or SUGGESTED_DAYS)


@dataclass(frozen=True, slots=True)
class StoreSize:
    """Sizes in bytes, indexes included; what would be freed is None where no table is sized."""

    tables: dict[str, int]
    week_bytes: int | None  #: growth of a week; None without a measurement of an earlier day
    prunable: Prunable
    prunable_bytes: int | None  #: what deleting it would free, by the mean size of an event
    prunable_hourly_bytes: int | None  #: what pruning hours would, by the size of a mean day

    @property
    def total_bytes(self) -> int:
        """All tables."""
        return sum(self.tables.values())

    @property
    def all_prunable_bytes(self) -> int | None:
        """What pruning jobs and hours would free."""
        if self.prunable_bytes is None or self.prunable_hourly_bytes is None:
            return None
        return self.prunable_bytes + self.prunable_hourly_bytes


def measure_store(conn: Connection, now_us: int, kept: Kept) -> StoreSize:
    """Measure the store, and roughly what pruning would free; what is kept for ever counts 0."""
    lift_time_limit(conn)  # every ledger is counted
    tables = table_sizes(conn)
    long_over = Prunable(0, 0)
    if kept.record_us is not None:
        long_over = prunable(conn, now_us - kept.record_us, roughly=True)
    return StoreSize(
        tables,
        _week_bytes(conn, sum(tables.values()), now_us),
        long_over,
        freed_bytes(conn, tables, long_over),
        freed_hourly_bytes(conn, tables, kept, now_us),
    )


def freed_bytes(conn: Connection, tables: Mapping[str, int], prunable: Prunable) -> int | None:
    """Return what deleting it would free: its share of the room that events and segments take.

    None where the tables are not sized one by one.
    """
    if WHOLE in tables:
        return None
    events = int(conn.scalar(_EVENTS) or 0)
    record_bytes = sum(tables.get(table.name, 0) for table in (event, segment))
    return record_bytes * prunable.events // events if events else 0


def freed_hourly_bytes(
    conn: Connection, tables: Mapping[str, int], kept: Kept, now_us: int
) -> int | None:
    """Return what pruning hours would free, 0 where they are kept for ever: their share of room.

    None where the tables are not sized one by one.
    """
    if kept.hourly_us is None:
        return 0
    if WHOLE in tables:
        return None
    days_before, days = hours.share_before(conn, now_us - kept.hourly_us)
    hourly_bytes = sum(tables.get(table.name, 0) for table in hours.PRUNED_TABLES)
    return hourly_bytes * days_before // days if days else 0


def record_sizes(conn: Connection, tables: Mapping[str, int], now_us: int) -> None:
    """Keep the sizes of a day, the latest of it."""
    day_us = now_us - now_us % DAY_US
    rows = [{"day_us": day_us, "name": name, "bytes": size} for name, size in tables.items()]
    replace_rows(conn, store_size, rows)


def table_sizes(conn: Connection) -> dict[str, int]:
    """Return the bytes of each table with its indexes; of a large SQLite file only ``WHOLE``."""
    if conn.dialect.name == "postgresql":
        rows = conn.execute(_POSTGRESQL_SIZES).all()
    else:
        file_bytes = conn.execute(_FILE_SIZE).scalar_one()
        if file_bytes > _MOST_SCANNED:
            return {WHOLE: file_bytes}
        try:
            rows = conn.execute(_SQLITE_SIZES).all()
        except OperationalError:  # this SQLite was built without the table of pages
            return {WHOLE: file_bytes}
    sizes = {name: int(size) for name, size in rows} | citus.sizes(conn)
    return {name: size for name, size in sizes.items() if name in metadata.tables}


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
