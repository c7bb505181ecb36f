"""A deleted job leaves nothing behind, whoever was at it, and may come again."""

import itertools
from collections.abc import Callable
from concurrent.futures import Future, wait
from functools import partial
from typing import TypeVar

import pytest
from sqlalchemy import Connection, Table, select
from sqlalchemy.exc import IntegrityError

from ett_service.aggregation.fold_job import (
    KeptFold,
    Overtaken,
    prepare,
    refresh,
    store_prepared,
)
from ett_service.aggregation.verify import verify
from ett_service.core.events import Event, Exclusion
from ett_service.storage import retention
from ett_service.storage.engine.errors import StorageUnavailable
from ett_service.storage.engine.statements import insert_new, insert_values
from ett_service.storage.engine.store import Store
from ett_service.storage.record import corrections, dirty_marks
from ett_service.storage.record import events as stored_events
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.storage.retention import OF_A_JOB, Holdings, delete_job
from ett_service.storage.schema import dirty, event, metadata
from tests.builders.clock import NOON, SECOND
from tests.builders.databases.statements import FEWEST_STATEMENTS, before_statement
from tests.builders.ledgers import (
    LATE_IN_IT,
    accept,
    deliver,
    marked,
    recomputed,
    refreshed,
    running_job,
    stored,
)
from tests.builders.record import progress

T = TypeVar("T")

ON_POSTGRESQL = pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)


def deleted(store: Store, key: JobKey) -> Holdings | None:
    return store.write(lambda conn: delete_job(conn, key))


def full_job(store: Store, key: JobKey) -> KeptFold | None:
    """Keep a job with a row in nearly every table."""
    deliver(store, key, running_job(), offsets={"p": 0})
    store.write(
        lambda conn: corrections.put_exclusion(
            conn, key, [Exclusion(NOON)], why="a drill", made_by="", now_us=LATE_IN_IT
        )
    )
    return refreshed(store, key, LATE_IN_IT)


def content(store: Store, tables: tuple[Table, ...] = tuple(metadata.sorted_tables)) -> object:
    """Return every row of the *tables*."""
    with store.reading() as conn:
        return {
            table.name: sorted(map(repr, map(tuple, conn.execute(select(table)))))
            for table in tables
        }


def test_nothing_of_a_deleted_job_is_left_and_others_stay(store: Store, project_id: int) -> None:
    other, key = JobKey(project_id, "other"), JobKey(project_id, "gone")
    full_job(store, other)
    before = content(store)
    full_job(store, key)

    held = deleted(store, key)

    assert held == Holdings(events=len(running_job()), attempts=1, corrections=1)
    assert content(store) == before
    assert all(not verdict.differences for verdict in verify(store))


def test_every_table_with_a_job_is_known_and_the_job_itself_comes_last() -> None:
    named = {table.name for table in metadata.sorted_tables if "job" in table.columns}
    assert {table.name for table in OF_A_JOB} == named
    assert OF_A_JOB[-1].name == "job"


def test_what_is_not_there_cannot_be_deleted(store: Store, project_id: int) -> None:
    assert deleted(store, JobKey(project_id, "nothing")) is None
    with store.reading() as conn:
        assert retention.holdings(conn, JobKey(project_id, "nothing")) is None


def test_what_would_go_is_reported_and_stays(store: Store, project_id: int) -> None:
    key = JobKey(project_id, "stays")
    full_job(store, key)
    with store.reading() as conn:
        holdings = retention.holdings(conn, key)
    assert holdings == Holdings(events=len(running_job()), attempts=1, corrections=1)
    assert deleted(store, key) == holdings


def test_a_job_that_is_sent_again_starts_anew(store: Store, project_id: int) -> None:
    key = JobKey(project_id, "again")
    folded = full_job(store, key)
    deleted(store, key)
    assert refreshed(store, key, LATE_IN_IT, folded) is None

    deliver_anew(store, key, [progress(5)])

    assert refreshed(store, key, LATE_IN_IT, folded) is not None
    assert stored(store, key) == recomputed(store, key, LATE_IN_IT)
    assert [verdict.differences for verdict in verify(store)] == [()]


def deliver_anew(store: Store, key: JobKey, events: list[Event]) -> None:
    """Deliver *events* as the first ones of a job, later than any before."""

    def later(conn: Connection) -> None:
        born = {**key._asdict(), "received_us": LATE_IN_IT + SECOND}
        insert_new(conn, metadata.tables["job"], [born])
        accept(conn, key, events)

    store.write(later)


def test_a_fold_of_a_deleted_job_is_not_taken_for_one_of_its_successor(
    store: Store, project_id: int
) -> None:
    key = JobKey(project_id, "overtaken")
    deliver(store, key, running_job())
    stored_once = refreshed(store, key, LATE_IN_IT)
    deleted(store, key)
    deliver_anew(store, key, [progress(70, LATE_IN_IT)])
    refreshed(store, key, LATE_IN_IT)
    deliver(store, key, [progress(71, LATE_IN_IT + SECOND)])

    refreshed(store, key, LATE_IN_IT, stored_once)

    assert stored(store, key) == recomputed(store, key, LATE_IN_IT)


def test_what_was_prepared_of_a_deleted_job_is_not_stored_for_its_successor(
    store: Store, project_id: int
) -> None:
    key = JobKey(project_id, "overtaken")
    deliver(store, key, running_job())
    with store.reading() as conn:
        prepared = prepare(conn, key, LATE_IN_IT)
    assert prepared is not None
    deleted(store, key)
    deliver_anew(store, key, [progress(70, LATE_IN_IT)])

    with pytest.raises(Overtaken):
        store.write(lambda conn: store_prepared(conn, prepared, LATE_IN_IT))

    assert stored(store, key) is None
    assert marked(store) == [key]
    refreshed(store, key, LATE_IN_IT)
    assert stored(store, key) == recomputed(store, key, LATE_IN_IT)


def during(
    store: Store,
    place: int,
    work: Callable[[Connection], object],
    meanwhile: Callable[[Connection], T],
) -> Future[T] | None:
    """Do *work*, and *meanwhile* just before its statement at *place*; None if it has fewer.

    What goes on meanwhile is not waited for for long: it may have to wait for *work* itself.
    """
    begun: list[Future[T]] = []

    def begin() -> None:
        begun.append(store.submit(meanwhile))
        wait(begun, timeout=0.1)

    def interrupted(conn: Connection) -> None:
        with before_statement(conn, place, begin):
            work(conn)

    try:
        store.write(interrupted)
    except StorageUnavailable:
        begun[0].result()
        store.write(work)
    return begun[0] if begun else None


@ON_POSTGRESQL
def test_a_job_deleted_between_any_two_steps_of_a_refresh_is_gone(
    store: Store, project_id: int
) -> None:
    nothing = content(store, OF_A_JOB)
    for place in itertools.count():
        key = JobKey(project_id, f"refreshed-{place}")
        deliver(store, key, running_job())

        fold = partial(refresh, key=key, now_us=LATE_IN_IT)
        gone = during(store, place, fold, partial(delete_job, key=key))

        if gone is None:
            assert place >= FEWEST_STATEMENTS
            break
        assert gone.result() is not None
        assert content(store, OF_A_JOB) == nothing


@ON_POSTGRESQL
def test_a_worker_leaves_a_job_that_is_being_deleted(store: Store, project_id: int) -> None:
    nothing = content(store, OF_A_JOB)
    for place in itertools.count(1):
        key = JobKey(project_id, f"deleted-{place}")
        deliver(store, key, running_job())

        fold = partial(refresh, key=key, now_us=LATE_IN_IT)
        folded = during(store, place, partial(delete_job, key=key), fold)

        if folded is None:
            assert place >= FEWEST_STATEMENTS
            break
        assert folded.result() is None
        assert content(store, OF_A_JOB) == nothing


@ON_POSTGRESQL
def test_events_that_come_amid_a_deletion_go_along_or_make_a_new_job(
    store: Store, project_id: int
) -> None:
    for place in itertools.count():
        key = JobKey(project_id, f"told-{place}")
        deliver(store, key, running_job())

        tell = partial(accept, key=key, events=[progress(5)])
        future = during(store, place, partial(delete_job, key=key), tell)

        if future is None:
            assert place >= FEWEST_STATEMENTS
            break
        came = future.exception()
        assert came is None or isinstance(came, StorageUnavailable)
        assert count_events(store, key) == (0 if place == 0 or came else 1)
        refreshed(store, key, LATE_IN_IT)
        assert all(not verdict.differences for verdict in verify(store))


@ON_POSTGRESQL
def test_a_job_deleted_between_any_two_steps_of_ingest_goes_whole_or_comes_again(
    store: Store, project_id: int
) -> None:
    for place in itertools.count():
        key = JobKey(project_id, f"sent-{place}")
        deliver(store, key, running_job())

        tell = partial(accept, key=key, events=[progress(5)])
        gone = during(store, place, tell, partial(delete_job, key=key))

        if gone is None:
            assert place > 1
            break
        assert gone.result() is not None
        assert count_events(store, key) in (0, 1)
        assert marked(store) == ([key] if count_events(store, key) else [])
        deleted(store, key)


def count_events(store: Store, key: JobKey) -> int:
    with store.reading() as conn:
        return len(stored_events.events(conn, *key))


def test_no_event_is_kept_whose_job_is_gone_as_its_mark_refers_to_it(
    store: Store, project_id: int
) -> None:
    key = JobKey(project_id, "gone")
    columns = ("project_id", "job", "id", "type", "at_us", "received_us", "batch", "body")

    def late(conn: Connection) -> None:
        insert_values(conn, event, columns, [(*key, "a", "heartbeat", NOON, NOON, 1, "{}")])
        dirty_marks.mark(conn, key, NOON)

    with pytest.raises((StorageUnavailable, IntegrityError)):
        store.write(late)
    assert content(store, (event, dirty)) == {"event": [], "dirty": []}
