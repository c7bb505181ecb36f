"""A database with rows is brought to the newest schema while senders send.

Nothing is lost, and every number that was stored before is stored after.
"""

import threading
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager

import psycopg
import pytest
from sqlalchemy import Connection, Engine, MetaData, func, select

from ett_service.core.events import Event, JobFacts
from ett_service.ingest.accept import accept
from ett_service.ingest.decode import Batch
from ett_service.storage import schema as tables
from ett_service.storage.engine import migrate, postgresql
from ett_service.storage.engine.driver import translated
from ett_service.storage.engine.errors import StorageUnavailable
from ett_service.storage.engine.store import Store, open_store
from ett_service.storage.jobs import ledgers
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.storage.record.keys import create_project
from tests.builders.batches import batch
from tests.builders.clock import HOUR, NOON
from tests.builders.databases.schemas import undo
from tests.builders.ledgers import deliver, recomputed, refreshed
from tests.builders.ledgers import stored as stored_ledger
from tests.builders.record import event, restarted_job, wire
from tests.builders.rollups import check_rollups

#: The newest schema of which this version's ingest writes the tables as they were.
BEFORE = "20261210_retention"
SHORT, LONG = 2_000, 10_000_000
JOBS, FOLDED_JOBS = 50, 6

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
        self.enough = threading.Event()

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


FOLDED = ("job_ledger", "attempt_ledger", "segment", "share", "checkpoint", "counted")
SUMS = ("rollup_hourly", "rollup_daily", "tally_hourly", "tally_daily")

Rows = Counter[tuple[tuple[str, object], ...]]
"""How often each row is there, as its values by column."""


def facts(number: int) -> list[Event]:
    """Return what such a job has sent."""
    return [event(JobFacts, team=f"team-{number % 3}", gpus=8), *restarted_job()]


def fold_some(url: str) -> int:
    """Have some jobs folded and summed up, and take the database back; return their project."""
    migrate.migrate(url)
    store = open_store(url)
    project_id = store.write(lambda conn: create_project(conn, "research", NOON))
    for number in range(FOLDED_JOBS):
        key = JobKey(project_id, f"folded-{number}")
        deliver(store, key, facts(number))
        refreshed(store, key, NOON + HOUR)
    check_rollups(store)
    store.close()
    undo(url, BEFORE)
    return project_id


def numbers(conn: Connection, of: Mapping[str, Collection[str]] | None = None) -> dict[str, Rows]:
    """Read what folds have stored, by table; of each the columns of *of*, where that is given."""
    found: dict[str, Rows] = {}
    kept = MetaData()
    kept.reflect(conn, only=(*FOLDED, *SUMS))
    for name in (*FOLDED, *SUMS):
        table = kept.tables[name]
        columns = table.c if of is None else [table.c[each] for each in of[name]]
        found[name] = Counter(
            tuple(sorted(dict(row).items())) for row in conn.execute(select(*columns)).mappings()
        )
    return found


def events_by_job(conn: Connection) -> dict[str, tuple[int, ...]]:
    """Return of each job that sends nothing any more its events, and the sums of their instants."""
    of = tables.event.c
    sums = (func.count(), func.sum(of.at_us), func.sum(of.received_us))
    asked = select(of.job, *sums).where(of.job.not_like("new-%")).group_by(of.job)
    return {job: tuple(map(int, amounts)) for job, *amounts in conn.execute(asked)}


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("dialect", ["postgresql"])
@pytest.mark.parametrize("rows", [SHORT, pytest.param(LONG, marks=pytest.mark.long)])
def test_a_migration_under_load_loses_nothing_and_changes_no_number(
    bare_database_url: str, rows: int
) -> None:
    url = bare_database_url
    project_id = fold_some(url)
    fill(url, project_id, rows)
    engine = postgresql.pooled_engine(migrate.address(url))
    with engine.connect() as conn:
        before, sent_before = numbers(conn), events_by_job(conn)
    with sending(url, project_id, 2) as senders:
        _wait_for_some(senders)
        migrate.migrate(url)
        _wait_for_some(senders)

    columns = {table: dict(next(iter(stored))) for table, stored in before.items()}
    with engine.connect() as conn:
        after, sent_after = numbers(conn, columns), events_by_job(conn)
        stored = conn.scalar(select(func.count()).select_from(tables.event))
    engine.dispose()
    assert (after, sent_after) == (before, sent_before)
    of_others = sum(count for count, *_ in sent_before.values())
    assert stored == of_others + sum(sender.acknowledged for sender in senders)
    with closing(open_store(url)) as store:
        check_fold(store, JobKey(project_id, "folded-0"), len(facts(0)))
        check_fold(store, JobKey(project_id, "old-7"), rows // JOBS)


def check_fold(store: Store, key: JobKey, count: int) -> None:
    """Fold a job anew, and require all its events in what is stored then."""
    now_us = NOON + 2 * HOUR
    deliver(store, key, [])
    refreshed(store, key, now_us)
    assert stored_ledger(store, key) == recomputed(store, key, now_us)
    with store.reading() as conn:
        head = ledgers.head(conn, key)
    assert head is not None
    assert head.event_count == count


def _wait_for_some(senders: list[Sender]) -> None:
    before = [sender.acknowledged for sender in senders]
    until = time.monotonic() + 60
    while any(sender.acknowledged == n for sender, n in zip(senders, before, strict=True)):
        assert time.monotonic() < until
        time.sleep(0.01)
