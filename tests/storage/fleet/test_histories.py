"""Many jobs' ledgers in a few statements: the same as one by one, and a fair sample of them."""

import dataclasses
from collections.abc import Sequence

import pytest

from ett_service.core.ledger.results import Exclusion
from ett_service.storage.engine.store import Store
from ett_service.storage.fleet.histories import histories, jobs_alive
from ett_service.storage.fleet.rollups import CohortFilter
from ett_service.storage.jobs import ledgers
from ett_service.storage.record import corrections
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.storage.record.keys import create_project
from tests.builders.clock import HOUR, MINUTE, NOON, RECEIVED_AT
from tests.builders.fleet import LATER, calm_job, failing_job, store_job
from tests.builders.ledgers import refreshed

EVERYTHING = CohortFilter()


def _alive(
    store: Store, window: tuple[int, int], cohorts: CohortFilter = EVERYTHING, most: int = 1000
) -> tuple[list[str], int]:
    with store.reading() as conn:
        keys, drawn_from = jobs_alive(conn, cohorts, window, most)
    return [key.job for key in keys], drawn_from


def test_a_history_is_what_is_stored_of_the_job(store: Store, project_id: int) -> None:
    other = store.write(lambda conn: create_project(conn, "other", RECEIVED_AT))
    keys = [
        store_job(
            store, project_id, "calm", calm_job(NOON, compiling=5, training=50, publishing=3)
        ),
        store_job(store, project_id, "fails", failing_job(NOON, team="a")),
        store_job(store, other, "fails", failing_job(NOON + HOUR)),
    ]
    absent = JobKey(project_id, "absent")

    with store.reading() as conn:
        stored = list(histories(conn, [*keys[:1], absent, *keys[1:]]))
        stored_ledgers = []
        for key in keys:
            ledger = ledgers.job_ledger(conn, *key)
            assert ledger is not None
            segments = tuple(ledgers.segments(conn, *key))
            stored_ledgers.append(
                dataclasses.replace(ledger, shares=(), wait_shares=(), segments=segments)
            )

    assert [history.key for history in stored] == keys
    assert [history.ledger for history in stored] == stored_ledgers
    assert [history.exclusions for history in stored] == [(), (), ()]


def test_only_exclusions_that_stand_are_part_of_it(store: Store, project_id: int) -> None:
    key = store_job(store, project_id, "calm", calm_job(NOON, training=50))

    def put(windows: Sequence[Exclusion]) -> None:
        store.write(
            lambda conn: corrections.put_exclusion(
                conn, key, windows, why="test", made_by="ett_0", now_us=RECEIVED_AT
            )
        )

    put([Exclusion(None, NOON)])
    put([Exclusion(NOON, None), Exclusion(NOON - HOUR, NOON - MINUTE)])

    with store.reading() as conn:
        [history] = histories(conn, [key])
    assert set(history.exclusions) == {Exclusion(NOON, None), Exclusion(NOON - HOUR, NOON - MINUTE)}


def test_jobs_with_time_in_the_window_and_a_wanted_cohort_are_alive(
    store: Store, project_id: int
) -> None:
    store_job(store, project_id, "early", calm_job(NOON, training=50, model="a"))
    store_job(store, project_id, "late", calm_job(NOON + 5 * HOUR, training=50, model="b"))
    store_job(store, project_id, "long", calm_job(NOON, training=600, model="b"))

    assert _alive(store, (NOON, NOON + HOUR)) == (["early", "long"], 2)
    assert _alive(store, (NOON + 2 * HOUR, NOON + 3 * HOUR)) == (["long"], 1)
    assert _alive(store, (NOON, NOON + 9 * HOUR)) == (["early", "late", "long"], 3)
    of_b = CohortFilter(where={"model": frozenset({"b"})})
    assert _alive(store, (NOON, NOON + 9 * HOUR), of_b) == (["late", "long"], 2)
    elsewhere = CohortFilter(project_ids=(project_id + 99,))
    assert _alive(store, (NOON, NOON + 9 * HOUR), elsewhere) == ([], 0)


def test_an_excluded_job_is_alive_only_where_exclusions_are_included(
    store: Store, project_id: int
) -> None:
    key = store_job(store, project_id, "calm", calm_job(NOON, training=50))
    store.write(
        lambda conn: corrections.put_exclusion(
            conn, key, [Exclusion()], why="test", made_by="ett_0", now_us=RECEIVED_AT
        )
    )
    refreshed(store, key, LATER)

    assert _alive(store, (NOON, NOON + HOUR)) == ([], 0)
    assert _alive(store, (NOON, NOON + HOUR), CohortFilter(exclusions=True)) == (["calm"], 1)


@pytest.fixture
def forty_jobs(store: Store, project_id: int) -> Store:
    for number in range(40):
        store_job(store, project_id, f"job-{number:02}", calm_job(NOON, training=5))
    return store


def test_a_sample_is_the_same_every_time_in_order_and_says_of_how_many(forty_jobs: Store) -> None:
    window = (NOON, NOON + HOUR)
    drawn, of = _alive(forty_jobs, window, most=10)

    assert (len(drawn), of) == (10, 40)
    assert drawn == sorted(drawn)
    assert _alive(forty_jobs, window, most=10) == (drawn, 40)
    # More of them are the same and others, and they are no first or last ones.
    assert set(drawn) < set(_alive(forty_jobs, window, most=20)[0])
    assert drawn[0] < "job-15"
    assert drawn[-1] > "job-25"
