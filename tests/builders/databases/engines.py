"""The engines that a test runs on, and databases of them."""

import os
import uuid
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import URL, Connection, exists, literal, make_url, select, union_all

from ett_service.storage.engine.migrate import migrate
from ett_service.storage.engine.store import Store
from ett_service.storage.schema import metadata

CITUS = "ETT_TEST_CITUS_URL"
"""Names a database of Citus, to which nodes were added; all that it holds is deleted."""

SERVERS = ("postgresql", "citus") if os.environ.get(CITUS) else ("postgresql",)
DIALECTS = ("sqlite", *SERVERS)

ON_SERVERS = pytest.mark.parametrize("dialect", SERVERS, indirect=True)
"""Marks a test in which several writers have a part, or what SQLite does not know."""

ON_ONE_ENGINE = pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
"""Marks a test in which the engine has no part."""

#: Names the tables that hold something, but for the one that names the store.
_FILLED = union_all(
    *(
        select(literal(table.name)).where(exists(select(literal(1)).select_from(table)))
        for table in metadata.sorted_tables
        if table.name != "store"
    )
)


@contextmanager
def new_postgresql(server: str, name: str | None = None) -> Iterator[str]:
    """Create a database on *server*, and drop it in the end whoever still uses it."""
    name = name or f"ett_test_{uuid.uuid4().hex[:12]}"
    address = make_url(server).set(drivername="postgresql")
    with psycopg.connect(_text(address), autocommit=True) as conn:
        conn.execute(f"CREATE DATABASE {name}")
    try:
        yield _text(address.set(drivername="postgresql+psycopg", database=name))
    finally:
        with psycopg.connect(_text(address), autocommit=True) as conn:
            conn.execute(f"DROP DATABASE {name} WITH (FORCE)")


@contextmanager
def new_database(request: pytest.FixtureRequest, folder: Path) -> Iterator[str]:
    """Make a database of the engine that is *request*'s parameter, with the current schema."""
    with ExitStack() as stack:
        url = f"sqlite:///{folder / 'ett.db'}"
        if request.param == "postgresql":
            url = stack.enter_context(new_postgresql(request.getfixturevalue("postgres_url")))
        migrate(url)
        yield url


def _text(address: URL) -> str:
    return address.render_as_string(hide_password=False)


def clear(store: Store) -> None:
    """Forget all that *store* holds but its own name."""

    def forget(conn: Connection) -> None:
        filled = set(conn.execute(_FILLED).scalars())
        with _without_triggers(conn, filled):
            for table in reversed(metadata.sorted_tables):
                if table.name in filled:
                    conn.execute(table.delete())
        own_name = metadata.tables["store"].c.name == "store_epoch"
        conn.execute(metadata.tables["store"].delete().where(~own_name))

    store.write(forget)


@contextmanager
def _without_triggers(conn: Connection, tables: Collection[str]) -> Iterator[None]:
    if conn.dialect.name == "postgresql":
        conn.exec_driver_sql("SET LOCAL session_replication_role = replica")
        yield
        conn.exec_driver_sql("SET LOCAL session_replication_role = origin")
        return
    listed = "SELECT name, sql, tbl_name FROM sqlite_master WHERE type = 'trigger'"
    triggers = [each for each in conn.exec_driver_sql(listed) if each.tbl_name in tables]
    for trigger in triggers:
        conn.exec_driver_sql(f"DROP TRIGGER {trigger.name}")
    yield
    for trigger in triggers:
        conn.exec_driver_sql(trigger.sql)
