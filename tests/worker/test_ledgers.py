"""The loop keeps ledgers up with facts and with the time."""

import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import Connection

from ett_service.core.events import AttemptStarted, Event, PhaseStarted
from ett_service.core.words import JobState, Phase
from ett_service.storage.engine.store import Store
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.worker.ledgers import Worker
from tests.builders.clock import HOUR, MINUTE, NOON, SECOND, Clock
from tests.builders.ledgers import deliver, marked, recomputed, stored
from tests.builders.record import event, progress
from tests.builders.servers.waiting import PATIENCE_S, wait_for
from tests.builders.servers.worker import running

POLL_SECONDS = 10 * PATIENCE_S


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

    assert worker.run_once() == 1
    assert marked(store) == [key]
    assert worker.run_once() == 1

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
    assert stored(store, key) is None
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
        assert wait_for(lambda: marked(store) == [])

    for key in keys:
        assert stored(store, key) == recomputed(store, key, NOON + HOUR)
