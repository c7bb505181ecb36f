"""Bringing a database to this version's schema."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import URL, Connection, Engine, make_url
from sqlalchemy.exc import ArgumentError

from ett_service.storage.engine import postgresql, sqlite
from ett_service.storage.engine.errors import WrongStore, translated

_PACKAGE = Path(__file__).resolve().parents[2]


def migrate(url: str, revision: str = "head") -> None:
    """Upgrade the database at *url*, which SQLite creates if there is none; head is the latest.

    Raises ``WrongStore`` for an address that does not serve, ``StoreInUse`` if another process
    writes the file, ``StorageUnavailable`` if the server does not answer.
    """
    _run(url, lambda config: command.upgrade(config, revision))


def undo(url: str, revision: str = "base") -> None:
    """Take the database at *url* back to an earlier schema; base is none. Data is lost."""
    _run(url, lambda config: command.downgrade(config, revision))


def schema_is_current(conn: Connection) -> bool:
    """Whether the schema is the one that this version reads and writes."""
    return set(MigrationContext.configure(conn).get_current_heads()) == _heads()


def require_current(conn: Connection) -> None:
    """Raise ``WrongStore`` unless the schema is this version's."""
    if not schema_is_current(conn):
        raise WrongStore("The database's schema is not this version's.", "Run: ett migrate")


def schema_revision() -> str:
    """Return the name of the schema that this version reads and writes."""
    (head,) = _heads()
    return head


def address(url: str) -> URL:
    """Parse *url*, raising ``WrongStore`` unless it names SQLite in a file, or PostgreSQL."""
    hint = "Use sqlite:///ett.db or postgresql+psycopg://user@host/database"
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise WrongStore("The database's address cannot be read.", hint) from error
    match parsed.get_backend_name():
        case "postgresql":
            return parsed.set(drivername="postgresql+psycopg")
        case "sqlite" if parsed.database not in (None, "", ":memory:"):
            return parsed
        case "sqlite":
            raise WrongStore("SQLite in memory keeps nothing: a file is needed.", hint)
        case other:
            raise WrongStore(f"There is no store for {other}.", hint)


def migrations() -> Path:
    """Return the folder of the migrations: an installed package's own, else the checkout's."""
    packaged = _PACKAGE / "_migrations"
    return packaged if packaged.is_dir() else _PACKAGE.parent / "migrations"


def configuration() -> Config:
    """Return Alembic's settings; the connection goes into ``attributes["connection"]``."""
    config = Config()
    config.set_main_option("script_location", str(migrations()).replace("%", "%%"))
    config.set_main_option("file_template", "%%(rev)s")
    return config


@cache
def _heads() -> frozenset[str]:
    return frozenset(ScriptDirectory.from_config(configuration()).get_heads())


def _run(url: str, change: Callable[[Config], None]) -> None:
    parsed = address(url)
    alone: AbstractContextManager[None] = nullcontext()
    engine: Engine
    if parsed.get_backend_name() == "sqlite":
        path = sqlite.path_of(parsed)
        alone, engine = sqlite.sole_writer(path), sqlite.writing_engine(path)
    else:
        engine = postgresql.pooled_engine(parsed)
    config = configuration()
    try:
        with alone, translated(), engine.begin() as conn:
            config.attributes["connection"] = conn
            change(config)
    finally:
        engine.dispose()
