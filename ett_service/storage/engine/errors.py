"""What goes wrong with a store, in this package's words.

EttError
├── StorageUnavailable   the database did not answer, has no room or is closed: try again
│   ├── LockTimeout      another transaction held what this one needs for too long
│   └── Migrating        the schema is being changed, or is another version's
├── StoreInUse           another process writes this SQLite file
└── WrongStore           the address, the schema or the server's settings do not serve
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError, IntegrityError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as NoFreeConnection

from ett_service.core.errors import EttError


class StorageUnavailable(EttError):
    """The database is unavailable; the outcome of a pending commit is unknown."""

    hint = "Try again. If it persists, check that the database runs and has free disk space."
    is_outage = True  #: a log has one line a minute of it, see ``ett_service.logs``


class LockTimeout(StorageUnavailable):
    """Another transaction held for too long what this one needs."""


class Migrating(StorageUnavailable):
    """The schema is being changed, or is not the one that this version reads and writes."""

    hint = "Wait for `ett migrate`; if none runs, run it, with this version of the service."


class StoreInUse(EttError):
    """A second process wants to write a SQLite file."""

    hint = "Stop the other process, or use PostgreSQL, which allows many writers."


class WrongStore(EttError):
    """There is nothing at this address that can be worked with."""


#: PostgreSQL: a row refers to one that is not there.
_FOREIGN_KEY_VIOLATION = "23503"

#: States of PostgreSQL that the driver does not tell as operational errors.
_STATES_OF_POSTGRESQL = frozenset(
    {
        "25P03",  # it ended a session whose process was silent inside a transaction; paused, mostly
        "25006",  # it takes no writes
        "0A000",  # nor a transaction that would: it is a standby
    }
)

#: PostgreSQL: a lock was not free within ``lock_timeout``.
_LOCK_NOT_AVAILABLE = "55P03"

#: Primary result codes that tell of the database's state and not of a faulty statement.
_STATES_OF_SQLITE = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_INTERRUPT,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_READONLY,
    }
)


def translate(error: BaseException) -> BaseException:
    """Return ``StorageUnavailable`` for what the database's state caused, else *error* itself."""
    if not _is_of_the_database(error):
        return error
    is_locked = getattr(getattr(error, "orig", None), "sqlstate", None) == _LOCK_NOT_AVAILABLE
    kind = LockTimeout if is_locked else StorageUnavailable
    unavailable = kind(f"The database is unavailable: {_reason(error)}.")
    unavailable.__cause__ = error
    return unavailable


@contextmanager
def translated() -> Iterator[None]:
    """Raise ``StorageUnavailable`` in place of a driver's error about the database's state."""
    try:
        yield
    except (DBAPIError, NoFreeConnection) as error:
        translation = translate(error)
        if translation is error:
            raise
        raise translation from error


def _is_of_the_database(error: BaseException) -> bool:
    if isinstance(error, NoFreeConnection):
        return True
    if not isinstance(error, DBAPIError):
        return False
    code = getattr(error.orig, "sqlite_errorcode", None)
    if code is not None:
        return code & 0xFF in _STATES_OF_SQLITE
    state = getattr(error.orig, "sqlstate", None)
    if isinstance(error, IntegrityError):
        # Its job was deleted between two statements of a writer, who succeeds on the next try.
        return state == _FOREIGN_KEY_VIOLATION
    return isinstance(error, OperationalError | InterfaceError) or state in _STATES_OF_POSTGRESQL


def _reason(error: BaseException) -> str:
    """Return the driver's first line: the statement and its values stay out of messages."""
    if isinstance(error, DBAPIError):
        lines = str(error.orig).strip().splitlines()
        return lines[0].rstrip(".") if lines else type(error.orig).__name__
    return "no connection became free in time"
