"""Which runs were made, which are owed, and what the latest could have seen."""

from functools import partial

from ett_service.core.interval import DAY_US
from ett_service.storage import detection_runs
from ett_service.storage.detection_runs import DetectionRun
from ett_service.storage.engine import Store
from ett_service.storage.keys import create_project
from tests.builders import NOON


def made(project_id: int, number: int) -> DetectionRun:
    """Return the run of a day."""
    return DetectionRun(project_id, NOON + number * DAY_US, 5, 1, 7, f"[{number}]")


def add(store: Store, run: DetectionRun) -> bool:
    """Keep a run."""
    return store.write(partial(detection_runs.add, run=run, now_us=NOON))


def test_an_instant_is_kept_once(store: Store, project_id: int) -> None:
    assert [add(store, made(project_id, number)) for number in (0, 0, 1)] == [True, False, True]


def test_projects_are_behind_that_were_not_looked_at_since(store: Store, project_id: int) -> None:
    other = store.write(lambda conn: create_project(conn, "other", NOON))
    add(store, made(project_id, 1))

    with store.reading() as conn:
        behind = [detection_runs.behind(conn, NOON + day * DAY_US) for day in (0, 1, 2)]
    assert behind == [[other], [other], [project_id, other]]


def test_of_the_latest_run_alone_all_is_kept(store: Store, project_id: int) -> None:
    other = store.write(lambda conn: create_project(conn, "other", NOON))
    for run in (made(project_id, 0), made(project_id, 1), made(other, 0)):
        add(store, run)

    with store.reading() as conn:
        assert detection_runs.latest(conn) == [made(project_id, 1), made(other, 0)]
        assert detection_runs.latest(conn, [other]) == [made(other, 0)]
