"""A consistent copy of a SQLite database in use, and a new name for one that was restored.

Trainers keep what was acknowledged to them for a while, with the name of the store that did. A
store that answers by another name has taken that one's place: they send again what it may lack.
"""

import os
import sqlite3
import tempfile
import uuid
from contextlib import closing
from pathlib import Path

from sqlalchemy import Connection, bindparam, update

from ett_service.core.errors import EttError
from ett_service.storage.schema import store

_EPOCH = "store_epoch"
_RENEW = update(store).where(store.c.name == _EPOCH).values(value=bindparam("epoch"))


class CannotBackUp(EttError):
    """There is nothing to copy, or something where the copy would go."""


def renew_epoch(conn: Connection) -> None:
    """Give the store a name that it never had, so that senders send again what it may lack."""
    conn.execute(_RENEW, {"epoch": uuid.uuid4().hex})


def back_up(database: Path, copy: Path, *, replace: bool = False) -> int:
    """Copy a SQLite file as of one instant to *copy*, under a new epoch; return its bytes.

    Servers go on writing meanwhile. The copy appears whole and on stable storage, or not at all,
    and only its owner can read it. What is there is left alone, unless *replace*.

    Raises:
        CannotBackUp: There is no such database, or it is damaged, or something is at *copy*.
        OSError: The disk takes no copy.
    """
    if not database.exists():
        raise CannotBackUp(f"There is no database at {database}.", "Run: ett config show")
    if copy.exists() and not replace:
        raise CannotBackUp(f"{copy} exists.", "Choose another path, or replace it with --force.")
    descriptor, name = tempfile.mkstemp(prefix=f".{copy.name}.", dir=copy.absolute().parent)
    draft = Path(name)
    try:
        _copy(database, draft)
        os.fsync(descriptor)
        _publish(draft, copy, replace=replace)
        return os.fstat(descriptor).st_size
    finally:
        os.close(descriptor)
        draft.unlink(missing_ok=True)


def _copy(database: Path, draft: Path) -> None:
    """Copy in one step: a reader's snapshot stands still, and keeps no writer waiting."""
    uri = f"{database.absolute().as_uri()}?mode=ro"
    try:
        with closing(sqlite3.connect(uri, uri=True)) as source, closing(_opened(draft)) as copy:
            source.backup(copy, pages=-1)
            copy.execute("PRAGMA journal_mode = DELETE")
            faults = [text for (text,) in copy.execute("PRAGMA quick_check(1)") if text != "ok"]
            if faults:
                raise CannotBackUp(f"The database is damaged: {faults[0]}.")
            epoch = {"name": _EPOCH, "value": uuid.uuid4().hex}
            copy.execute("UPDATE store SET value = :value WHERE name = :name", epoch)
    except sqlite3.Error as error:
        raise CannotBackUp(f"{database} cannot be copied: {error}.") from error


def _opened(draft: Path) -> sqlite3.Connection:
    return sqlite3.connect(draft, isolation_level=None)


def _publish(draft: Path, copy: Path, *, replace: bool) -> None:
    if replace:
        draft.replace(copy)
    else:
        try:
            copy.hardlink_to(draft)
        except FileExistsError:
            raise CannotBackUp(f"{copy} exists.", "Choose another path.") from None
    folder = os.open(copy.absolute().parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
