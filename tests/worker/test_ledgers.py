"""The loop keeps ledgers up with facts and with the time."""

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import Connection, select

from ett_service.aggregation import fold_job
from ett_service.aggregation.fold_job import OPEN_EVERY_US
from ett_service.core.events import AttemptStarted, Event, PhaseStarted
from ett_service.core.ledger.attempts.lifetimes import DEFAULT_LIMITS
from ett_service.core.words import JobState, Phase
from ett_service.storage.engine.store import Store
from ett_service.storage.record import dirty_marks
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.storage.schema import unmerged
from ett_service.worker import ledgers
from ett_service.worker.ledgers import Folding, Worker
from tests.builders.clock import HOUR, MINUTE, NOON, SECOND, Clock
from tests.builders.ledgers import deliver, marked, recomputed, stored
from tests.builders.record import event, progress
from tests.builders.rollups import check_rollups, stored_rollups
from tests.builders.servers.waiting import PATIENCE_S, wait_for
from tests.builders.servers.worker import running

POLL_SECONDS = 10 * PATIENCE_S


@contextmanager
def folding_of(store: Store, clock: Clock | None = None) -> Iterator[Folding]:
    of_jobs = Folding(store, clock or Clock(), DEFAULT_LIMITS, OPEN_EVERY_US)
    try:
        yield of_jobs
    finally:
        of_jobs.close()


def started(store: Store, project_id: int, *names: str) -> list[JobKey]:
    keys = [JobKey(project_id, name) for name in names]
    for key in keys:
        deliver(store, key, [event(AttemptStarted, gpus=8)])
    return keys


def before_preparing(monkeypatch: pytest.MonkeyPatch, act: Callable[[JobKey], object]) -> None:
    """Have each job's fold begin with *act*."""
    prepare = fold_job.prepare

    def prepared(conn: Connection, key: JobKey, *rest: Any, **options: Any) -> object:
        act(key)
        return prepare(conn, key, *rest, **options)

    monkeypatch.setattr(ledgers, "prepare", prepared)


def test_jobs_are_folded_and_then_merged(store: Store, project_id: int) -> None:
    keys = started(store, project_id, *"abc")
    with folding_of(store) as jobs:
        jobs.pick()
        assert jobs.settle_all() == 3
        assert not jobs.busy
        assert stored_rollups(store) == {}
        jobs.merge()
        assert jobs.settle_all() == 0
    for key in keys:
        assert stored(store, key) == recomputed(store, key, NOON + MINUTE)
    check_rollups(store)


def test_the_end_finishes_what_is_being_written_and_merges_it(
    store: Store, project_id: int
) -> None:
    started(store, project_id, "a")
    with folding_of(store) as jobs:
        jobs.pick()
        while not jobs.settle(PATIENCE_S):
            pass
    check_rollups(store)
    with store.reading() as conn:
        assert conn.scalars(select(unmerged.c.fold)).all() == []


def test_whole_reads_beyond_the_most_are_left_for_the_next_time(
    store: Store, project_id: int
) -> None:
    started(store, project_id, *"abc")
    with folding_of(store) as jobs:
        jobs.pick(most_cold=2)
        assert jobs.settle_all() == 2
        assert [key.job for key in marked(store)] == ["c"]
        jobs.pick(most_cold=2)
        assert jobs.settle_all() == 1


def test_what_another_left_unmerged_is_merged(store: Store, project_id: int) -> None:
    (key,) = started(store, project_id, "a")
    store.write(lambda conn: fold_job.refresh(conn, key, NOON + MINUTE))
    with folding_of(store) as jobs:
        jobs.pick()
        jobs.merge()
        jobs.settle_all()
        check_rollups(store)


def test_a_slow_job_keeps_no_other_waiting(
    store: Store, project_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, other = started(store, project_id, "slow", "other")
    go_on = threading.Event()

    def wait(key: JobKey) -> None:
        assert key != slow or go_on.wait(PATIENCE_S)

    before_preparing(monkeypatch, wait)
    clock = Clock()
    with folding_of(store, clock) as jobs:
        jobs.pick()
        assert wait_for(lambda: jobs.settle(0.1)) == 1
        for step in range(3):
            clock.now_us += HOUR  # on a busy machine the other may be slow, too, and rest
            deliver(store, other, [progress(step, clock.now_us)])
            assert jobs.has_room()
            jobs.pick()
            assert wait_for(lambda: jobs.settle(0.1)) == 1
        assert marked(store) == [slow]
        go_on.set()
        assert jobs.settle_all() == 1
    assert stored(store, other) == recomputed(store, other, clock.now_us)


def test_jobs_that_are_slow_to_fold_take_half_of_the_threads(
    store: Store, project_id: int, elapsed: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = started(store, project_id, *(f"slow-{number}" for number in range(5)))
    begun, go_on = set(), threading.Event()

    def work_and_wait(key: JobKey) -> None:
        busy_until = time.thread_time() + 0.1
        while time.thread_time() < busy_until:
            pass
        begun.add(key)
        assert go_on.wait(PATIENCE_S)

    before_preparing(monkeypatch, work_and_wait)
    with folding_of(store) as jobs:
        go_on.set()
        jobs.pick()
        assert jobs.settle_all() == 5
        go_on.clear()
        begun.clear()
        elapsed.now_us += HOUR
        for key in slow:
            deliver(store, key, [progress(1)])
        jobs.pick()
        half = 4 if store.dialect == "postgresql" else 1
        assert wait_for(lambda: len(begun) == half)
        assert jobs.has_room()
        jobs.pick()
        go_on.set()
        assert jobs.settle_all() == half
        jobs.pick()
        assert jobs.settle_all() == min(5 - half, half)


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_what_is_under_way_is_not_picked_again(
    store: Store, project_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    started(store, project_id, "a")
    reads, go_on = [], threading.Event()

    def count_and_wait(key: JobKey) -> None:
        reads.append(key)
        assert go_on.wait(PATIENCE_S)

    before_preparing(monkeypatch, count_and_wait)
    with folding_of(store) as jobs:
        jobs.pick()
        assert wait_for(lambda: bool(reads))
        jobs.pick()
        go_on.set()
        assert jobs.settle_all() == 1
    assert len(reads) == 1


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_jobs_of_other_slots_are_left_alone(store: Store, project_id: int) -> None:
    keys = started(store, project_id, *map(str, range(20)))
    with store.reading() as conn:
        mine = dirty_marks.waiting(conn, 0, 99, range(32)).last_marked_us
    with folding_of(store) as jobs:
        jobs.pick(range(32))
        assert jobs.settle_all() == len(mine)
        jobs.merge(range(32))
        jobs.settle_all()
    assert set(marked(store)) == set(keys) - set(mine)
    check_rollups(store)


def test_one_pass_stores_the_ledger_of_every_marked_job(store: Store, project_id: int) -> None:
    keys = [JobKey(project_id, f"job-{number}") for number in range(5)]
    for key in keys:
        deliver(store, key, [event(AttemptStarted, gpus=8)])
    worker = Worker(store, Clock())

    assert worker.run_once() == 5

    assert marked(store) == []
    for key in keys:
        assert stored(store, key) == recomputed(store, key, NOON + MINUTE)
    assert worker.run_once() == 0


def test_what_is_folded_on_demand_does_not_rest(
    store: Store, project_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    (key,) = started(store, project_id, "a")
    monkeypatch.setattr(dirty_marks, "_SLOW_US", 0)
    worker = Worker(store, Clock())
    assert worker.run_once() == 1
    deliver(store, key, [progress(1, NOON)])
    assert worker.run_once() == 1
    assert marked(store) == []


def test_facts_that_come_one_after_the_other_are_all_in(store: Store, project_id: int) -> None:
    key, clock = JobKey(project_id, "llm-70b"), Clock()
    worker = Worker(store, clock)
    deliver(store, key, [event(PhaseStarted, phase=Phase.TRAIN_LOOP)])
    worker.run_once()
    for step in range(20):
        clock.now_us += SECOND
        deliver(store, key, [progress(step, clock.now_us)])
        assert worker.run_once() == 1
        assert stored(store, key) == recomputed(store, key, clock.now_us)


def test_a_silent_attempt_is_lost_without_anyone_asking(store: Store, project_id: int) -> None:
    key, clock = JobKey(project_id, "llm-70b"), Clock()
    deliver(store, key, [event(AttemptStarted)])
    worker = Worker(store, clock)
    worker.run_once()

    clock.now_us = NOON + 15 * MINUTE
    worker.run_once()

    ledger = stored(store, key)
    assert ledger is not None
    assert ledger.state is JobState.INTERRUPTED
    clock.now_us += HOUR
    assert worker.run_once() == 0


def test_the_numbers_of_a_running_job_run_on(store: Store, project_id: int) -> None:
    key, clock = JobKey(project_id, "llm-70b"), Clock()
    deliver(store, key, [event(AttemptStarted)])
    worker = Worker(store, clock, open_every_us=10 * SECOND)
    worker.run_once()

    clock.now_us += 10 * SECOND - 1
    assert worker.run_once() == 0
    clock.now_us += 1
    assert worker.run_once() == 1

    ledger = stored(store, key)
    assert ledger is not None
    assert ledger.e2e_us == MINUTE + 10 * SECOND


def long_job() -> list[Event]:
    steps = [progress(step, NOON + step * SECOND) for step in range(2001)]
    return [event(PhaseStarted, phase=Phase.TRAIN_LOOP), *steps]


def test_a_late_fact_of_a_long_job_is_folded_in(store: Store, project_id: int) -> None:
    key, clock = JobKey(project_id, "llm-70b"), Clock(NOON + HOUR)
    deliver(store, key, long_job())
    worker = Worker(store, clock)
    worker.run_once()
    deliver(store, key, [progress(1, NOON + 1)])
    clock.now_us += MINUTE  # a fold that was slow is followed by a rest

    worker.run_once()
    worker.run_once()

    assert marked(store) == []
    assert stored(store, key) == recomputed(store, key, clock.now_us)


class LateFacts:
    """A store in which a late fact comes in whenever somebody has just read."""

    def __init__(self, store: Store, key: JobKey) -> None:
        self._store, self._key, self._late = store, key, itertools.count(1)
        self.dialect, self.url = store.dialect, store.url
        self.write, self.submit, self.close = store.write, store.submit, store.close
        self.require_room = store.require_room

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        with self._store.reading() as conn:
            yield conn
        deliver(self._store, self._key, [progress(1, NOON + next(self._late))])


def test_a_long_job_that_late_facts_keep_overtaking_is_folded_all_the_same(
    store: Store, project_id: int
) -> None:
    key, clock = JobKey(project_id, "llm-70b"), Clock(NOON + HOUR)
    deliver(store, key, long_job())
    worker = Worker(LateFacts(store, key), clock)

    worker.run_once()

    ledger = stored(store, key)
    assert ledger is not None
    assert ledger.attempts[0].last_step == 2000


def test_a_woken_worker_does_not_wait_for_its_poll(store: Store, project_id: int) -> None:
    key = JobKey(project_id, "llm-70b")
    with running(Worker(store, Clock(), poll_seconds=POLL_SECONDS)) as worker:
        time.sleep(0.05)
        deliver(store, key, [event(AttemptStarted)])
        worker.wake()
        assert wait_for(lambda: stored(store, key) is not None)
        assert worker.alive


def test_a_worker_beside_the_server_finds_marks_by_itself(store: Store, project_id: int) -> None:
    key = JobKey(project_id, "llm-70b")
    with running(Worker(store, Clock(), poll_seconds=0.01)):
        time.sleep(0.05)
        deliver(store, key, [event(AttemptStarted)])
        assert wait_for(lambda: stored(store, key) is not None)


def test_a_waiting_worker_stops_at_once(store: Store) -> None:
    with running(Worker(store, Clock(), poll_seconds=POLL_SECONDS)) as worker:
        time.sleep(0.05)
        began = time.monotonic()
        worker.stop()
        assert time.monotonic() - began < POLL_SECONDS
        assert not worker.alive


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_several_workers_and_senders_leave_every_job_as_one_fold_says(
    store: Store, project_id: int
) -> None:
    keys = [JobKey(project_id, f"job-{number}") for number in range(6)]
    clock = Clock(NOON + HOUR)
    workers = [Worker(store, clock, poll_seconds=0.01) for _ in range(3)]

    def send(steps: Iterator[int]) -> None:
        for step in steps:
            for key in keys:
                deliver(store, key, [progress(step, NOON + step * SECOND)])

    with running(workers[0]), running(workers[1]), running(workers[2]):
        senders = [
            threading.Thread(target=send, args=(itertools.islice(itertools.count(n, 2), 15),))
            for n in range(2)
        ]
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join()
        clock.now_us += HOUR  # what was slow on a busy machine has rested
        assert wait_for(lambda: marked(store) == [])

    for key in keys:
        at_once, rested = (recomputed(store, key, NOON + hours * HOUR) for hours in (1, 2))
        assert stored(store, key) in (at_once, rested)
