"""Jobs are folded beside each other: none waits for a slow one, and all are merged."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import Connection, select

from ett_service.aggregation import fold_job
from ett_service.aggregation.fold_job import OPEN_EVERY_US
from ett_service.core.events import AttemptStarted
from ett_service.core.ledger.attempts.lifetimes import DEFAULT_LIMITS
from ett_service.storage.engine.store import Store
from ett_service.storage.record import dirty_marks
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.storage.schema import unmerged
from ett_service.worker import folding
from ett_service.worker.folding import Folding
from tests.builders.clock import MINUTE, NOON, SECOND, Clock
from tests.builders.ledgers import deliver, marked, recomputed, stored
from tests.builders.record import event, progress
from tests.builders.rollups import check_rollups, stored_rollups
from tests.builders.servers.waiting import PATIENCE_S, wait_for


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


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_a_slow_job_keeps_no_other_waiting(
    store: Store, project_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, other = started(store, project_id, "slow", "other")
    go_on, warm = threading.Event(), fold_job.warm

    def waiting(conn: Connection, key: JobKey, *rest: object) -> object:
        if key == slow:
            assert go_on.wait(PATIENCE_S)
        return warm(conn, key, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(folding, "warm", waiting)
    clock = Clock()
    with folding_of(store, clock) as jobs:
        jobs.pick()
        assert jobs.settle(PATIENCE_S) + jobs.settle(PATIENCE_S) == 1
        for step in range(3):
            clock.now_us += SECOND
            deliver(store, other, [progress(step, clock.now_us)])
            assert jobs.has_room()
            jobs.pick()
            assert jobs.settle(PATIENCE_S) == 1
        assert marked(store) == [slow]
        go_on.set()
        assert jobs.settle_all() == 1
    assert stored(store, other) == recomputed(store, other, clock.now_us)


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_what_is_under_way_is_not_picked_again(
    store: Store, project_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    started(store, project_id, "a")
    reads, warm, go_on = [], fold_job.warm, threading.Event()

    def counted(conn: Connection, key: JobKey, *rest: object) -> object:
        reads.append(key)
        assert go_on.wait(PATIENCE_S)
        return warm(conn, key, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(folding, "warm", counted)
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
        mine = dirty_marks.waiting(conn, 0, 99, range(32)).marked
    with folding_of(store) as jobs:
        jobs.pick(range(32))
        assert jobs.settle_all() == len(mine)
        jobs.merge(range(32))
        jobs.settle_all()
    assert set(marked(store)) == set(keys) - set(mine)
    check_rollups(store)
