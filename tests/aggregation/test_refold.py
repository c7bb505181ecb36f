"""Many jobs folded at once leave what folding each of them would have left."""

from random import Random

import pytest
from sqlalchemy import Connection, delete, insert, update

from ett_service.aggregation.recompute import refold
from ett_service.aggregation.verify import verify
from ett_service.core.events import Exclusion
from ett_service.storage.engine.store import Store
from ett_service.storage.fleet import rollup_deltas
from ett_service.storage.fleet.contributions import CohortIds
from ett_service.storage.jobs import batches
from ett_service.storage.record import corrections
from ett_service.storage.record.dirty_marks import JobBatch, JobKey
from ett_service.storage.record.keys import create_key
from ett_service.storage.schema import dirty, job_ledger, segment, share
from tests.builders.clock import HOUR, NOON
from tests.builders.drawn.story import drawn_story
from tests.builders.ledgers import deliver, marked, refreshed
from tests.builders.rollups import expected_rollups, stored_rollups

LATER = NOON + 100 * HOUR


@pytest.fixture
def jobs(store: Store, project_id: int) -> list[str]:
    """Return the names of jobs of all kinds, none of which is folded yet."""
    names = [f"job-{number}" for number in range(12)]
    for number, name in enumerate(names):
        deliver(
            store,
            JobKey(project_id, name),
            drawn_story(NOON, Random(number)),
            {"host-1": 5_000_000},
        )
    return names


def refolded(store: Store, project_id: int, jobs: list[str], ids: CohortIds | None = None) -> int:
    """Refold the jobs, and return how many rows were written beside the heads."""
    rows = 0

    def work(conn: Connection) -> None:
        nonlocal rows
        batch = JobBatch(project_id, jobs)
        batches.take_marks(conn, batch)
        changes = refold(conn, batch, LATER)
        changes.write(conn, {} if ids is None else ids, LATER)
        rollup_deltas.merge_jobs(conn, batch)
        rows = sum(map(len, changes.ledgers.put.values())) + len(changes.contributions.cells)

    store.write(work)
    return rows - len(jobs)


def is_exact(store: Store) -> bool:
    """Whether every number follows from the events."""
    verdicts = list(verify(store))
    assert not any(verdict.pending for verdict in verdicts)
    assert [verdict.differences for verdict in verdicts if verdict.differences] == []
    return stored_rollups(store) == expected_rollups(store)


def test_what_is_written_from_nothing_is_what_the_events_say(
    store: Store, project_id: int, jobs: list[str]
) -> None:
    assert refolded(store, project_id, jobs) > 0

    assert is_exact(store)
    assert marked(store) == []


def test_what_the_worker_wrote_is_not_written_again(
    store: Store, project_id: int, jobs: list[str]
) -> None:
    for name in jobs:
        refreshed(store, JobKey(project_id, name), LATER)

    assert refolded(store, project_id, jobs) == 0
    assert is_exact(store)


def test_wrong_rows_are_put_right_whichever_they_are(
    store: Store, project_id: int, jobs: list[str]
) -> None:
    refolded(store, project_id, jobs)

    def spoil(conn: Connection) -> None:
        conn.execute(delete(segment).where(segment.c.job == jobs[0]))
        conn.execute(update(share).where(share.c.job == jobs[1]).values(us=1))
        conn.execute(delete(job_ledger).where(job_ledger.c.job == jobs[2]))
        too_much = {"project_id": project_id, "job": jobs[3], "started_us": 7, "ended_us": 8}
        conn.execute(insert(segment), {**too_much, "category": "stalled", "period": "training"})

    store.write(spoil)

    assert refolded(store, project_id, jobs) > 0
    assert is_exact(store)


def test_corrections_that_stand_are_heeded(store: Store, project_id: int, jobs: list[str]) -> None:
    key = JobKey(project_id, jobs[0])

    def exclude(conn: Connection) -> None:
        create_key(conn, project="research", name="k", scopes=["write"], now_us=NOON)
        corrections.put_exclusion(
            conn, key, [Exclusion(None, None)], why="a test", made_by="k", now_us=NOON
        )

    store.write(exclude)
    refolded(store, project_id, jobs)

    assert is_exact(store)
    assert any(label[0].excluded for *_, label in stored_rollups(store))


def test_ids_of_cohorts_that_a_process_knows_serve_it_again(
    store: Store, project_id: int, jobs: list[str]
) -> None:
    ids: CohortIds = {}
    refolded(store, project_id, jobs[:6], ids)
    before = dict(ids)
    refolded(store, project_id, jobs[6:], ids)

    assert before
    assert before.items() <= ids.items()
    assert is_exact(store)


def test_a_job_without_events_that_is_no_longer_marked_is_folded_all_the_same(
    store: Store, project_id: int
) -> None:
    deliver(store, JobKey(project_id, "empty"), [])
    store.write(lambda conn: conn.execute(delete(dirty)))

    refolded(store, project_id, ["empty"])

    assert is_exact(store)
