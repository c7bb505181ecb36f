"""A database of an earlier release is brought to the newest schema and read."""

import sqlite3
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import select

from ett_service.core.events import AttemptStarted, PhaseStarted
from ett_service.core.intervals import LARGEST_STORED
from ett_service.core.words import Phase
from ett_service.storage import schema as tables
from ett_service.storage.engine.migrate import migrate
from ett_service.storage.engine.store import open_store
from ett_service.storage.record import events as stored_events
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.storage.record.keys import create_project, list_keys
from ett_service.worker.ledgers import Worker
from tests.builders.batches import batch
from tests.builders.clock import HOUR, MINUTE, NOON, RECEIVED_AT
from tests.builders.databases.schemas import undo
from tests.builders.ledgers import deliver, refreshed
from tests.builders.record import event, progress
from tests.builders.rollups import check_rollups, stored_rollups
from tests.builders.servers.waiting import wait_for
from tests.builders.servers.worker import running
from tests.migrations import first_schema


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """Return a database in the first schema."""
    path = tmp_path / "kept.db"
    conn = sqlite3.connect(path)
    conn.executescript(first_schema.DUMP.read_text())
    conn.close()
    return path


def schema(path: Path) -> set[str]:
    conn = sqlite3.connect(path)
    statements = {
        row[0] for row in conn.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")
    }
    conn.close()
    return statements


def test_the_dump_is_of_the_first_schema(database: Path, tmp_path: Path) -> None:
    built = tmp_path / "built.db"
    migrate(f"sqlite:///{built}", first_schema.REVISION)

    assert schema(database) == schema(built)


def test_a_database_of_the_first_schema_is_upgraded_and_read(database: Path) -> None:
    migrate(f"sqlite:///{database}")
    store = open_store(f"sqlite:///{database}")
    with store.reading() as conn:
        (key,) = list_keys(conn)
        events = stored_events.events(conn, key.project_id, "llm-70b")
        offsets = stored_events.offsets(conn, key.project_id, "llm-70b")
        ledgers = list(conn.execute(select(tables.job_ledger.c.job, tables.job_ledger.c.state)))
        marked = list(conn.execute(select(tables.dirty.c.job)).scalars())
        differences = compare_metadata(MigrationContext.configure(conn), tables.metadata)
    store.close()

    sent = batch(*first_schema.EVENTS, producer="p").arrivals
    assert {each.id: each for each in events} == {each.event.id: each.event for each in sent}
    assert offsets == {"p": 5_000_000}
    assert [tuple(row) for row in ledgers] == [("llm-70b", "interrupted")]
    assert marked == ["imported"]
    assert differences == []


def test_what_an_earlier_release_folded_is_rolled_up_by_the_worker(database: Path) -> None:
    migrate(f"sqlite:///{database}")
    store = open_store(f"sqlite:///{database}")
    worker = Worker(store, lambda: RECEIVED_AT)
    with running(worker):
        assert wait_for(lambda: bool(stored_rollups(store)))
    rollups = check_rollups(store)
    store.close()

    assert {label.team for _, _, _, (label, _) in rollups} == {"nlp", ""}


LOST = select(
    tables.job_ledger.c.job,
    tables.job_ledger.c.lost_weighted_us,
    tables.job_ledger.c.lost_gpu_us,
)


def test_what_jobs_lost_is_summed_as_a_fold_sums_it(bare_database_url: str) -> None:
    migrate(bare_database_url)
    store = open_store(bare_database_url)
    project_id = store.write(lambda conn: create_project(conn, "p", NOON))
    for name, gpus in {"small": 8, "largest": 2**40, "unknown": None}.items():
        key = JobKey(project_id, name)
        facts = [
            event(AttemptStarted, gpus=gpus),
            event(PhaseStarted, NOON + MINUTE, phase=Phase.TRAIN_LOOP),
            progress(1, NOON + 2 * MINUTE),
        ]
        deliver(store, key, facts)
        refreshed(store, key, NOON + HOUR)
    with store.reading() as conn:
        folded = set(map(tuple, conn.execute(LOST)))
    store.close()
    undo(bare_database_url, "20261216_lean_events")

    migrate(bare_database_url)
    store = open_store(bare_database_url)
    with store.reading() as conn:
        upgraded = set(map(tuple, conn.execute(LOST)))
    store.close()

    assert upgraded == folded
    assert {weighted for _, weighted, _ in folded} >= {None, LARGEST_STORED}
