"""Marks say which jobs are to be folded, and a lock keeps two from folding one."""

from functools import partial

from sqlalchemy import Connection, update

from ett_service.storage.engine.store import Store
from ett_service.storage.jobs import ledgers
from ett_service.storage.metrics import gauge_values
from ett_service.storage.record import dirty_marks, events
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.storage.schema import job_ledger
from tests.builders.clock import NOON, RECEIVED_AT
from tests.builders.databases.engines import ON_SERVERS
from tests.builders.ledgers import deliver, marks, refreshed
from tests.builders.record import progress


def test_the_job_marked_longest_ago_comes_first(store: Store, project_id: int) -> None:
    first, second = JobKey(project_id, "z"), JobKey(project_id, "a")
    for key in (first, second, first):
        deliver(store, key, [])

    with store.reading() as conn:
        assert [*dirty_marks.waiting(conn, 0, 10).last_marked_us] == [first, second]
        assert [*dirty_marks.waiting(conn, 0, 1).last_marked_us] == [first]
        assert gauge_values.waiting(conn).jobs == 2
    assert len(marks(store, first)) == 2


def test_marks_are_taken_once(store: Store, project_id: int) -> None:
    key, other = JobKey(project_id, "a"), JobKey(project_id, "b")
    deliver(store, key, [])
    deliver(store, other, [])

    taken = store.write(lambda conn: dirty_marks.take(conn, key).batches)

    assert len(taken) == 1
    assert store.write(lambda conn: dirty_marks.take(conn, key).batches) == []
    with store.reading() as conn:
        assert [*dirty_marks.waiting(conn, 0, 10).last_marked_us] == [other]


def test_what_is_longest_overdue_comes_first(store: Store, project_id: int) -> None:
    early, late, finished = (JobKey(project_id, name) for name in "zab")
    for key, due_us in ((early, 10), (late, 20), (finished, None)):
        deliver(store, key, [progress(1)])
        refreshed(store, key, RECEIVED_AT)
        due = update(job_ledger).where(job_ledger.c.job == key.job).values(due_us=due_us)
        store.write(partial(Connection.execute, statement=due))

    with store.reading() as conn:
        assert dirty_marks.waiting(conn, 9, 10).due == []
        assert dirty_marks.waiting(conn, 10, 10).due == [early]
        assert dirty_marks.waiting(conn, 30, 10).due == [early, late]


def test_ledgers_of_another_formula_fall_due(store: Store, project_id: int) -> None:
    key = JobKey(project_id, "a")
    deliver(store, key, [progress(1)])
    refreshed(store, key, NOON)
    with store.reading() as conn:
        head = ledgers.head(conn, key)
    assert head is not None

    store.write(lambda conn: dirty_marks.outdate(conn, head.formula_version))
    with store.reading() as conn:
        assert dirty_marks.waiting(conn, 0, 10).due == []

    store.write(lambda conn: dirty_marks.outdate(conn, head.formula_version + 1))
    with store.reading() as conn:
        assert dirty_marks.waiting(conn, 0, 10).due == [key]


@ON_SERVERS
def test_a_locked_job_is_skipped_and_takes_events_all_the_same(
    store: Store, project_id: int
) -> None:
    key = JobKey(project_id, "a")
    deliver(store, key, [])

    def second_worker() -> int | None:
        deliver(store, key, [progress(1)])
        return store.write(lambda conn: dirty_marks.lock(conn, key))

    held = store.write(lambda conn: (dirty_marks.lock(conn, key), second_worker()))
    assert held == (RECEIVED_AT, None)
    assert second_worker() == RECEIVED_AT


def test_a_job_that_is_not_there_cannot_be_locked(store: Store, project_id: int) -> None:
    key = JobKey(project_id, "gone")

    with store.reading() as conn:
        assert dirty_marks.born_us(conn, key) is None
    assert store.write(lambda conn: dirty_marks.lock(conn, key)) is None
    assert not store.write(lambda conn: dirty_marks.wait_for(conn, key))


def test_a_mark_without_a_batch_asks_for_a_fold(store: Store, project_id: int) -> None:
    key = JobKey(project_id, "a")
    deliver(store, key, [])
    store.write(lambda conn: dirty_marks.take(conn, key))

    store.write(lambda conn: dirty_marks.mark(conn, key, NOON))

    with store.reading() as conn:
        assert [*dirty_marks.waiting(conn, 0, 10).last_marked_us] == [key]
    (batch,) = marks(store, key)
    with store.reading() as conn:
        assert events.events(conn, *key, [batch]) == []
