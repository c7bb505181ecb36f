"""What ``ett doctor`` checks where the server's packages are installed."""

import shutil
import sqlite3
from argparse import Namespace
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

from ett_service.charts.units import size
from ett_service.cli.operations.config import loaded
from ett_service.cli.operations.doctor import Check, Finding, Status
from ett_service.cli.verb import now_us
from ett_service.core.errors import EttError
from ett_service.core.intervals import DAY_US, HOUR_US, rfc3339
from ett_service.logs import redact
from ett_service.settings import Settings
from ett_service.storage.engine.store import open_for_reading
from ett_service.storage.receivers.receivers import unwell as unwell_receivers
from ett_service.storage.record.keys import Key, list_keys
from ett_service.storage.sizes import SUGGESTED_DAYS, StoreSize, measure_store, suggested

_SQLITE = "sqlite:///"
#: The first release of each line whose log bears a second writer; all later lines begin so.
_MENDED_SQLITE = {(3, 44): 6, (3, 50): 7, (3, 51): 3}
_WITHDRAWN_SQLITE = (3, 52, 0)
_SOON_US = 14 * DAY_US
_LATELY_US = HOUR_US
_FULL = 64 << 20  #: bytes below which the next commits are in danger
_NEARLY_FULL = 1 << 30
_TABLES_NAMED = 4


def bears_writers(version: tuple[int, int, int]) -> bool:
    """Whether the write-ahead log of this SQLite loses no commit where several write to it."""
    major, minor, patch = version
    mended = _MENDED_SQLITE.get((major, minor))
    if mended is None:
        return version > _WITHDRAWN_SQLITE
    return patch >= mended


def sqlite(_: Namespace) -> Iterator[Finding]:
    """Check whether SQLite's write-ahead log can lose a commit."""
    sqlite_version = f"version {sqlite3.sqlite_version}"
    if bears_writers(sqlite3.sqlite_version_info):
        yield Finding("sqlite", Status.OK, sqlite_version)
        return
    todo = "Nothing, as long as no other program writes or checkpoints the database's file."
    yield Finding(
        "sqlite", Status.WARN, f"{sqlite_version}; its log tolerates one writer only", todo
    )


def database(args: Namespace) -> Iterator[Finding]:
    """Check whether the settings are valid, and their database is there and current."""
    try:
        settings = loaded(args).settings
    except EttError as error:
        yield Finding("settings", Status.FAIL, str(error), error.hint)
        return
    yield Finding("settings", Status.OK, "valid")
    url = settings.database_url
    if url.startswith(_SQLITE):
        yield _disk(Path(url.removeprefix(_SQLITE)).absolute().parent)
    try:
        with closing(open_for_reading(url)) as store, store.reading() as conn:
            kept = suggested(settings.retention_days, settings.rollups.hourly_days)
            measured = measure_store(conn, now_us(), kept)
            keys = list_keys(conn)
    except EttError as error:
        yield Finding("database", Status.FAIL, str(error), error.hint)
    else:
        yield Finding("database", Status.OK, f"{redact(url)} answers and has the latest schema")
        yield _room(measured, settings)
        yield from _expiring(keys, now_us())


def _room(measured: StoreSize, settings: Settings) -> Finding:
    """Say how much room the tables take, and what would change that."""
    largest = sorted(measured.tables.items(), key=lambda table: -table[1])[:_TABLES_NAMED]
    tables = ", ".join(f"{name} {size(n_bytes)}" for name, n_bytes in largest)
    growth = "growth is known from tomorrow on"
    if measured.week_bytes is not None:
        sign = "" if measured.week_bytes < 0 else "+"
        growth = f"{sign}{size(measured.week_bytes)} a week"
    record, hourly = settings.retention_days, settings.rollups.hourly_days
    freed = (
        f"pruning jobs closed for {record or SUGGESTED_DAYS} days would free "
        f"{_freed(measured.prunable_bytes)}{_unless(record, 'retention_days')}"
    )
    freed_hours = (
        f"pruning hours older than {hourly or SUGGESTED_DAYS} days would free "
        f"{_freed(measured.prunable_hourly_bytes)}{_unless(hourly, 'rollups.hourly_days')}"
    )
    text = f"{size(measured.total_bytes)}: {tables}\n{growth}; {freed}\n{freed_hours}"
    return Finding("size", Status.OK, text)


def _freed(n_bytes: int | None) -> str:
    return "an unknown amount" if n_bytes is None else size(n_bytes)


def _unless(days: int, setting: str) -> str:
    return "" if days else f" ({setting} is 0: nothing is pruned)"


def receivers(args: Namespace) -> Iterator[Finding]:
    """Check whether messages about regressions reach their receivers."""
    try:
        store = open_for_reading(loaded(args).settings.database_url)
    except EttError:
        return  # the check of the database says so
    with closing(store), store.reading() as conn:
        unwell = unwell_receivers(conn, now_us())
    if not unwell:
        yield Finding("receivers", Status.OK, "none is paused or disabled")
    for name, health in unwell:
        if health.disabled_why is not None:
            text = f"{name} gets nothing: {health.disabled_why}"
            todo = f"Once it wants messages again: ett receivers replay {name}"
        else:
            until = rfc3339(health.open_until_us or 0)
            text = f"{name} is paused until {until}, after {health.failures} failures in a row"
            todo = f"See what it answers: ett receivers test {name}"
        yield Finding("receivers", Status.WARN, text, todo)


def _expiring(keys: Iterable[Key], at_us: int) -> Iterator[Finding]:
    """Name the keys that expire soon, while there is time to replace them."""
    lines = [
        f"{key.prefix} ({key.project}, {key.name}) expires at {rfc3339(key.expires_at)}"
        + ("" if key.replaced_by is None else f"; {key.replaced_by} replaces it, and it is used")
        for key in keys
        if key.stands(at_us) and key.expires_at is not None and _is_missed(key, at_us)
    ]
    if lines:
        todo = "Make successors with `ett keys rotate`, and give them to whoever uses these."
        yield Finding("keys", Status.WARN, "\n".join(lines), todo)


def _is_missed(key: Key, at_us: int) -> bool:
    """Whether a key expires soon and has no successor yet, or somebody still uses it."""
    if key.expires_at is None or key.expires_at >= at_us + _SOON_US:
        return False
    used_at = key.last_used_at or 0
    return key.replaced_by is None or used_at > at_us - _LATELY_US


def _disk(folder: Path) -> Finding:
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        todo = "Make the folder, or name another in database_url."
        return Finding("disk", Status.FAIL, str(error), todo)
    space = f"{free >> 20} MiB free at {folder}"
    todo = "Make room: without it no event can be accepted."
    if free < _FULL:
        return Finding("disk", Status.FAIL, space, todo)
    if free < _NEARLY_FULL:
        return Finding("disk", Status.WARN, space, todo)
    return Finding("disk", Status.OK, space)


OF_THE_SERVER: tuple[Check, ...] = (sqlite, database, receivers)
"""In the order in which they are printed."""
