"""What ``ett doctor`` checks where the server's packages are installed."""

import shutil
import sqlite3
from argparse import Namespace
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

from ett_service.cli.operations.doctor import Check, Finding, Status
from ett_service.cli.operations.local import loaded
from ett_service.cli.verb import now_us
from ett_service.core.errors import EttError
from ett_service.core.intervals import DAY_US, rfc3339
from ett_service.logs import redact
from ett_service.storage.engine.store import open_for_reading
from ett_service.storage.record.keys import Key, list_keys

_SQLITE = "sqlite:///"
_SAFE_SQLITE = (3, 51, 3)
_SOON_US = 14 * DAY_US
_FULL = 64 << 20  #: bytes below which the next commits are in danger
_NEARLY_FULL = 1 << 30


def sqlite(_: Namespace) -> Iterator[Finding]:
    """Check whether SQLite's write-ahead log can lose a commit."""
    sqlite_version = f"version {sqlite3.sqlite_version}"
    if sqlite3.sqlite_version_info >= _SAFE_SQLITE:
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
            keys = list_keys(conn)
    except EttError as error:
        yield Finding("database", Status.FAIL, str(error), error.hint)
    else:
        yield Finding("database", Status.OK, f"{redact(url)} answers and has the latest schema")
        yield from _expiring(keys, now_us())


def _expiring(keys: Iterable[Key], at_us: int) -> Iterator[Finding]:
    """Name the keys that expire soon, while there is time to replace them."""
    soon = [
        key
        for key in keys
        if key.stands(at_us) and key.expires_at is not None and key.expires_at < at_us + _SOON_US
    ]
    if soon:
        todo = "Make others with `ett keys create`, and revoke these when nobody uses them."
        lines = [
            f"{key.prefix} ({key.project}, {key.name}) expires at {rfc3339(key.expires_at)}"
            for key in soon
            if key.expires_at is not None
        ]
        yield Finding("keys", Status.WARN, "\n".join(lines), todo)


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


OF_THE_SERVER: tuple[Check, ...] = (sqlite, database)
"""In the order in which they are printed."""
