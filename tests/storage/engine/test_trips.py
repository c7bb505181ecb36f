"""Statements that are sent together cost one round trip, and fail as each alone would."""

import os
import tempfile
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Connection, bindparam, insert, select
from sqlalchemy.exc import IntegrityError

from ett_service.aggregation.fold_job import refresh, warm
from ett_service.core.events import AttemptStarted, JobFacts
from ett_service.storage import schema
from ett_service.storage.engine.errors import StorageUnavailable
from ett_service.storage.engine.store import Store
from ett_service.storage.engine.trips import Question, in_one_trip, is_in_one_trip, read_together
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.storage.schema import marker
from tests.builders.clock import HOUR, NOON
from tests.builders.ledgers import deliver
from tests.builders.record import event

ON_POSTGRESQL = pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)


def row(project_id: int, name: str) -> dict[str, Any]:
    texts = dict.fromkeys(("kind", "title", "labels", "made_by"), "")
    return {"project_id": project_id, "id": name, "at_us": 0, "made_us": 0, **texts}


def trips(conn: Connection, act: Callable[[], object]) -> int:
    """Count what is sent and waited for, as libpq traces it."""
    driver: Any = conn.connection.driver_connection
    with tempfile.TemporaryFile() as file:
        driver.pgconn.trace(file.fileno())
        try:
            act()
        finally:
            driver.pgconn.untrace()
        os.lseek(file.fileno(), 0, os.SEEK_SET)
        sent = [line.split("\t") for line in file.read().decode().splitlines()]
    return sum("F" in line and {"Sync", "Query"} & set(line) != set() for line in sent)


def test_what_a_block_writes_stands(store: Store, project_id: int) -> None:
    def work(conn: Connection) -> list[bool]:
        blocks = [is_in_one_trip(conn)]
        with in_one_trip(conn):
            blocks.append(is_in_one_trip(conn))
            for name in "abc":
                conn.execute(insert(marker), row(project_id, name))
        return blocks

    assert store.write(work) == [False, store.dialect == "postgresql"]
    of_project = select(marker.c.id).where(marker.c.project_id == bindparam("project"))
    with store.reading() as conn:
        (ids, none) = read_together(
            conn, [(of_project, {"project": project_id}), (of_project, {"project": 0})]
        )
    assert (sorted(ids), none) == ([("a",), ("b",), ("c",)], [])


def test_an_error_in_a_block_is_the_one_that_it_is_alone(store: Store, project_id: int) -> None:
    def work(conn: Connection) -> None:
        with in_one_trip(conn):
            conn.execute(insert(marker), row(project_id, "a"))
            conn.execute(insert(marker), row(project_id, "a"))

    with pytest.raises(IntegrityError):
        store.write(work)
    with store.reading() as conn:
        assert conn.execute(select(marker)).all() == []


@ON_POSTGRESQL
def test_an_outage_in_a_block_is_told_as_one(store: Store) -> None:
    def work(conn: Connection) -> None:
        with in_one_trip(conn):
            conn.exec_driver_sql("SELECT pg_terminate_backend(pg_backend_pid())")
            conn.exec_driver_sql("SELECT 1")

    with pytest.raises(StorageUnavailable):
        store.write(work)


@ON_POSTGRESQL
def test_several_writes_and_several_reads_are_one_trip_each(store: Store, project_id: int) -> None:
    def write(conn: Connection) -> None:
        with in_one_trip(conn):
            for name in "abc":
                conn.execute(insert(marker), row(project_id, name))

    def work(conn: Connection) -> tuple[int, int, int]:
        conn.exec_driver_sql("SELECT 1")
        apart = trips(conn, lambda: [conn.exec_driver_sql("SELECT 1") for _ in range(3)])
        written = trips(conn, lambda: write(conn))
        questions: list[Question] = [
            (select(table), {}) for table in (marker, schema.job, schema.lease)
        ]
        return apart, written, trips(conn, lambda: read_together(conn, questions))

    assert store.write(work) == (3, 1, 1)


@ON_POSTGRESQL
def test_a_fold_takes_few_trips(store: Store, project_id: int) -> None:
    key, events = JobKey(project_id, "llm-70b"), [event(AttemptStarted, gpus=8)]
    counts: list[tuple[int, int]] = []
    for facts in (event(JobFacts, team="nlp"), event(JobFacts, NOON + 1, team="cv")):
        deliver(store, key, [facts, *events])
        with store.reading() as conn:
            conn.exec_driver_sql("SELECT 1")
            before = trips(conn, lambda: warm(conn, key))
            kept = warm(conn, key)

        def work(conn: Connection) -> int:
            conn.exec_driver_sql("SELECT 1")
            return trips(conn, lambda: refresh(conn, key, NOON + HOUR, kept))  # noqa: B023 - likewise

        counts.append((before, store.write(work)))
    assert all(read <= 7 and written <= 12 for read, written in counts), counts
