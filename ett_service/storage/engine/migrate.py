"""Bringing a database to this version's schema."""

import logging
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import URL, Connection, Engine, make_url, text
from sqlalchemy.exc import ArgumentError

from ett_service.storage.engine import postgresql, sqlite
from ett_service.storage.engine.driver import translated
from ett_service.storage.engine.errors import LockTimeout, WrongStore

_PACKAGE = Path(__file__).resolve().parents[2]

log = logging.getLogger(__name__)

TURN = 0x45_54_54
"""PostgreSQL's advisory lock of whoever migrates: one process at a time."""

_HELD = text(
    "SELECT EXISTS (SELECT FROM pg_locks l JOIN pg_database d ON d.oid = l.database "
    "WHERE d.datname = current_database() AND l.locktype = 'advisory' AND l.granted "
    "AND l.classid = 0 AND l.objid = :turn)"
).bindparams(turn=TURN)

PATIENCE_S = 60.0
"""So long a migration tries to get its locks; between two attempts others go on."""

_SHORTEST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 8.0


def migrate(
    url: str, revision: str = "head", patience_s: float = PATIENCE_S, *, citus: bool = False
) -> None:
    """Upgrade the database at *url*, which SQLite creates if there is none; head is the latest.

    With *citus* the rows of jobs are spread over its nodes; where they are already, what is new is
    spread in any case.

    On PostgreSQL servers and workers go on meanwhile: a lock that is not free within 3 s is given
    up, and everything is tried again after a pause, for *patience_s*.

    Raises ``WrongStore`` for an address that does not serve, or has no Citus, ``StoreInUse`` if
    another process writes the file, ``StorageUnavailable`` if the server does not answer or others
    hold its locks.
    """
    if citus and address(url).get_backend_name() == "sqlite":
        raise WrongStore(
            "SQLite is a file of one machine, which Citus cannot spread over others.",
            "Name a PostgreSQL server with Citus in `database_url`, or leave out --citus.",
        )

    def upgrade(config: Config) -> None:
        config.attributes["citus"] = citus
        command.upgrade(config, revision)

    change_schema(url, upgrade, patience_s)


def schema_is_current(conn: Connection) -> bool:
    """Whether the schema is the one that this version reads and writes."""
    return set(MigrationContext.configure(conn).get_current_heads()) == _heads()


def require_current(conn: Connection) -> None:
    """Raise ``WrongStore`` unless the schema is this version's: older, newer, or none."""
    if schema_is_current(conn):
        return
    (head, *_) = (*MigrationContext.configure(conn).get_current_heads(), "")
    if head and head not in _revisions():
        raise WrongStore(
            f"The database's schema, {head}, is newer than this version's, {schema_revision()}.",
            "Run the version of the service that made it, or a later one. Nothing was changed.",
        )
    raise WrongStore(
        f"The database's schema, {head or 'none'}, is older than this version's.",
        "Run: ett migrate",
    )


def is_migrating(conn: Connection) -> bool:
    """Whether the schema is being changed by another process, or is not this version's."""
    if conn.dialect.name == "postgresql" and conn.scalar(_HELD):
        return True
    return not schema_is_current(conn)


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
    """Return Alembic's settings; the connection goes into ``attributes["connection"]``.

    With ``attributes["citus"]`` the migrations end by spreading rows over nodes.
    """
    config = Config()
    config.set_main_option("script_location", str(migrations()).replace("%", "%%"))
    config.set_main_option("file_template", "%%(rev)s")
    return config


@cache
def _revisions() -> frozenset[str]:
    scripts = ScriptDirectory.from_config(configuration()).walk_revisions()
    return frozenset(script.revision for script in scripts)


@cache
def _heads() -> frozenset[str]:
    return frozenset(ScriptDirectory.from_config(configuration()).get_heads())


def change_schema(url: str, change: Callable[[Config], None], patience_s: float) -> None:
    """Change the schema of the database at *url*, alone; see ``migrate`` for locks and errors."""
    parsed = address(url)
    alone: AbstractContextManager[None] = nullcontext()
    engine: Engine
    if parsed.get_backend_name() == "sqlite":
        path = sqlite.path_of(parsed)
        alone, engine = sqlite.sole_writer(path), sqlite.writing_engine(path)
    else:
        engine = postgresql.pooled_engine(parsed)
    try:
        with alone:
            _change(engine, change, patience_s)
    finally:
        engine.dispose()


def _change(engine: Engine, change: Callable[[Config], None], patience_s: float) -> None:
    """Change the schema in one transaction; again after a pause where a lock was not free."""
    until_s, pause_s = time.monotonic() + patience_s, _SHORTEST_PAUSE_S
    while True:
        try:
            return _change_once(engine, change)
        except LockTimeout:
            if time.monotonic() + pause_s > until_s:
                raise
        log.warning("Others hold what the migration needs.", extra={"event": "lock_timeout"})
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


def _change_once(engine: Engine, change: Callable[[Config], None]) -> None:
    config = configuration()
    with translated(), engine.begin() as conn:
        config.attributes["connection"] = conn
        change(config)
