"""Samples of the jobs of a window: fair, repeatable, and read in slices where there are many."""

from itertools import pairwise

import pytest

from ett_service.core.events import Exclusion
from ett_service.storage.engine.store import Store
from ett_service.storage.fleet.rollups import CohortFilter
from ett_service.storage.fleet.sample import MOST_LISTED, SLICES, jobs_alive, slices
from ett_service.storage.record import corrections
from tests.builders.clock import HOUR, NOON, RECEIVED_AT, SECOND
from tests.builders.fleet import LATER, calm_job, store_job
from tests.builders.ledgers import refreshed

EVERYTHING = CohortFilter()


def _alive(
    store: Store,
    window: tuple[int, int],
    cohorts: CohortFilter = EVERYTHING,
    most: int = 1000,
    most_listed: int = MOST_LISTED,
) -> tuple[list[str], int]:
    with store.reading() as conn:
        keys, drawn_from = jobs_alive(conn, cohorts, window, most, most_listed=most_listed)
    return [key.job for key in keys], drawn_from


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


@pytest.fixture
def sixty_jobs(store: Store, project_id: int) -> Store:
    """Jobs that begin a minute after each other and take 20; two thirds are of the model a."""
    for number in range(60):
        calm = calm_job(NOON + number * 60 * SECOND, training=20, model="aab"[number % 3])
        store_job(store, project_id, f"job-{number:02}", calm)
    return store


def test_of_many_jobs_those_are_read_that_end_in_slices_of_time(sixty_jobs: Store) -> None:
    window = (NOON, NOON + 2 * HOUR)
    drawn, of = _alive(sixty_jobs, window, most=20, most_listed=0)

    assert of == 60
    assert 10 <= len(drawn) <= 20
    assert drawn == sorted(drawn)
    assert _alive(sixty_jobs, window, most=20, most_listed=0) == (drawn, 60)
    assert drawn[0] < "job-15"
    assert drawn[-1] > "job-45"
    of_b = CohortFilter(where={"model": frozenset({"b"})})
    drawn, of = _alive(sixty_jobs, window, of_b, most=10, most_listed=0)
    assert of == 20
    assert 4 <= len(drawn) <= 10
    assert all(int(job.removeprefix("job-")) % 3 == 2 for job in drawn)


def test_what_ends_after_the_window_has_the_same_chance(sixty_jobs: Store) -> None:
    first_hour = (NOON, NOON + HOUR)
    alive, of = _alive(sixty_jobs, first_hour)
    drawn, counted = _alive(sixty_jobs, first_hour, most=30, most_listed=0)

    assert counted == of == 60
    assert set(drawn) < set(alive)
    assert any(job >= "job-41" for job in drawn)  # ended after the window
    assert any(job < "job-40" for job in drawn)


@pytest.mark.parametrize("one_in", [2, 7, 300])
def test_slices_are_a_part_of_each_stretch_of_time(one_in: int) -> None:
    span = (NOON, NOON + 5 * HOUR)
    drawn = slices(span, one_in)

    assert drawn == slices(span, one_in)
    assert all(before[1] <= after[0] for before, after in pairwise(drawn))
    assert span[0] <= drawn[0][0]
    assert drawn[-1][1] <= span[1]
    taken = sum(end - start for start, end in drawn)
    assert taken == pytest.approx(5 * HOUR / one_in, rel=0.01)
    stretches = {(start - span[0]) * SLICES // (5 * HOUR) for start, _ in drawn}
    assert len(stretches) > 0.99 * SLICES


def test_one_in_one_is_the_whole() -> None:
    assert slices((NOON, NOON + HOUR), 1) == [(NOON, NOON + HOUR)]
