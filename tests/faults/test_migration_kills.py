"""A migration that is killed anywhere leaves the schema that was, and the next run completes it."""

import itertools
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Boolean, Connection, Engine, MetaData, Table, create_engine

from ett_service.storage import schema
from ett_service.storage.engine.migrate import migrate
from ett_service.storage.engine.store import open_for_reading
from ett_service.storage.record import events as stored_events
from ett_service.storage.record.keys import list_keys
from tests.builders.databases.between import between
from tests.builders.servers.processes import Running, bare_environment, run
from tests.builders.tally import Tally
from tests.faults.mortal import dies_at_write
from tests.faults.plan import Plan
from tests.migrations import first_schema

SHORT_STEP = 140  #: statements from one kill to the next
LONG_STEP = 5


KEPT = {each["id"] for each in first_schema.EVENTS}


def first_database(path: Path) -> Path:
    """Make a file of the first schema, with its rows."""
    with closing(sqlite3.connect(path)) as conn:
        conn.executescript(first_schema.DUMP.read_text())
    return path


def fact_ids(url: str) -> set[str]:
    """Return the ids of the events of the job that those rows are of."""
    with closing(open_for_reading(url)) as store, store.reading() as conn:
        (key,) = list_keys(conn)
        return {each.id for each in stored_events.events(conn, key.project_id, "llm-70b")}


def environment(url: str) -> dict[str, str]:
    return {**bare_environment(), "ETT_DATABASE_URL": url}


def differences(conn: Connection) -> list[object]:
    return list(compare_metadata(MigrationContext.configure(conn), schema.metadata))


def completed(url: str) -> None:
    """Migrate to the end, and require the whole schema."""
    done = run("migrate", environment=environment(url))
    assert done.returncode == 0, done.stderr
    with closing(open_for_reading(url)) as store, store.reading() as conn:
        assert differences(conn) == []


@pytest.mark.parametrize("step", [SHORT_STEP, pytest.param(LONG_STEP, marks=pytest.mark.long)])
def test_sqlite_is_upgraded_with_all_that_it_holds(tmp_path: Path, step: int, tally: Tally) -> None:
    armed = tmp_path / "armed"
    armed.touch()
    for number in itertools.count(tally.draw.randrange(step), step):
        url = f"sqlite:///{first_database(tmp_path / f'{number}.db')}"
        prepare = partial(dies_at_write, armed, number)
        if Running("migrate", environment=environment(url), prepare=prepare).wait() == 0:
            break
        tally.add(kills=1)
        assert revision(url) == first_schema.REVISION
        completed(url)
        assert fact_ids(url) == KEPT


@pytest.mark.long
@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_postgresql_is_upgraded_with_all_that_it_holds(
    bare_database_url: str, tmp_path: Path, tally: Tally
) -> None:
    migrate(bare_database_url, first_schema.REVISION)
    copy_rows(first_database(tmp_path / "first.db"), bare_database_url)
    plan, step = Plan(), 4 * LONG_STEP
    with between(bare_database_url, plan.meet) as url:
        for number in itertools.count(tally.draw.randrange(step), step):
            migrating = Running("migrate", environment=environment(url))
            plan.act(number, migrating.kill)
            if migrating.wait() == 0:
                break
            tally.add(kills=1)
            assert revision(bare_database_url) == first_schema.REVISION
        plan.forget()
    completed(bare_database_url)
    assert fact_ids(bare_database_url) == KEPT


def copy_rows(source: Path, url: str) -> None:
    """Copy every row of a SQLite file into the same tables of another database."""
    with closing(sqlite3.connect(source)) as conn, disposed(create_engine(url)) as engine:
        tables = MetaData()
        tables.reflect(engine)
        conn.row_factory = sqlite3.Row
        with engine.begin() as target:
            for table in tables.sorted_tables:
                rows = [dict(row) for row in conn.execute(f"SELECT * FROM {table.name}")]  # noqa: S608
                if rows and table.name != "alembic_version":
                    target.execute(table.delete())
                    target.execute(table.insert(), [typed(table, row) for row in rows])


def typed(table: Table, row: dict[str, Any]) -> dict[str, Any]:
    """Return a row of SQLite, which has no type of its own for what is true."""
    return {
        name: bool(value)
        if isinstance(table.c[name].type, Boolean) and value is not None
        else value
        for name, value in row.items()
    }


@contextmanager
def disposed(engine: Engine) -> Iterator[Engine]:
    """Let go of its connections in the end."""
    try:
        yield engine
    finally:
        engine.dispose()


def revision(url: str) -> str:
    """Return the name of a database's schema."""
    with disposed(create_engine(url)) as engine, engine.connect() as conn:
        name: str = conn.exec_driver_sql("SELECT version_num FROM alembic_version").scalar_one()
    return name
