"""Jobs are folded in the order of their need, and none of them at the cost of the others."""

from sqlalchemy import Connection

from ett_service.storage.engine.statements import insert_new
from ett_service.storage.engine.store import Store
from ett_service.storage.record import dirty_marks
from ett_service.storage.record.dirty_marks import JobKey, JobQueue, Took
from ett_service.storage.schema import job
from tests.builders.clock import HOUR, MINUTE, NOON, SECOND, Clock
from tests.builders.ledgers import deliver, refreshed
from tests.builders.record import progress


def turn(turns: JobQueue, store: Store, now_us: int = NOON) -> list[JobKey]:
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


def test_a_job_that_failed_waits_longer_each_time(
    store: Store, project_id: int, elapsed: Clock
) -> None:
    key, turns = JobKey(project_id, "a"), JobQueue()
    deliver(store, key, [progress(1)])

    assert [turns.failed(key) for _ in range(10)] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300]
    elapsed.now_us += 300 * SECOND - 1
    assert turn(turns, store) == []
    elapsed.now_us += 1
    assert turn(turns, store) == [key]

    turns.done(key, slow(0))
    assert turn(turns, store) == [key]
    assert turns.failed(key) == 1


def test_jobs_that_failed_do_not_crowd_out_the_others(
    store: Store, project_id: int, elapsed: Clock
) -> None:
    turns = JobQueue(most=2)
    broken = [JobKey(project_id, name) for name in "abc"]
    sound = JobKey(project_id, "d")
    for key in (*broken, sound):
        deliver(store, key, [progress(1)])
    for key in broken:
        turns.failed(key)

    assert turn(turns, store) == [sound]
    elapsed.now_us += SECOND
    assert turn(turns, store) == broken[:2]


def mark(store: Store, key: JobKey, now_us: int) -> None:
    """Have a fact come into the job, which may be a new one, at that instant."""

    def work(conn: Connection) -> None:
        insert_new(conn, job, [{**key._asdict(), "received_us": now_us}])
        dirty_marks.mark(conn, key, now_us)

    store.write(work)


def slow(seconds: float) -> Took:
    return Took(round(seconds * SECOND), round(seconds * SECOND))


def test_a_job_that_was_slow_to_fold_rests_while_it_is_sent_to(
    store: Store, project_id: int, elapsed: Clock
) -> None:
    key, turns = JobKey(project_id, "a"), JobQueue()
    turns.done(key, slow(3))
    for second in range(12):
        mark(store, key, NOON + second * SECOND)
        assert turn(turns, store) == []
        assert turns.is_slow(key)
        elapsed.now_us += SECOND

    assert turn(turns, store) == [key]
    turns.done(key, Took(30 * SECOND, SECOND // 20))
    assert turn(turns, store) == [key]
    assert not turns.is_slow(key)


def test_a_job_that_was_slow_to_fold_is_folded_once_nothing_more_comes(
    store: Store, project_id: int, elapsed: Clock
) -> None:
    key, turns = JobKey(project_id, "a"), JobQueue()
    turns.done(key, slow(3))
    for second in (0, 1):
        mark(store, key, NOON + second * SECOND)
        assert turn(turns, store) == []
        elapsed.now_us += SECOND

    elapsed.now_us += 2 * SECOND - 1
    assert turn(turns, store) == []
    elapsed.now_us += 1
    assert turn(turns, store) == [key]


def test_a_rest_ends_when_the_clock_of_the_day_is_put_back(
    store: Store, project_id: int, elapsed: Clock
) -> None:
    key, turns = JobKey(project_id, "a"), JobQueue()
    mark(store, key, NOON)
    turns.done(key, slow(3))
    assert turn(turns, store, NOON) == []

    elapsed.now_us += 3 * SECOND
    assert turn(turns, store, NOON - HOUR) == [key]


def test_a_large_job_that_grows_takes_a_fifth_of_a_thread_however_large(
    store: Store, project_id: int, elapsed: Clock
) -> None:
    key, turns = JobKey(project_id, "a"), JobQueue()
    elapsed.now_us, spent_us = 0, 0
    while elapsed.now_us < 10 * MINUTE:
        mark(store, key, NOON + elapsed.now_us)
        if turn(turns, store):
            took_us = elapsed.now_us // 20 + SECOND  # a fold takes the longer, the more there is
            store.write(lambda conn: dirty_marks.take(conn, key))
            spent_us += took_us
            elapsed.now_us += took_us
            turns.done(key, Took(took_us, took_us))
        else:
            elapsed.now_us += 2 * SECOND
    assert 0.1 < spent_us / elapsed.now_us < 0.21


def test_jobs_that_rest_do_not_crowd_out_the_others(store: Store, project_id: int) -> None:
    turns = JobQueue(most=2)
    keys = [JobKey(project_id, name) for name in "abcd"]
    for key in keys:
        mark(store, key, NOON)
    for key in keys[:3]:
        turns.done(key, slow(10))

    assert turn(turns, store) == [keys[3]]


def test_a_job_that_time_alone_outdates_rests_as_well(
    store: Store, project_id: int, elapsed: Clock
) -> None:
    key, turns = JobKey(project_id, "a"), JobQueue()
    deliver(store, key, [progress(1)])
    refreshed(store, key, NOON)
    turns.done(key, slow(20))

    elapsed.now_us += 80 * SECOND - 1
    assert turn(turns, store, NOON + HOUR) == []
    elapsed.now_us += 1
    assert turn(turns, store, NOON + HOUR) == [key]
