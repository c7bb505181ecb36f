"""Writes fixtures/first_schema.sqlite.sql: a small database in the first schema.

Run it from the top of the repository, only ever with the release whose schema it is:
``python -m tests.migrations.first_schema``
"""

import sqlite3
import tempfile
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from sqlalchemy import Connection

from ett_service.core.ledger.fold import fold
from ett_service.ingest.accept import accept
from ett_service.storage.engine.migrate import migrate
from ett_service.storage.engine.sqlite import writing_engine
from ett_service.storage.folded_jobs import JobChanges, LedgerRows
from ett_service.storage.jobs.ledgers import Head
from ett_service.storage.record import dirty_marks, events
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.storage.record.keys import create_key, create_project
from tests.builders.batches import batch
from tests.builders.clock import RECEIVED_AT
from tests.builders.record import wire

REVISION = "20261121_first_schema"
DUMP = Path(__file__).with_name("fixtures") / "first_schema.sqlite.sql"

EVENTS = (
    wire("job", team="nlp", gpus=64, labels={"tier": "1"}, id="facts"),
    wire("attempt_started", id="started"),
    wire("phase_started", phase="train_loop", id="loop"),
    wire("progress", step=100, at="2026-03-01T12:10:00Z", id="progress"),
    wire("checkpoint_saved", step=100, at="2026-03-01T12:10:30Z", id="saved"),
    wire("attempt_ended", outcome="failed", signal=9, at="2026-03-01T12:15:00Z", id="ended"),
)


def fill(conn: Connection) -> None:
    """Keep a key, a job with its ledger, and one that is marked and was imported."""
    project_id = create_project(conn, "research", RECEIVED_AT)
    scopes = ("read", "write")
    create_key(conn, project="research", name="trainer", scopes=scopes, now_us=RECEIVED_AT)
    sent = batch(*EVENTS, producer="p", sent_at="2026-03-01T12:59:55Z")
    accept(conn, sent, project_id=project_id, now_us=RECEIVED_AT)
    _fold(conn, JobKey(project_id, "llm-70b"))
    imported = batch(wire(job="imported", id="heartbeat"), history=True)
    accept(conn, imported, project_id=project_id, now_us=RECEIVED_AT)


def _fold(conn: Connection, key: JobKey) -> None:
    """Store the job's ledger as that release did, which knew no rollups."""
    dirty_marks.take(conn, key)
    folded = fold(events.events(conn, *key), events.offsets(conn, *key), RECEIVED_AT)
    head = Head(1, 1, len(EVENTS), folded_us=RECEIVED_AT, due_us=None)
    changes = JobChanges(key.project_id)
    changes.compare_ledger(key, replace(folded, checkpoints=()), head, LedgerRows())
    changes.write(conn, {}, RECEIVED_AT)


def main() -> None:
    """Build the database and dump it as text."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ett.db"
        migrate(f"sqlite:///{path}", REVISION)
        # Not as a store: that takes none but the newest schema.
        engine = writing_engine(path)
        with engine.begin() as conn:
            fill(conn)
        engine.dispose()
        with closing(sqlite3.connect(path)) as built:
            DUMP.write_text("\n".join(built.iterdump()) + "\n")


if __name__ == "__main__":
    main()
