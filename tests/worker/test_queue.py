"""Whose turn it is, and how long one that failed waits."""

from ett_service.storage.engine.store import Store
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.worker.queue import JobQueue
from tests.builders.clock import MINUTE, NOON, SECOND
from tests.builders.ledgers import deliver, refreshed
from tests.builders.record import progress


def turn(turns: JobQueue, store: Store, now_us: int) -> list[JobKey]:
    with store.reading() as conn:
        return turns.next(conn, now_us).keys


def test_marked_jobs_come_before_overdue_ones(store: Store, project_id: int) -> None:
    overdue, marked = JobKey(project_id, "a"), JobKey(project_id, "b")
    deliver(store, overdue, [progress(1)])
    refreshed(store, overdue, NOON)
    deliver(store, marked, [progress(1)])

    assert turn(JobQueue(), store, NOON + SECOND) == [marked]
    assert turn(JobQueue(), store, NOON + MINUTE) == [marked, overdue]


def test_a_job_that_is_marked_and_overdue_has_one_turn(store: Store, project_id: int) -> None:
    key = JobKey(project_id, "a")
    deliver(store, key, [progress(1)])
    refreshed(store, key, NOON)
    deliver(store, key, [progress(2)])

    assert turn(JobQueue(), store, NOON + MINUTE) == [key]


def test_a_job_that_failed_waits_longer_each_time(store: Store, project_id: int) -> None:
    key, turns = JobKey(project_id, "a"), JobQueue()
    deliver(store, key, [progress(1)])

    assert [turns.failed(key, NOON) for _ in range(10)] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300]
    assert turn(turns, store, NOON + 300 * SECOND - 1) == []
    assert turn(turns, store, NOON + 300 * SECOND) == [key]

    turns.done(key)
    assert turn(turns, store, NOON) == [key]
    assert turns.failed(key, NOON) == 1


def test_jobs_that_failed_do_not_crowd_out_the_others(store: Store, project_id: int) -> None:
    turns = JobQueue(most=2)
    broken = [JobKey(project_id, name) for name in "abc"]
    sound = JobKey(project_id, "d")
    for key in (*broken, sound):
        deliver(store, key, [progress(1)])
    for key in broken:
        turns.failed(key, NOON)

    assert turn(turns, store, NOON) == [sound]
    assert turn(turns, store, NOON + SECOND) == broken[:2]
