"""Whether a cohort keeps rollups of its own on a day is one row, made when it is first seen."""

import threading
from collections.abc import Collection

import pytest
from sqlalchemy import Connection, select, update

from ett_service.core.dimensions import Cohort
from ett_service.core.intervals import DAY_US
from ett_service.storage.engine.store import Store
from ett_service.storage.fleet import rollup_deltas
from ett_service.storage.fleet.cohort_cap import ProjectDay, move
from ett_service.storage.fleet.rollup_deltas import CohortDay
from ett_service.storage.schema import cohort_day


@pytest.fixture
def ids(store: Store, project_id: int) -> list[int]:
    named = [Cohort(team=team) for team in "abc"]
    ids_by_cohort = store.write(lambda conn: rollup_deltas.ids(conn, project_id, named))
    return [ids_by_cohort[cohort] for cohort in named]


def hold(store: Store, project_id: int, days: Collection[CohortDay]) -> dict[CohortDay, bool]:
    return store.write(lambda conn: rollup_deltas.hold(conn, project_id, days))


def test_nothing_is_asked_where_nothing_is_wanted(store: Store, project_id: int) -> None:
    assert hold(store, project_id, []) == {}


def test_a_new_cohort_keeps_its_own(store: Store, project_id: int, ids: list[int]) -> None:
    days = {(day * DAY_US, cohort_id) for day in range(700) for cohort_id in ids}

    for _ in range(2):
        assert hold(store, project_id, days) == dict.fromkeys(days, True)

    with store.reading() as conn:
        assert len(conn.execute(select(cohort_day)).all()) == len(days)


def test_on_a_day_with_cohorts_in_other_a_new_one_goes_there_too(
    store: Store, project_id: int, ids: list[int]
) -> None:
    first, second, third = ids
    hold(store, project_id, [(0, first), (0, second), (DAY_US, first)])
    out = update(cohort_day).where(cohort_day.c.day_us == 0, cohort_day.c.cohort_id == second)
    store.write(lambda conn: conn.execute(out.values(kept=False)))

    assert hold(store, project_id, [(0, first), (0, second), (0, third), (DAY_US, third)]) == {
        (0, first): True,
        (0, second): False,
        (0, third): False,
        (DAY_US, third): True,
    }


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_a_cohort_that_is_being_added_to_is_not_moved(
    store: Store, project_id: int, ids: list[int]
) -> None:
    held, done = threading.Event(), threading.Event()
    day = ProjectDay(project_id, 0)
    hold(store, project_id, [(0, cohort_id) for cohort_id in ids])

    def add() -> None:
        def work(conn: Connection) -> None:
            rollup_deltas.hold(conn, project_id, [(0, ids[0])])
            held.set()
            done.wait(60)

        store.write(work)

    adding = threading.Thread(target=add)
    adding.start()
    assert held.wait(60)
    assert store.write(lambda conn: move(conn, day, ids, own=False)) == 2
    done.set()
    adding.join()

    assert store.write(lambda conn: move(conn, day, ids, own=False)) == 1
    assert set(hold(store, project_id, [(0, cohort_id) for cohort_id in ids]).values()) == {False}
