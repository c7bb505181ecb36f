"""How much room tables take, how it grows, and what pruning would free."""

from functools import partial

from sqlalchemy import func, insert, select

from ett_service.core.intervals import DAY_US
from ett_service.storage import sizes
from ett_service.storage.engine.store import Store
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.storage.schema import event, store_size
from tests.storage.test_retention import LATER, closed_job, fold

DAY = LATER - LATER % DAY_US


def test_tables_are_measured_with_their_indexes(store: Store, project_id: int) -> None:
    with store.reading() as conn:
        before = sizes.table_sizes(conn)["event"]
    for number in range(20):
        fold(store, JobKey(project_id, f"job-{number}"), closed_job())
    with store.reading() as conn:
        measured = sizes.table_sizes(conn)["event"]
        held = conn.execute(select(func.sum(func.length(event.c.body))))
        held_bytes = held.scalar_one()
    assert measured >= before  # PostgreSQL fills again what others have left
    assert measured > held_bytes > 0


def test_a_week_of_growth_follows_from_the_days_that_were_measured(
    store: Store, project_id: int
) -> None:
    fold(store, JobKey(project_id, "closed"), closed_job())
    with store.reading() as conn:
        measured = sizes.measure(conn, LATER, 30 * DAY_US)
    assert measured.week_bytes is None
    total = measured.total_bytes
    rows = [
        {"day_us": DAY - 9 * DAY_US, "name": "event", "bytes": 1},
        {"day_us": DAY - 2 * DAY_US, "name": "event", "bytes": total - 1_000},
        {"day_us": DAY - 2 * DAY_US, "name": "job", "bytes": 600},
    ]
    store.write(lambda conn: conn.execute(insert(store_size), rows))

    with store.reading() as conn:
        measured = sizes.measure(conn, LATER, 30 * DAY_US)

    grown = measured.total_bytes - (total - 1_000 + 600)
    assert measured.week_bytes == grown * 7 // 2


def test_pruning_would_free_the_share_of_the_jobs_that_are_old_enough(
    store: Store, project_id: int
) -> None:
    for name in "ab":
        fold(store, JobKey(project_id, name), closed_job())
    fold(store, JobKey(project_id, "young"), [*closed_job()[:-2]])
    with store.reading() as conn:
        all_of_it = sizes.measure(conn, LATER, 0)
        none_of_it = sizes.measure(conn, LATER, 200 * DAY_US)

    record_bytes = all_of_it.tables["event"] + all_of_it.tables["segment"]
    assert all_of_it.prunable.jobs == 3
    assert all_of_it.prunable_bytes == record_bytes
    assert (none_of_it.prunable.jobs, none_of_it.prunable_bytes) == (0, 0)


def test_the_latest_sizes_of_a_day_are_kept(store: Store) -> None:
    for n_bytes in (3, 5):
        store.write(partial(sizes.record, tables={"event": n_bytes}, now_us=DAY + n_bytes))
    with store.reading() as conn:
        assert conn.execute(store_size.select()).all() == [(DAY, "event", 5)]
