"""One way to a database, whichever it is: SQLite in a file, or PostgreSQL."""

from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol, TypeVar

from sqlalchemy import URL, Connection

from ett_service.storage.engine import migrate, postgresql, sqlite
from ett_service.storage.engine.errors import WrongStore

T = TypeVar("T")


class Readable(Protocol):
    """A store as its readers see it."""

    dialect: str  #: ``sqlite`` or ``postgresql``
    url: str

    def reading(self) -> AbstractContextManager[Connection]:
        """Open a connection that cannot write and sees one state throughout."""

    def close(self) -> None:
        """Let go of every connection; what was submitted is finished first."""


class Store(Readable, Protocol):
    """A store that takes writes.

    A *work* gets a connection inside a transaction of its own: it neither commits nor rolls back,
    and does not call the store. If it raises, nothing of it stands, and the caller gets the
    error; ``StorageUnavailable`` takes the place of a driver's error about the database's state.
    """

    def write(self, work: Callable[[Connection], T]) -> T:
        """Run *work*, and return its value once it is committed to stable storage."""

    def submit(self, work: Callable[[Connection], T]) -> Future[T]:
        """Do the same without waiting."""

    def require_room(self) -> None:
        """Raise ``StorageUnavailable`` where the disk has no room for more facts."""


def open_store(url: str, least_free: int = 0) -> Store:
    """Open the store at *url* for reading and writing.

    While less than *least_free* bytes are free beside a SQLite file, it has no room for more facts.

    Raises ``WrongStore`` if there is none or its schema is not the current one, ``StoreInUse`` if
    another process writes the file, ``StorageUnavailable`` if the server does not answer.
    """
    address = migrate.address(url)
    store: Store
    if address.get_backend_name() == "sqlite":
        store = sqlite.SqliteStore(_existing(address), least_free)
    else:
        store = postgresql.PostgresqlStore(address, migrate.is_migrating)
    return _checked(store)


def open_for_reading(url: str) -> Readable:
    """Open the store at *url* beside a process that may be writing it; errors as above."""
    address = migrate.address(url)
    if address.get_backend_name() == "sqlite":
        return _checked(sqlite.SqliteReaders(_existing(address)))
    return _checked(postgresql.PostgresqlStore(address, migrate.is_migrating))


S = TypeVar("S", bound=Readable)


def _checked(store: S) -> S:
    try:
        with store.reading() as conn:
            migrate.require_current(conn)
    except BaseException:  # raised again: nobody else could close it
        store.close()
        raise
    return store


def _existing(address: URL) -> Path:
    path = sqlite.path_of(address)
    if not path.exists():
        raise WrongStore(f"There is no database at {path}.", "Run: ett migrate")
    return path
