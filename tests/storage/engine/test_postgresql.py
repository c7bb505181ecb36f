"""What only PostgreSQL needs: requested durability, sessions that give up, a pool that heals."""

from collections.abc import Iterator

import psycopg
import pytest
from sqlalchemy import Connection, make_url
from sqlalchemy.exc import ProgrammingError

from ett_service.storage.engine.errors import Migrating, StorageUnavailable, WrongStore
from ett_service.storage.engine.migrate import TURN, schema_revision
from ett_service.storage.engine.store import Store, open_store
from ett_service.storage.record.keys import create_project
from tests.builders.clock import NOON


@pytest.fixture
def dialect() -> str:
    return "postgresql"


@pytest.fixture
def outside(database_url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(database_url.replace("+psycopg", ""), autocommit=True) as conn:
        yield conn


def test_a_server_that_may_lose_commits_is_refused(
    database_url: str, outside: psycopg.Connection
) -> None:
    name = make_url(database_url).database
    outside.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
    try:
        with pytest.raises(WrongStore, match="synchronous_commit = off"):
            open_store(database_url)
    finally:
        outside.execute(f"ALTER DATABASE {name} RESET synchronous_commit")


def test_a_write_that_waits_for_a_lock_gives_up(store: Store, outside: psycopg.Connection) -> None:
    with outside.transaction():
        outside.execute("LOCK TABLE project IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(StorageUnavailable, match="lock timeout"):
            store.write(lambda conn: create_project(conn, "waiting", NOON))


def test_what_waits_for_a_migration_says_so(store: Store, outside: psycopg.Connection) -> None:
    with outside.transaction():
        outside.execute("SELECT pg_advisory_xact_lock(%s)", (TURN,))
        outside.execute("LOCK TABLE project IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(Migrating, match="is being migrated"):
            store.write(lambda conn: create_project(conn, "waiting", NOON))

    assert store.write(lambda conn: create_project(conn, "waiting", NOON)) > 0


@pytest.mark.parametrize(("is_newer", "error"), [(True, Migrating), (False, ProgrammingError)])
def test_a_table_that_a_newer_schema_lacks_is_told_from_a_faulty_statement(
    store: Store, outside: psycopg.Connection, *, is_newer: bool, error: type[Exception]
) -> None:
    version = "29990101_future" if is_newer else schema_revision()
    outside.execute("UPDATE alembic_version SET version_num = %s", (version,))
    try:
        with pytest.raises(error), store.reading() as conn:
            conn.exec_driver_sql("SELECT gone FROM project")
    finally:
        outside.execute("UPDATE alembic_version SET version_num = %s", (schema_revision(),))


def test_the_next_write_stands_after_every_session_was_cut(
    store: Store, outside: psycopg.Connection
) -> None:
    def cut(conn: Connection) -> None:
        outside.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        conn.exec_driver_sql("SELECT 1")

    with pytest.raises(StorageUnavailable):
        store.write(cut)

    assert store.write(lambda conn: create_project(conn, "after", NOON)) > 0


def test_a_server_that_is_away_is_said_to_be_unavailable() -> None:
    with pytest.raises(StorageUnavailable):
        open_store("postgresql+psycopg://nobody@127.0.0.1:1/none")
