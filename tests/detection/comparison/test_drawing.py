"""Samples of sets of jobs that are too large to be read whole."""

import pytest

from ett_service.detection.comparison.drawing import draw
from ett_service.detection.comparison.job_sets import JobSet
from ett_service.detection.comparison.set_figures import SetFigures, measured
from ett_service.storage.engine.store import Store
from tests.builders.clock import MINUTE, NOON
from tests.builders.fleet import LATER, calm_job, store_job

OF_A, OF_B = (JobSet(where={"model": frozenset(model)}) for model in "ab")


@pytest.fixture
def thirty_jobs(store: Store, project_id: int) -> Store:
    """Twenty jobs of the model a, and ten of b."""
    for number in range(30):
        calm = calm_job(NOON + number * MINUTE, compiling=5, training=9, model="aab"[number % 3])
        store_job(store, project_id, f"job-{number:02}", calm)
    return store


def _measured(store: Store, project_id: int, most: int) -> tuple[SetFigures, ...]:
    with store.reading() as conn:
        return measured(conn, project_id, (OF_A, OF_B), LATER, most)


def test_of_a_large_set_a_sample_is_read_and_of_a_small_one_all(
    thirty_jobs: Store, project_id: int
) -> None:
    base, other = _measured(thirty_jobs, project_id, 12)
    whole, _ = _measured(thirty_jobs, project_id, 20)

    assert (len(base.jobs), base.attempts, base.drawn_from) == (12, 12, 20)
    assert len(base.durations_us["pt2_compile"]) == len(base.ratios) == 12
    assert (len(other.jobs), other.drawn_from) == (10, None)
    assert (len(whole.jobs), whole.drawn_from) == (20, None)
    assert base.jobs < whole.jobs


def test_jobs_that_are_named_are_all_read(thirty_jobs: Store, project_id: int) -> None:
    named = JobSet(jobs=("job-0*", "job-1?"))
    with thirty_jobs.reading() as conn:
        base, other = measured(conn, project_id, (named, OF_B), LATER, 5)

    assert base.drawn_from is None
    assert base.jobs | other.jobs >= {"job-00", "job-01", "job-18", "job-19"}
    assert other.drawn_from == 10
    assert len(other.jobs) == 5


def test_without_a_job_there_is_nothing_to_draw(store: Store, project_id: int) -> None:
    with store.reading() as conn:
        assert draw(conn, project_id, {}, (0, LATER), 1) is None
