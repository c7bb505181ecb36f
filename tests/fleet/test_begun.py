"""What began around markers is read of every job, or of a sample of them."""

import pytest

from ett_service.fleet.begun import Begun
from ett_service.fleet.scope import Scope, Window
from ett_service.storage.engine.store import Store
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
