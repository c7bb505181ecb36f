"""Which runs were made, which are owed, and what the latest could have seen."""

from functools import partial

from ett_service.core.intervals import DAY_US, HOUR_US
from ett_service.storage.engine.store import Store
from ett_service.storage.record.keys import create_project
from ett_service.storage.regressions import detection_runs
from ett_service.storage.regressions.detection_runs import DetectionRun
from tests.builders.clock import NOON, RECEIVED_AT
from tests.builders.fleet import calm_job, store_job


def detection_run(project_id: int, number: int) -> DetectionRun:
    """Return the run of a day."""
    return DetectionRun(project_id, NOON + number * DAY_US, 5, 1, 7, f"[{number}]")


def add(store: Store, run: DetectionRun) -> bool:
    """Keep a run."""
    return store.write(partial(detection_runs.add, run=run, now_us=NOON))


def test_an_instant_is_kept_once(store: Store, project_id: int) -> None:
    assert [add(store, detection_run(project_id, number)) for number in (0, 0, 1)] == [
        True,
        False,
        True,
    ]


def test_projects_are_behind_that_were_not_looked_at_since(store: Store, project_id: int) -> None:
    other = store.write(lambda conn: create_project(conn, "other", NOON))
    for each in (project_id, other):
        store_job(store, each, "job", calm_job(NOON - DAY_US, training=1))
    add(store, detection_run(project_id, 1))

    with store.reading() as conn:
        behind = [detection_runs.projects_behind(conn, NOON + day * DAY_US) for day in (0, 1, 2)]
    assert behind == [[other], [other], [project_id, other]]


def test_a_project_is_behind_once_its_first_job_had_begun(store: Store, project_id: int) -> None:
    store_job(store, project_id, "late", calm_job(NOON + HOUR_US, training=1))
    store_job(store, project_id, "later", calm_job(NOON + 2 * HOUR_US, training=1))

    with store.reading() as conn:
        assert detection_runs.projects_behind(conn, NOON + HOUR_US) == []
        assert detection_runs.projects_behind(conn, NOON + HOUR_US + 1) == [project_id]


def test_what_there_is_is_reported_of_a_project_that_was_never_searched(
    store: Store, project_id: int
) -> None:
    for hour in (1, 2):
        store_job(store, project_id, f"job {hour}", calm_job(NOON + hour * HOUR_US, training=1))
    with store.reading() as conn:
        unsearched = detection_runs.unsearched(conn, project_id, NOON + DAY_US)
    assert unsearched == (NOON + HOUR_US, RECEIVED_AT)

    add(store, detection_run(project_id, 0))
    with store.reading() as conn:
        assert detection_runs.unsearched(conn, project_id, NOON + DAY_US) is None


def test_of_the_latest_run_alone_all_is_kept(store: Store, project_id: int) -> None:
    other = store.write(lambda conn: create_project(conn, "other", NOON))
    for run in (
        detection_run(project_id, 0),
        detection_run(project_id, 1),
        detection_run(other, 0),
    ):
        add(store, run)

    with store.reading() as conn:
        assert detection_runs.latest(conn) == [
            detection_run(project_id, 1),
            detection_run(other, 0),
        ]
        assert detection_runs.latest(conn, [other]) == [detection_run(other, 0)]
