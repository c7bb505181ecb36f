"""One worker prunes, unprompted, in steps between which others write."""

import pytest

from ett_service.core.intervals import DAY_US
from ett_service.storage import retention
from ett_service.storage.engine import lease
from ett_service.storage.engine.store import Store
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.storage.retention import Kept
from ett_service.worker.retention import PRUNE_EVERY_US, PrunedElsewhere, Pruner, RetentionThread
from tests.builders.clock import Clock
from tests.storage.test_retention import LATER, closed_job, fold, rows_left


def test_the_worker_prunes_what_has_become_old_enough_and_rests(
    store: Store, project_id: int
) -> None:
    clock = Clock(LATER)
    keys = [fold(store, JobKey(project_id, name), closed_job()) for name in "ab"]
    thread = RetentionThread(store, clock, Kept(200 * DAY_US, None))
    assert thread.step() == PRUNE_EVERY_US / 1_000_000
    assert all(sum(rows_left(store, key)) for key in keys)

    clock.now_us += 200 * DAY_US
    pauses = [thread.step() for _ in range(3)]

    assert pauses[:2] == [0.1, 0.1]
    assert pauses[2] == PRUNE_EVERY_US / 1_000_000
    assert [rows_left(store, key) for key in keys] == [[0, 0, 0]] * 2


def test_while_another_prunes_it_passes(store: Store, project_id: int) -> None:
    key = fold(store, JobKey(project_id, "closed"), closed_job())
    store.write(lambda conn: lease.take(conn, retention.LEASE, "another", 600))
    with pytest.raises(PrunedElsewhere):
        Pruner(store, lambda: LATER, Kept(30 * DAY_US, None)).step()
    assert RetentionThread(store, lambda: LATER, Kept(30 * DAY_US, None)).step() > 1
    assert all(rows_left(store, key))
