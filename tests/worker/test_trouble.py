"""What goes wrong with one job or with the database does not stop the worker."""

import logging
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack
from typing import TypeVar

import pytest
from sqlalchemy import Connection, update

from ett_service.core.events import AttemptStarted, Event, PhaseStarted, SpanOver
from ett_service.core.words import Phase
from ett_service.storage import schema
from ett_service.storage.engine.errors import StorageUnavailable
from ett_service.storage.engine.store import Store
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.worker.ledgers import Worker
from tests.builders.clock import MINUTE, NOON, SECOND, Clock
from tests.builders.ledgers import deliver, marked, recomputed, stored
from tests.builders.record import event, progress
from tests.builders.servers.waiting import wait_for
from tests.builders.servers.worker import running, without

T = TypeVar("T")


def test_a_job_that_cannot_be_folded_does_not_stop_the_others(
    store: Store, project_id: int, elapsed: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    broken, sound = JobKey(project_id, "broken"), JobKey(project_id, "sound")
    for key in (broken, sound):
        deliver(store, key, [event(AttemptStarted)])
    unreadable = update(schema.event).where(schema.event.c.job == "broken").values(body="{")
    store.write(lambda conn: conn.execute(unreadable))
    worker = Worker(store, Clock())

    with caplog.at_level(logging.ERROR):
        assert worker.run_once() == 1
        assert worker.run_once() == 0

    assert stored(store, sound) is not None
    assert marked(store) == [broken]
    (record,) = [each for each in caplog.records if each.name.startswith("ett_service")]
    assert vars(record)["job_key"] == "broken"

    with caplog.at_level(logging.ERROR):
        elapsed.now_us += SECOND
        worker.run_once()
    assert len(caplog.records) == 2


def test_a_worker_all_of_whose_folds_fail_says_so_until_one_is_folded(
    store: Store, project_id: int
) -> None:
    keys = [JobKey(project_id, f"broken-{number}") for number in range(10)]
    for key in keys:
        deliver(store, key, [event(AttemptStarted)])
    store.write(lambda conn: conn.execute(update(schema.event).values(body="{")))
    with running(Worker(store, Clock(), poll_seconds=0.01)) as worker:
        wait_for(lambda: not worker.folds)
        assert worker.alive
        assert sorted(marked(store)) == keys
        deliver(store, JobKey(project_id, "sound"), [event(AttemptStarted)])
        wait_for(lambda: worker.folds)


def test_a_known_job_that_breaks_is_put_off_and_folded_once_it_is_mended(
    store: Store, project_id: int, elapsed: Clock
) -> None:
    key, clock = JobKey(project_id, "llm-70b"), Clock()
    worker = Worker(store, clock)
    deliver(store, key, [event(AttemptStarted)])
    worker.run_once()
    late = progress(1, NOON + SECOND)
    deliver(store, key, [late])
    rows = update(schema.event).where(schema.event.c.id == late.id)
    store.write(lambda conn: conn.execute(rows.values(type="unheard_of")))
    worker.run_once()
    assert marked(store) == [key]

    store.write(lambda conn: conn.execute(rows.values(type="progress")))
    elapsed.now_us += SECOND
    worker.run_once()

    assert marked(store) == []
    assert stored(store, key) == recomputed(store, key, clock.now_us)


def evaluated(minutes: range) -> list[Event]:
    """Evaluate for two seconds of each minute."""
    return [
        event(
            SpanOver,
            NOON + minute * MINUTE + 2 * SECOND,
            phase=Phase.EVALUATION,
            start=NOON + minute * MINUTE,
        )
        for minute in minutes
    ]


def test_a_fold_that_a_failed_write_has_used_up_is_not_gone_on_from(
    store: Store, project_id: int, elapsed: Clock
) -> None:
    key, clock = JobKey(project_id, "llm-70b"), Clock()
    worker = Worker(store, clock)
    deliver(store, key, [event(PhaseStarted, phase=Phase.TRAIN_LOOP), *evaluated(range(40))])
    worker.run_once()
    deliver(store, key, evaluated(range(40, 80)))
    with without(store, "segment"):
        assert worker.run_once() == 0

    elapsed.now_us += SECOND
    assert worker.run_once() == 1

    assert stored(store, key) == recomputed(store, key, clock.now_us)


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_cohorts_that_a_promoted_standby_lacks_are_inserted_again(
    store: Store, project_id: int
) -> None:
    clock = Clock()
    worker = Worker(store, clock)
    deliver(store, JobKey(project_id, "before"), [event(AttemptStarted)])
    worker.run_once()
    store.write(lambda conn: conn.exec_driver_sql("TRUNCATE cohort CASCADE"))
    after = JobKey(project_id, "after")
    deliver(store, after, [event(AttemptStarted)])
    with pytest.raises(StorageUnavailable, match="fk_contribution_cohort_id"):
        worker.run_once()

    assert worker.run_once() == 1

    assert stored(store, after) == recomputed(store, after, clock.now_us)


class FullForOnce:
    """A store that has no room for the first write that is submitted."""

    def __init__(self, store: Store) -> None:
        self._store, self._full = store, True
        self.dialect, self.url = store.dialect, store.url
        self.write, self.reading, self.close = store.write, store.reading, store.close
        self.require_room = store.require_room

    def submit(self, work: Callable[[Connection], T]) -> Future[T]:
        if not self._full:
            return self._store.submit(work)
        self._full = False
        refused: Future[T] = Future()
        refused.set_exception(StorageUnavailable("The disk is full."))
        return refused


def test_trouble_with_one_write_leaves_the_others_standing(store: Store, project_id: int) -> None:
    first, second = JobKey(project_id, "first"), JobKey(project_id, "second")
    for key in (first, second):
        deliver(store, key, [event(AttemptStarted)])
    worker = Worker(FullForOnce(store), Clock())

    with pytest.raises(StorageUnavailable):
        worker.run_once()

    (refused,) = marked(store)
    assert stored(store, second if refused == first else first) is not None
    assert worker.run_once() == 1
    assert marked(store) == []


def logged(caplog: pytest.LogCaptureFixture) -> set[str]:
    return {vars(record)["event"] for record in caplog.records}


def test_the_loop_goes_on_when_the_database_is_well_again(
    store: Store, project_id: int, caplog: pytest.LogCaptureFixture
) -> None:
    key = JobKey(project_id, "llm-70b")
    deliver(store, key, [event(AttemptStarted)])
    worker = Worker(store, Clock(), poll_seconds=0.01)
    with caplog.at_level(logging.ERROR), ExitStack() as stack:
        with without(store, "dirty"):
            stack.enter_context(running(worker))
            assert wait_for(lambda: "ledgers_failed" in logged(caplog))
        assert wait_for(lambda: stored(store, key) is not None)
