"""Statements that are sent together cost one round trip, and fail as each alone would."""

import os
import tempfile
from typing import Any

import pytest
from sqlalchemy import Connection, bindparam, insert, select
from sqlalchemy.exc import IntegrityError

from ett_service.aggregation.fold_job import KeptFold, prepare, refresh, store_prepared
from ett_service.core.events import AttemptStarted, JobFacts
from ett_service.storage import schema
from ett_service.storage.engine.driver import (
    Question,
    begin_last_trip,
    is_last_trip,
    read_and_end,
    read_together,
)
from ett_service.storage.engine.errors import StorageUnavailable
from ett_service.storage.engine.store import Store
from ett_service.storage.fleet.contributions import CohortIds
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.storage.schema import marker
from tests.builders.clock import HOUR, NOON
from tests.builders.ledgers import deliver
from tests.builders.record import event

ON_POSTGRESQL = pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)


def row(project_id: int, name: str) -> dict[str, Any]:
    texts = dict.fromkeys(("kind", "title", "labels", "made_by"), "")
    return {"project_id": project_id, "id": name, "at_us": 0, "made_us": 0, **texts}


class Trace:
    """What libpq sends and receives on a connection."""

    def __init__(self, conn: Connection) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed when it is read
        driver: Any = conn.connection.driver_connection
        self._pgconn = driver.pgconn
        self._pgconn.trace(self._file.fileno())

    def trips(self) -> int:
        """Stop, and count how often something was sent after an answer."""
        self._pgconn.untrace()
        with self._file as file:
            os.lseek(file.fileno(), 0, os.SEEK_SET)
            parts = [line.split(b"\t") for line in file.read().splitlines()]
        directions = [part[1] for part in parts if part[1:2] in ([b"F"], [b"B"])]
        return sum(
            after == b"F" != before
            for before, after in zip([b"B", *directions], directions, strict=False)
        )


def test_what_the_last_trip_writes_stands(store: Store, project_id: int) -> None:
    def work(conn: Connection) -> list[bool]:
        begun = [is_last_trip(conn)]
        begin_last_trip(conn)
        for name in "abc":
            conn.execute(insert(marker), row(project_id, name))
        return [*begun, is_last_trip(conn)]

    assert store.write(work) == [False, store.dialect == "postgresql"]
    of_project = select(marker.c.id).where(marker.c.project_id == bindparam("project"))
    with store.reading() as conn:
        (ids, none) = read_together(
            conn, [(of_project, {"project": project_id}), (of_project, {"project": 0})]
        )
    assert (sorted(ids), none) == ([("a",), ("b",), ("c",)], [])
    assert store.write(is_last_trip) is False


def test_an_error_of_the_last_trip_is_the_one_that_it_is_alone(
    store: Store, project_id: int
) -> None:
    def work(conn: Connection) -> None:
        begin_last_trip(conn)
        conn.execute(insert(marker), row(project_id, "a"))
        conn.execute(insert(marker), row(project_id, "a"))

    with pytest.raises(IntegrityError):
        store.write(work)
    with store.reading() as conn:
        assert conn.execute(select(marker)).all() == []


def test_nothing_stands_of_a_last_trip_that_an_error_ends(store: Store, project_id: int) -> None:
    def work(conn: Connection) -> None:
        begin_last_trip(conn)
        conn.execute(insert(marker), row(project_id, "a"))
        raise LookupError

    for _ in range(2):
        with pytest.raises(LookupError):
            store.write(work)
    with store.reading() as conn:
        assert conn.execute(select(marker)).all() == []


@ON_POSTGRESQL
def test_an_outage_in_the_last_trip_is_reported_as_one(store: Store) -> None:
    def work(conn: Connection) -> None:
        begin_last_trip(conn)
        conn.exec_driver_sql("SELECT pg_terminate_backend(pg_backend_pid())")
        conn.exec_driver_sql("SELECT 1")

    with pytest.raises(StorageUnavailable):
        store.write(work)


@ON_POSTGRESQL
def test_what_is_read_together_and_what_is_written_last_are_one_trip_each(
    store: Store, project_id: int
) -> None:
    questions: list[Question] = [
        (select(table), {}) for table in (marker, schema.job, schema.lease)
    ]

    def write(conn: Connection) -> tuple[int, Trace]:
        trace = Trace(conn)
        for statement, _ in questions:
            conn.execute(statement).all()
        apart = trace.trips()
        trace = Trace(conn)
        begin_last_trip(conn)
        for name in "abc":
            conn.execute(insert(marker), row(project_id, name))
        return apart, trace

    apart, written = store.write(write)
    with store.reading() as conn:
        trace = Trace(conn)
        read_and_end(conn, questions)

    assert (apart, written.trips(), trace.trips()) == (4, 1, 1)


@ON_POSTGRESQL
def test_a_fold_takes_few_trips(store: Store, project_id: int) -> None:
    key, events = JobKey(project_id, "llm-70b"), [event(AttemptStarted, gpus=8)]
    cohort_ids: CohortIds = {}
    kept: KeptFold | None = None
    counts = []

    def fold(conn: Connection) -> tuple[KeptFold | None, Trace]:
        trace = Trace(conn)
        if kept is None:
            assert prepared is not None
            return store_prepared(conn, prepared, NOON + HOUR), trace
        return refresh(conn, key, NOON + HOUR, kept, cohort_ids=cohort_ids), trace

    for number in range(3):
        deliver(store, key, [event(JobFacts, NOON + number, team="nlp"), *events])
        if not number:
            with store.reading() as conn:
                reading = Trace(conn)
                prepared = prepare(conn, key, NOON + HOUR)
            counts.append(reading.trips())
        kept, writing = store.write(fold)
        assert kept is not None
        cohort_ids |= kept.cohort_ids
        counts.append(writing.trips())

    # A new job of a new cohort: its events, marks, cohort, writes. Then: marks, hours, writes.
    assert counts == [1, 3, 3, 3]
