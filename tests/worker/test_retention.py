"""One worker prunes, unprompted, in steps between which others write."""

import pytest

from ett_service.app import worker
from ett_service.core.intervals import DAY_US
from ett_service.settings import Settings
from ett_service.storage import retention
from ett_service.storage.engine import lease
from ett_service.storage.engine.store import Store
from ett_service.storage.fleet import hours
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.storage.retention import Kept
from ett_service.worker.retention import PRUNE_EVERY_US, PrunedElsewhere, Pruner, RetentionThread
from tests.builders.clock import NOON, Clock
from tests.builders.rollups import stored_rollups
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


def test_hours_are_pruned_beside_jobs_or_alone(store: Store, project_id: int) -> None:
    clock = Clock(NOON + DAY_US)
    key = fold(store, JobKey(project_id, "closed"), closed_job())
    thread = RetentionThread(store, clock, Kept(None, 60 * DAY_US))
    before = stored_rollups(store)
    assert thread.step() == PRUNE_EVERY_US / 1_000_000
    assert stored_rollups(store) == before

    clock.now_us += 60 * DAY_US
    assert [thread.step() for _ in range(2)] == [0.1, PRUNE_EVERY_US / 1_000_000]

    days = {cell: row for cell, row in before.items() if cell[0] == "daily"}
    assert stored_rollups(store) == days
    assert all(rows_left(store, key))
    with store.reading() as conn:
        assert hours.kept_from(conn) == NOON - NOON % DAY_US + DAY_US


@pytest.mark.parametrize(
    ("chosen", "prunes"),
    [({}, False), ({"retention_days": 90}, True), ({"rollups": {"hourly_days": 90}}, True)],
)
def test_either_setting_has_the_worker_prune(
    store: Store, chosen: dict[str, int], prunes: bool
) -> None:
    settings = Settings.model_validate({"database_url": store.url, **chosen})
    threads = worker(settings, store, lambda: LATER)._threads  # noqa: SLF001
    assert any(isinstance(thread, RetentionThread) for thread in threads) is prunes
