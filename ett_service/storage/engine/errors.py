"""What goes wrong with a store, in this package's words.

EttError
├── StorageUnavailable   the database did not answer, has no room or is closed: try again
│   ├── LockTimeout      another transaction held what this one needs for too long
│   └── Migrating        the schema is being changed, or is another version's
├── DamagedEvent         an event that is stored cannot be read
├── StoreInUse           another process writes this SQLite file
└── WrongStore           the address, the schema or the server's settings do not serve
"""

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


class DamagedEvent(EttError):
    """An event that is stored cannot be read; *job* is the name of its job, *why* what is wrong."""

    hint = "Restore the database from a backup, or delete the job: ett jobs delete JOB."

    def __init__(self, job: str, name: str, why: str) -> None:
        super().__init__(f"Event {name!r} of job {job!r} cannot be read: {why}")
        self.job, self._name, self.why = job, name, why

    def __reduce__(self) -> tuple[type["DamagedEvent"], tuple[str, str, str]]:
        return DamagedEvent, (self.job, self._name, self.why)


class StoreInUse(EttError):
    """A second process wants to write a SQLite file."""

    hint = "Stop the other process, or use PostgreSQL, which allows many writers."


class WrongStore(EttError):
    """There is nothing at this address that can be worked with."""
