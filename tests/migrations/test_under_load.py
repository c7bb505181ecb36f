"""A database with rows is brought to the newest schema while senders send: nothing is lost."""

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event

import psycopg
import pytest
from sqlalchemy import Engine, func, select

from ett_service.ingest.accept import accept
from ett_service.ingest.decode import Batch
from ett_service.storage.engine import migrate, postgresql
from ett_service.storage.engine.driver import translated
from ett_service.storage.engine.errors import StorageUnavailable
from ett_service.storage.engine.store import open_store
from ett_service.storage.record.keys import create_project
from ett_service.storage.schema import event
from tests.builders.batches import batch
from tests.builders.clock import NOON
from tests.builders.record import wire

#: The newest schema of which this version's ingest writes the tables as they were.
BEFORE = "20261210_retention"
SHORT, LONG = 2_000, 10_000_000
JOBS = 50

_FILL = """
COPY (
  SELECT {project}, 'old-' || n % {jobs}, 'e' || n, 'heartbeat', {noon} + n, {noon} + n, 1, '{{}}'
  FROM generate_series(1, {rows}) n
) TO STDOUT
"""


def fill(url: str, project_id: int, rows: int) -> None:
    """Make up *rows* events by COPY, out of one session and into another."""
    address = url.replace("+psycopg", "")
    with psycopg.connect(address) as source, psycopg.connect(address) as target:
        target.execute(
            "INSERT INTO job (project_id, job, received_us) "
            "SELECT %s, 'old-' || n, %s FROM generate_series(0, %s) n",
            (project_id, NOON, JOBS - 1),
        )
        query = _FILL.format(project=project_id, jobs=JOBS, noon=NOON, rows=rows)
        columns = "project_id, job, id, type, at_us, received_us, batch, body"
        with (
            source.cursor().copy(query) as made,
            target.cursor().copy(f"COPY event ({columns}) FROM STDIN") as taken,
        ):
            for piece in made:
                taken.write(piece)


class Sender:
    """Sends batches of one event, each until it is acknowledged, as trainers do."""

    def __init__(self, engine: Engine, project_id: int, name: str) -> None:
        self._engine = engine
        self._project_id = project_id
        self._name = name
        self.acknowledged = 0
        self.longest_s = 0.0
        self.enough = Event()

    def run(self) -> None:
        """Send until there is enough."""
        while not self.enough.is_set():
            began = time.monotonic()
            sent = batch(wire("heartbeat", job=self._name, id=f"{self._name}-{self.acknowledged}"))
            while not self._is_sent(sent):
                time.sleep(0.05)
            self.acknowledged += 1
            self.longest_s = max(self.longest_s, time.monotonic() - began)

    def _is_sent(self, sent: Batch) -> bool:
        try:
            with translated(), self._engine.begin() as conn:
                accept(conn, sent, project_id=self._project_id, now_us=NOON)
        except StorageUnavailable:
            return False
        return True


@contextmanager
def sending(url: str, project_id: int, count: int) -> Iterator[list[Sender]]:
    """Send from several threads while the block runs."""
    engine = postgresql.pooled_engine(migrate.address(url))
    senders = [Sender(engine, project_id, f"new-{number}") for number in range(count)]
    with ThreadPoolExecutor(count) as threads:
        running: list[Future[None]] = [threads.submit(sender.run) for sender in senders]
        try:
            yield senders
        finally:
            for sender in senders:
                sender.enough.set()
            for each in running:
                each.result()
    engine.dispose()


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("dialect", ["postgresql"])
@pytest.mark.parametrize("rows", [SHORT, pytest.param(LONG, marks=pytest.mark.long)])
def test_a_migration_under_load_loses_nothing(bare_database_url: str, rows: int) -> None:
    url = bare_database_url
    migrate.migrate(url, BEFORE)
    engine = postgresql.pooled_engine(migrate.address(url))
    with engine.begin() as conn:
        project_id = create_project(conn, "research", NOON)
    fill(url, project_id, rows)
    with sending(url, project_id, 2) as senders:
        _wait_for_some(senders)
        migrate.migrate(url)
        _wait_for_some(senders)

    store = open_store(url)
    with store.reading() as conn:
        stored = conn.scalar(select(func.count()).select_from(event))
    store.close()
    engine.dispose()
    assert stored == rows + sum(sender.acknowledged for sender in senders)


def _wait_for_some(senders: list[Sender]) -> None:
    before = [sender.acknowledged for sender in senders]
    until = time.monotonic() + 60
    while any(sender.acknowledged == n for sender, n in zip(senders, before, strict=True)):
        assert time.monotonic() < until
        time.sleep(0.01)
