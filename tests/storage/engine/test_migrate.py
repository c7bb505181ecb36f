"""A database is brought to this version's schema; one that is not is recognised."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import psycopg
import pytest
from sqlalchemy import text

from ett_service.storage.engine.errors import StorageUnavailable, WrongStore
from ett_service.storage.engine.migrate import (
    address,
    migrate,
    migrations,
    require_current,
    schema_revision,
)
from ett_service.storage.engine.store import open_for_reading, open_store
from ett_service.storage.record.events import store_epoch
from tests.builders.databases.schemas import undo

_NEWER = "UPDATE alembic_version SET version_num = '29990101_future'"
_BACK = "UPDATE alembic_version SET version_num = :head"


def test_migrating_again_changes_nothing(bare_database_url: str) -> None:
    epochs = []
    for _ in range(2):
        migrate(bare_database_url)
        store = open_store(bare_database_url)
        with store.reading() as conn:
            require_current(conn)
            epochs.append(store_epoch(conn))
        store.close()

    assert epochs[0] == epochs[1]


def test_undoing_leaves_no_table_and_the_schema_is_then_refused(bare_database_url: str) -> None:
    migrate(bare_database_url)
    undo(bare_database_url)

    with pytest.raises(WrongStore, match="schema"):
        open_store(bare_database_url)


def test_two_stores_have_two_epochs(bare_database_url: str) -> None:
    epochs = set()
    for _ in range(2):
        migrate(bare_database_url)
        store = open_store(bare_database_url)
        with store.reading() as conn:
            epochs.add(store_epoch(conn))
        store.close()
        undo(bare_database_url)

    assert len(epochs) == 2


def test_a_server_that_is_away_is_said_to_be_unavailable() -> None:
    with pytest.raises(StorageUnavailable):
        migrate("postgresql://nobody@127.0.0.1:1/none")


@pytest.mark.parametrize("driver", ["postgresql", "postgresql+psycopg", "postgresql+psycopg2"])
def test_postgresql_is_always_spoken_to_by_one_driver(driver: str) -> None:
    assert address(f"{driver}://me@host/ett").drivername == "postgresql+psycopg"


def test_the_migrations_are_where_the_checkout_has_them() -> None:
    assert (migrations() / "env.py").is_file()


def test_a_newer_schema_is_refused_by_name(database_url: str) -> None:
    with closing(open_store(database_url)) as store:
        store.write(lambda conn: conn.execute(text(_NEWER)))
        with pytest.raises(WrongStore, match="29990101_future, is newer than") as refused:
            open_for_reading(database_url)
        store.write(lambda conn: conn.execute(text(_BACK), {"head": schema_revision()}))

    assert "a later one" in refused.value.hint


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_a_migration_tries_again_until_its_locks_are_free(bare_database_url: str) -> None:
    migrate(bare_database_url)
    address = bare_database_url.replace("+psycopg", "")
    with psycopg.connect(address) as reader, ThreadPoolExecutor(1) as threads:
        reader.execute("LOCK TABLE api_key IN ACCESS SHARE MODE")
        undone = threads.submit(undo, bare_database_url, "20261210_retention")
        with pytest.raises(TimeoutError):
            undone.result(timeout=3.5)  # longer than the first attempt waits
        reader.rollback()
        undone.result()

    with pytest.raises(WrongStore, match="20261210_retention, is older"):
        open_store(bare_database_url)
