"""Everything is recomputed by several processes, whatever cuts them off."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from random import Random

import pytest
from sqlalchemy import select, update

from ett_service.aggregation.recompute import recompute
from ett_service.aggregation.verify import verify
from ett_service.core.events import Event, Heartbeat
from ett_service.storage.engine.errors import StoreInUse
from ett_service.storage.engine.store import Store, open_store
from ett_service.storage.jobs import batches
from ett_service.storage.jobs.batches import RecomputePosition
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.storage.record.keys import create_project
from ett_service.storage.schema import job_ledger, rollup_daily
from tests.builders.clock import HOUR, NOON, RECEIVED_AT
from tests.builders.drawn.story import drawn_story
from tests.builders.ledgers import deliver, refreshed
from tests.builders.record import event
from tests.builders.rollups import expected_rollups, stored_rollups

LATER = NOON + 100 * HOUR
"""The instant as of which everything is recomputed."""


def fill(url: str, jobs: int) -> None:
    """Put jobs of two projects into the store, half of them folded."""
    store = open_store(url)
    for project in ("research", "products"):
        make = partial(create_project, name=project, now_us=RECEIVED_AT)
        project_id = store.write(make)
        for number in range(jobs // 2):
            key = JobKey(project_id, f"job-{number:03}")
            deliver(store, key, story(number))
            if number % 2:
                refreshed(store, key, NOON + HOUR)
    store.close()


def story(number: int) -> Sequence[Event]:
    return drawn_story(NOON, Random(number % 7))


def recomputed(
    url: str, *, processes: int = 1, from_start: bool = False
) -> tuple[RecomputePosition | None, list[int]]:
    """Recompute; return what was done, and how far it was at each report."""
    progress: list[int] = []

    def report(position: RecomputePosition, _jobs: int) -> None:
        progress.append(position.jobs)

    done = recompute(url, lambda: LATER, report, processes=processes, from_start=from_start)
    return done, progress


def count_differences(url: str) -> int:
    """Count the differences from the events, in ledgers and rollups."""
    store = open_store(url)
    try:
        verdicts = list(verify(store))
        assert not any(verdict.pending for verdict in verdicts)
        rollups = stored_rollups(store) != expected_rollups(store)
        return sum(len(verdict.differences) for verdict in verdicts) + rollups
    finally:
        store.close()


def test_every_job_of_every_project_is_recomputed(database_url: str) -> None:
    fill(database_url, 10)

    done, reports = recomputed(database_url, processes=2)

    assert done is not None
    assert done.jobs == 10
    assert reports[-1] == 10
    assert reports == sorted(reports)
    assert count_differences(database_url) == 0


def test_whatever_was_wrong_is_put_right(database_url: str) -> None:
    fill(database_url, 10)
    store = open_store(database_url)
    store.write(lambda conn: conn.execute(update(job_ledger).values(failures=77)))
    store.write(lambda conn: conn.execute(rollup_daily.delete()))
    store.close()

    recomputed(database_url)

    assert count_differences(database_url) == 0


def test_an_empty_store_is_recomputed_at_once(database_url: str) -> None:
    assert recomputed(database_url) == (None, [])


@pytest.mark.parametrize("dialect", ["sqlite"])
def test_a_store_that_a_server_writes_is_refused(store: Store) -> None:
    with pytest.raises(StoreInUse, match="Another process is writing"):
        recomputed(store.url)


@pytest.mark.parametrize("dialect", ["postgresql"])
def test_a_server_may_go_on_meanwhile(store: Store) -> None:
    fill(store.url, 20)
    key = JobKey(project_of(store), "job-003")
    moved = 0

    def report(_place: RecomputePosition, _jobs: int) -> None:
        nonlocal moved
        moved += 1
        deliver(store, key, [event(Heartbeat, NOON + HOUR + moved, id=f"late-{moved}")])
        refreshed(store, key, LATER)

    recompute(store.url, lambda: LATER, report, processes=1)
    while refreshed(store, key, LATER):
        pass

    assert moved > 0
    assert count_differences(store.url) == 0


def project_of(store: Store) -> int:
    with store.reading() as conn:
        return conn.execute(select(job_ledger.c.project_id)).scalars().first() or 0


@pytest.mark.parametrize("dialect", ["sqlite"])
def test_a_run_from_the_start_begins_there(database_url: str) -> None:
    fill(database_url, 4)
    store = open_store(database_url)
    store.write(lambda conn: batches.write(conn, RecomputePosition(JobKey(10**6, "z"), 4, 4)))
    store.close()

    assert recomputed(database_url)[1] == []
    assert recomputed(database_url, from_start=True)[1][-1] == 4


@pytest.mark.long
def test_a_run_that_was_killed_leaves_nothing_by_halves_and_is_gone_on_with(
    database_url: str,
) -> None:
    fill(database_url, 20)
    run = (
        "import sys; from ett_service.aggregation import recompute as r; r.MOST_JOBS = 1\n"
        f"if __name__ == '__main__':\n    r.recompute(sys.argv[1], lambda: {LATER},"
        " lambda p, n: print(p.jobs, flush=True), processes=2)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", run, database_url], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for _ in range(5):
            process.stdout.readline()
        os.kill(process.pid, signal.SIGKILL)
    done, reports = recomputed(database_url)

    assert done is not None
    assert done.jobs == 20
    assert reports[0] > 5
    assert count_differences(database_url) == 0
