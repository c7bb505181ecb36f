"""SQLite in a file: one process, one writing connection, any number of readers.

SQLite before 3.51.3 can lose a commit when two connections write and checkpoint at the same
instant, and stock Pythons link older ones. So one connection writes and checkpoints, readers do
neither, and a lock file keeps a second writing process out.
"""

import fcntl
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.pool import StaticPool
from typing_extensions import override

from ett_service.storage.engine.driver import translate, translated
from ett_service.storage.engine.errors import StorageUnavailable, StoreInUse

T = TypeVar("T")

_EVERY_CONNECTION = (
    "PRAGMA busy_timeout = 5000",
    "PRAGMA foreign_keys = ON",
    "PRAGMA trusted_schema = OFF",
)
_WRITER = (
    *_EVERY_CONNECTION,
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    # On macOS only this reaches the disk itself; elsewhere it does nothing.
    "PRAGMA fullfsync = ON",
)
_READER = (*_EVERY_CONNECTION, "PRAGMA wal_autocheckpoint = 0", "PRAGMA query_only = ON")

#: Works committed together at most; later ones wait for the next commit.
_GROUP = 128
_READERS = 48

_RESERVE = 1 << 20
"""Bytes beside the file that are given up to open it on a full disk."""


def path_of(address: URL) -> Path:
    """Return the file that *address* names."""
    return Path(address.database or "").absolute()


@contextmanager
def sole_writer(path: Path) -> Iterator[None]:
    """Keep other writing processes out, raising ``StoreInUse`` if there is one."""
    lock = _lock(path)
    try:
        yield
    finally:
        os.close(lock)


def writing_engine(path: Path) -> Engine:
    """Return an engine with one connection, whose transactions begin as writers.

    A new file is its owner's alone, and so are the log and the index that SQLite puts beside it.
    """
    with suppress(OSError):  # SQLite says what is wrong with the place
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    return _engine(path, _WRITER, "BEGIN IMMEDIATE", poolclass=StaticPool)


class SqliteReaders:
    """Connections that see the last commit, and can neither write nor checkpoint."""

    dialect = "sqlite"

    def __init__(self, path: Path) -> None:
        self.url = f"sqlite:///{path}"
        self._path = path
        self._file = _identity(path)
        self._readers = _engine(
            path, _READER, "BEGIN", pool_size=_READERS, max_overflow=0, pool_timeout=10
        )

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Open a connection that cannot write and sees one state throughout."""
        self._require_file()
        with translated(), self._readers.connect() as conn:
            yield conn

    def require_room(self) -> None:
        """Take any amount of facts: nothing is written here."""

    def _require_file(self) -> None:
        """Refuse to work on a file that nobody can find any more: what it takes would be lost."""
        if _identity(self._path) != self._file:
            raise StorageUnavailable(f"{self._path} was deleted or replaced. Restart the service.")

    def close(self) -> None:
        """Let go of every connection."""
        self._readers.dispose()


class _Task(Generic[T]):
    """A submitted work: its result is given out only after the commit."""

    __slots__ = ("_error", "_value", "_work", "future")

    def __init__(self, work: Callable[[Connection], T]) -> None:
        self.future: Future[T] = Future()
        # Nobody can call it off any more: a cancelled future takes no result.
        self.future.set_running_or_notify_cancel()
        self._work = work
        self._value: T
        self._error: BaseException | None = None

    def run(self, conn: Connection) -> None:
        self._value = self._work(conn)

    def try_to_run(self, conn: Connection) -> bool:
        """Keep the failure for the caller, if it fails, and tell whether it did not."""
        try:
            self.run(conn)
        except Exception as error:  # noqa: BLE001 - the caller gets it
            self._error = error
        return self._error is None

    def tell(self) -> None:
        if self._error is None:
            self.future.set_result(self._value)
        else:
            self.fail(self._error)

    def fail(self, error: BaseException) -> None:
        self.future.set_exception(translate(error))


class SqliteStore(SqliteReaders):
    """Works of all threads, committed in groups: while one is under way the next gathers.

    A thread that finds nobody at it commits by itself, and so pays no hand over to another; the
    store's own thread commits for all others.
    """

    def __init__(self, path: Path, least_free: int = 0) -> None:
        super().__init__(path)
        self._least_free = least_free
        self._lock_file = _lock(path)
        try:
            self._writer = _writer_with_reserve(path)
        except BaseException:  # raised again: nobody else could unlock the file
            os.close(self._lock_file)
            raise
        self._leading = threading.Lock()
        self._queueing = threading.Lock()
        self._queue: deque[_Task[Any]] = deque()
        self._closed = False
        self._submitted: SimpleQueue[bool] = SimpleQueue()
        self._thread = threading.Thread(
            target=self._lead_for_others, name="ett-writer", daemon=True
        )
        self._thread.start()

    def write(self, work: Callable[[Connection], T]) -> T:
        """Run *work*, and return its value once it is committed to stable storage."""
        task = self._enqueue(work)
        if self._leading.acquire(blocking=False):
            try:
                self._commit_next()
            finally:
                self._leading.release()
            self._wake_for_the_rest()
        return task.future.result()

    def submit(self, work: Callable[[Connection], T]) -> Future[T]:
        """Do the same without waiting."""
        task = self._enqueue(work)
        self._submitted.put(True)
        return task.future

    @override
    def require_room(self) -> None:
        """Refuse new facts while little of the disk is free: what is left is for everything else.

        Raises:
            StorageUnavailable: There is less than the least, or the disk takes no writes.
        """
        try:
            disk = os.statvfs(self._path.parent)
        except OSError as error:
            raise StorageUnavailable(f"The disk of the database: {error.strerror}.") from error
        if disk.f_flag & os.ST_RDONLY:
            raise StorageUnavailable("The disk of the database is read-only.")
        free = disk.f_bavail * disk.f_frsize
        if free < self._least_free:
            raise StorageUnavailable(
                f"The disk of the database has {free >> 20} MiB free, of at least "
                f"{self._least_free >> 20}."
            )

    @override
    def close(self) -> None:
        """Finish what was submitted, then let go of the connections and the lock."""
        with self._queueing:
            if self._closed:
                return
            self._closed = True
        self._submitted.put(False)
        self._thread.join()
        super().close()
        # The writer leaves last: the last connection checkpoints.
        with self._leading:
            while self._queue:
                self._commit_next()
            self._writer.close()
            self._writer.engine.dispose()
        os.close(self._lock_file)

    def _enqueue(self, work: Callable[[Connection], T]) -> _Task[T]:
        task = _Task(work)
        with self._queueing:
            if self._closed:
                raise StorageUnavailable("The store is closed.")
            self._queue.append(task)
        return task

    def _lead_for_others(self) -> None:
        while self._submitted.get():
            with self._leading, suppress(SystemExit, KeyboardInterrupt):
                self._commit_next()  # who submitted them gets the error
            self._wake_for_the_rest()

    def _wake_for_the_rest(self) -> None:
        """Leave what has gathered to the store's own thread.

        Looked at after the lock is free: who enqueued before that found it taken, and waits.
        """
        if self._queue:
            self._submitted.put(True)

    def _commit_next(self) -> None:
        """Commit what has gathered, if anything: another thread may have done so."""
        group = [self._queue.popleft() for _ in range(min(len(self._queue), _GROUP))]
        if group:
            self._commit(group)

    def _commit(self, group: list[_Task[Any]]) -> None:
        try:
            self._require_file()
            with self._writer.begin():
                if len(group) == 1:
                    group[0].run(self._writer)
                else:
                    self._run_apart(group)
            self._require_file()
        except Exception as error:  # noqa: BLE001 - the callers get it
            for task in group:
                task.fail(error)
        except BaseException:  # a signal ends this thread while it is at the works of others, too
            for task in group:
                task.fail(StorageUnavailable("The process ends."))
            raise
        else:
            for task in group:
                task.tell()

    def _run_apart(self, group: list[_Task[Any]]) -> None:
        """Run each under a savepoint, so that its failure is its own."""
        connection = self._writer.connection.driver_connection
        assert connection is not None
        for task in group:
            self._writer.exec_driver_sql("SAVEPOINT work")
            succeeded = task.try_to_run(self._writer)
            if not connection.in_transaction:
                # A full disk, among others, makes SQLite roll back by itself, all of the group.
                raise StorageUnavailable("The database aborted the transaction.")
            if not succeeded:
                self._writer.exec_driver_sql("ROLLBACK TO work")
            self._writer.exec_driver_sql("RELEASE work")


def _writer_with_reserve(path: Path) -> Connection:
    """Open the writing connection, on a disk that is full, too.

    Its log and index need room even to be read, so some is kept for the next opening.
    """
    reserve = path.with_name(path.name + ".reserve")
    try:
        writer = _writer(path)
    except StorageUnavailable:
        if not reserve.exists():
            raise
        reserve.unlink()
        return _writer(path)
    _keep(reserve)
    return writer


def _writer(path: Path) -> Connection:
    engine = writing_engine(path)
    with translated():
        writer = engine.connect()
        try:
            with writer.begin():  # takes the lock of writers, for which SQLite makes its files
                pass
        except BaseException:  # raised again: nobody else could close it
            writer.close()
            engine.dispose()
            raise
        return writer


def _keep(reserve: Path) -> None:
    if reserve.exists():
        return
    file = os.open(reserve, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(file, 0, _RESERVE)
    except OSError:  # there is no room to keep
        reserve.unlink()
    finally:
        os.close(file)


def _identity(path: Path) -> tuple[int, int] | None:
    """Return what a file differs by from any other that is put in its place."""
    try:
        file = path.stat()
    except OSError:
        return None
    return file.st_dev, file.st_ino


def _lock(path: Path) -> int:
    name = path.with_name(path.name + ".lock")
    lock = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise StoreInUse(f"Another process is writing {path}.") from error
    return lock


def _engine(path: Path, pragmas: tuple[str, ...], begin: str, **pool: Any) -> Engine:
    engine = create_engine(
        URL.create("sqlite+pysqlite", database=str(path)),
        connect_args={"check_same_thread": False},
        hide_parameters=True,  # errors are logged, and events are their senders'
        **pool,
    )

    @event.listens_for(engine, "connect")
    def _connected(connection: Any, _record: object) -> None:
        # sqlite3 would begin transactions by itself, late, and only before some statements.
        connection.isolation_level = None
        for pragma in pragmas:
            connection.execute(pragma).close()

    @event.listens_for(engine, "begin")
    def _begun(conn: Connection) -> None:
        conn.exec_driver_sql(begin)

    return engine
