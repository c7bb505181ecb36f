"""Workers that are processes share the jobs; one that is killed loses and doubles nothing."""

import signal
from pathlib import Path

import pytest
from sqlalchemy import select

from ett_service.aggregation.verify import verify, verify_rollups
from ett_service.core.events import AttemptEnded, AttemptStarted, JobFacts
from ett_service.core.words import Outcome
from ett_service.storage.engine.lease import SLOTS
from ett_service.storage.engine.store import Store
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.storage.schema import contribution, job_ledger, lease, unmerged
from tests.builders.clock import HOUR, MINUTE, NOON
from tests.builders.ledgers import deliver, marked
from tests.builders.record import event
from tests.builders.rollups import stored_rollups
from tests.builders.servers.processes import Running, bare_environment
from tests.builders.servers.waiting import wait_for

WORKERS = 3


def send(store: Store, keys: list[JobKey], attempt: int) -> None:
    """Deliver an attempt of an hour to each job."""
    began = NOON + attempt * HOUR
    for key in keys:
        named = {"attempt": attempt}
        events = [
            event(AttemptStarted, began, gpus=8, **named),
            event(AttemptEnded, began + HOUR - MINUTE, outcome=Outcome.FAILED, **named),
        ]
        if not attempt:
            events.append(event(JobFacts, model="llm", gpus=8))
        deliver(store, key, events)


def holders(store: Store) -> list[str]:
    """Return who holds the slots; one that is killed is there until its lease runs out."""
    with store.reading() as conn:
        return list(conn.scalars(select(lease.c.holder).where(lease.c.name.startswith("slot "))))


def is_shared(store: Store) -> bool:
    by = holders(store)
    return len(by) == SLOTS and len(set(by)) == WORKERS


def is_done(store: Store) -> bool:
    with store.reading() as conn:
        return not marked(store) and conn.scalar(select(unmerged.c.fold).limit(1)) is None


@pytest.mark.slow
@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
@pytest.mark.parametrize("n_jobs", [40, pytest.param(2_000, marks=pytest.mark.long, id="long")])
def test_jobs_of_a_killed_worker_are_folded_once_by_the_others(
    store: Store, project_id: int, tmp_path: Path, n_jobs: int
) -> None:
    environment = {**bare_environment(), "ETT_DATABASE_URL": store.url}
    keys = [JobKey(project_id, f"job-{number}") for number in range(n_jobs)]
    workers = [Running("worker", folder=tmp_path, environment=environment) for _ in range(WORKERS)]
    wait_for(lambda: is_shared(store), lambda: "".join(worker.err for worker in workers))
    send(store, keys, 0)
    workers[0].send_signal(signal.SIGKILL)
    send(store, keys, 1)

    wait_for(lambda: is_done(store), lambda: "".join(worker.err for worker in workers[1:]))
    assert [worker.stop() for worker in workers[1:]] == [0, 0]

    with store.reading() as conn:
        assert set(conn.scalars(select(job_ledger.c.event_count))) == {5}
        assert sum(conn.scalars(select(contribution.c.attempts))) == 2 * n_jobs
    assert [difference for job in verify(store) for difference in job.differences] == []
    assert [difference for day in verify_rollups(store) for difference in day.differences] == []
    rows = [row for (grain, *_), row in stored_rollups(store).items() if grain == "daily"]
    assert sum(row.get("attempts", 0) for row in rows) == 2 * n_jobs
