"""What began around markers is read of every job, or of a sample of them."""

import pytest

from ett_service.fleet.begun import Begun
from ett_service.fleet.scope import Scope, Window
from ett_service.storage.engine.store import Store
from ett_service.storage.fleet import hours
from ett_service.storage.fleet.occurrences import Kind
from ett_service.storage.fleet.sample import Sample
from ett_service.storage.record.dirty_marks import JobKey
from tests.builders.clock import HOUR, NOON
from tests.builders.fleet import calm_job, store_job

EVERYTHING = Scope()
BEFORE, AFTER = Window(NOON, NOON + 10 * HOUR), Window(NOON + 10 * HOUR, NOON + 20 * HOUR)


@pytest.fixture
def ten_jobs(store: Store, project_id: int) -> Store:
    """Return a store of ten jobs, two hours apart, each compiling a minute longer."""
    for number in range(10):
        job = calm_job(NOON + number * 2 * HOUR, compiling=1 + number, training=30)
        store_job(store, project_id, f"job-{number}", job)
    return store


def test_of_a_sample_what_its_jobs_began_is_read(ten_jobs: Store, project_id: int) -> None:
    sample = Sample([JobKey(project_id, f"job-{number}") for number in (0, 1, 7)], 10)
    around = [(EVERYTHING, (BEFORE, AFTER))]
    with ten_jobs.reading() as conn:
        every, some = (Begun(conn, EVERYTHING, around, drawn) for drawn in (None, sample))

    for kind in (Kind.TIME_TO_START, Kind.PT2_COMPILE):
        all_us, _ = every.durations(EVERYTHING, kind, BEFORE)
        drawn_us, jobs = some.durations(EVERYTHING, kind, BEFORE)
        assert (len(all_us), len(set(jobs))) == (5, 2)
        assert list(drawn_us) == list(all_us[:2])
    times, jobs = some.ett(EVERYTHING, AFTER)
    assert set(jobs) == {0}
    assert times.sum() > 0


def test_sums_of_time_are_of_every_job_in_any_case(ten_jobs: Store, project_id: int) -> None:
    sample = Sample([JobKey(project_id, "job-3")], 10)
    with ten_jobs.reading() as conn:
        every, some = (
            Begun(conn, EVERYTHING, [(EVERYTHING, (BEFORE, AFTER))], drawn)
            for drawn in (None, sample)
        )

    for window in (BEFORE, AFTER, Window(NOON + HOUR // 2, NOON + 3 * HOUR)):
        effective_us, us = some.ett_sums(EVERYTHING, window)
        assert (effective_us, us) == every.ett_sums(EVERYTHING, window)
        assert 0 < effective_us < us


def test_where_hours_were_pruned_sums_are_of_full_days(ten_jobs: Store, project_id: int) -> None:
    sample = Sample([JobKey(project_id, "job-3")], 10)
    midnight = NOON + 12 * HOUR
    store_job(ten_jobs, project_id, "later", calm_job(midnight + 30 * HOUR, training=30))
    whole, later = Window(NOON - 12 * HOUR, midnight), Window(midnight, midnight + 40 * HOUR)
    sides = (Window(NOON - 13 * HOUR, NOON + 22 * HOUR), Window(NOON, midnight + 40 * HOUR))
    around = [(EVERYTHING, sides), (EVERYTHING, (whole, later))]
    with ten_jobs.reading() as conn:
        every = Begun(conn, EVERYTHING, around, None)
    expected = [every.ett_sums(EVERYTHING, window) for window in (whole, later)]
    assert min(us for sums in expected for us in sums) > 0

    ten_jobs.write(lambda conn: hours.move_horizon(conn, midnight))
    ten_jobs.write(lambda conn: hours.prune(conn, 1_000))

    with ten_jobs.reading() as conn:
        some = Begun(conn, EVERYTHING, around, sample)
    assert some.ett_sums(EVERYTHING, whole) == expected[0]
    assert some.ett_sums(EVERYTHING, Window(NOON - 13 * HOUR, midnight)) == expected[0]
    assert some.ett_sums(EVERYTHING, sides[1]) == expected[1]
    for window in (Window(NOON, NOON + HOUR), Window(NOON - 13 * HOUR, NOON)):
        assert some.ett_sums(EVERYTHING, window) == (0, 0)
        assert len(some.ett(EVERYTHING, window)[0]) == 0
