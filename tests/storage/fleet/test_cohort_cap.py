"""The largest cohorts of a day keep their own rollups; moves in and out of ``other`` are exact."""

import pytest
from sqlalchemy import Connection, select

from ett_service.core.dimensions import Cohort
from ett_service.core.events import AttemptEnded, AttemptStarted, JobFacts
from ett_service.core.fleet.contribution import Cell, Cells
from ett_service.core.intervals import DAY_US, HOUR_US
from ett_service.core.words import Outcome
from ett_service.storage import schema
from ett_service.storage.engine.store import Store
from ett_service.storage.fleet import cohort_cap, contributions
from ett_service.storage.fleet.cohort_cap import CAP_EVERY_US, CohortCapping, Moves, ProjectDay
from ett_service.storage.fleet.rollup_deltas import day_of
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.storage.schema import cohort_day
from ett_service.worker.ledgers import Worker
from tests.builders.clock import HOUR, NOON, Clock
from tests.builders.ledgers import accept, deliver, refreshed
from tests.builders.record import event
from tests.builders.rollups import Rollups, check_rollups, stored_rollups
from tests.builders.servers.waiting import wait_for
from tests.builders.servers.worker import running

COHORTS, MOST = 12, 10


@pytest.fixture
def day(project_id: int) -> ProjectDay:
    return ProjectDay(project_id, day_of(NOON))


def cohort(number: int, *, excluded: bool = False) -> Cohort:
    return Cohort(team=f"{number:04}", excluded=excluded)


def cells(number: int, gpu_us: int, *, excluded: bool = False) -> Cells:
    """Return two hours of a cohort on the day, of which one is paid for, and one on the next."""
    paid = Cell(
        {"pt2_compile_us": 1, "pt2_compile_weighted_us": gpu_us, "cells": 1},
        {("queue_wait", number % 7): (1, number)},
    )
    unpaid = Cell({"scheduling_us": 1, "scheduling_weighted_us": 10**6, "cells": 1})
    own = cohort(number, excluded=excluded)
    return {(NOON, own): paid, (NOON + HOUR_US, own): unpaid, (NOON + DAY_US, own): paid}


def contribute(store: Store, day: ProjectDay, job: str, contribution: Cells) -> None:
    def work(conn: Connection) -> None:
        key = JobKey(day.project_id, job)
        accept(conn, key, [])
        contributions.replace(conn, key, contribution)

    store.write(work)


def crowd(store: Store, day: ProjectDay, cohorts: int = COHORTS) -> Rollups:
    """Fill the day with cohorts, the later the larger, and return its rollups."""
    contribution: Cells = {}
    for number in range(cohorts):
        contribution |= cells(number, number)
    contribute(store, day, "all", contribution)
    return stored_rollups(store)


def planned(store: Store, day: ProjectDay, most: int = MOST) -> Moves:
    with store.reading() as conn:
        return cohort_cap.plan(conn, day, most)


def keep(store: Store, day: ProjectDay, most: int = MOST) -> Moves:
    moves = planned(store, day, most)
    store.write(lambda conn: cohort_cap.move(conn, day, moves.out, own=False))
    store.write(lambda conn: cohort_cap.move(conn, day, moves.back, own=True))
    store.write(lambda conn: cohort_cap.forget(conn, day, moves.gone))
    return moves


def teams(rollups: Rollups, day: ProjectDay) -> tuple[set[str], int]:
    """Return whose rollups stand alone on the day, and how many cells ``other`` sums up."""
    daily = {
        label: row
        for (grain, _, start, label), row in rollups.items()
        if grain == "daily" and start == day.day_us
    }
    own = {cohort.team for cohort, is_other in daily if not is_other}
    return own, sum(row["cells"] for (_, is_other), row in daily.items() if is_other)


def test_the_largest_keep_their_own_and_the_rest_are_summed_up(
    store: Store, day: ProjectDay
) -> None:
    before = crowd(store, day, 600)
    keep(store, day, 500)

    after = stored_rollups(store)
    own, in_other = teams(after, day)
    assert own == {f"{number:04}" for number in range(100, 600)}
    assert in_other == 2 * 100
    the_next = ProjectDay(day.project_id, day.day_us + DAY_US)
    assert teams(after, the_next) == teams(before, the_next)
    other = after["daily", day.project_id, day.day_us, (Cohort(), True)]
    assert other["pt2_compile_weighted_us"] == sum(range(100))
    assert other["queue_wait 0 us"] == sum(range(0, 100, 7))


def test_a_day_that_keeps_the_cap_is_left_alone(store: Store, day: ProjectDay) -> None:
    crowd(store, day)
    keep(store, day)
    assert planned(store, day) == Moves([], [], [])
    assert planned(store, day, COHORTS).back


def test_what_comes_back_is_what_went(store: Store, day: ProjectDay) -> None:
    before = crowd(store, day)
    keep(store, day, 3)
    assert len(teams(stored_rollups(store), day)[0]) == 3

    keep(store, day, COHORTS)

    assert stored_rollups(store) == before


def test_a_cohort_that_grows_in_other_gets_its_own_rollups(store: Store, day: ProjectDay) -> None:
    crowd(store, day)
    keep(store, day)
    contribute(store, day, "more", cells(1, 50))

    assert keep(store, day) == Moves(out=[_id(store, 2)], back=[_id(store, 1)], gone=[])

    after = stored_rollups(store)
    row = after["daily", day.project_id, day.day_us, (cohort(1), False)]
    assert (row["pt2_compile_weighted_us"], row["cells"]) == (51, 4)
    assert "0002" not in teams(after, day)[0]


def test_a_cohort_that_is_new_to_a_full_day_begins_in_other(store: Store, day: ProjectDay) -> None:
    crowd(store, day)
    keep(store, day)
    contribute(store, day, "new", cells(COHORTS, 50))

    own, in_other = teams(stored_rollups(store), day)
    assert len(own) == MOST
    assert in_other == 2 * (COHORTS - MOST + 1)
    assert keep(store, day).back == [_id(store, COHORTS)]


def test_of_equal_cohorts_the_earlier_keeps_its_own(store: Store, day: ProjectDay) -> None:
    contribute(store, day, "equal", cells(0, 7) | cells(1, 7) | cells(2, 7))
    assert planned(store, day, 1).out == [_id(store, 1), _id(store, 2)]


def test_excluded_time_stays_apart_in_other(store: Store, day: ProjectDay) -> None:
    contribute(store, day, "all", cells(0, 1, excluded=True) | cells(1, 2) | cells(2, 3))
    keep(store, day, 1)

    after = stored_rollups(store)
    for excluded, us in ((True, 1), (False, 2)):
        row = after["daily", day.project_id, day.day_us, (Cohort(excluded=excluded), True)]
        assert (row["pt2_compile_weighted_us"], row["cells"]) == (us, 2)


def test_a_cohort_of_which_nothing_is_left_is_forgotten(store: Store, day: ProjectDay) -> None:
    crowd(store, day)
    contribute(store, day, "gone", cells(COHORTS, 50))
    keep(store, day)
    left = _id(store, COHORTS)
    contribute(store, day, "gone", {})

    assert keep(store, day).gone == [left]

    seen = select(cohort_day.c.cohort_id).where(cohort_day.c.day_us == day.day_us)
    with store.reading() as conn:
        assert left not in conn.scalars(seen).all()


def test_full_days_are_those_over_the_cap_or_with_an_other(store: Store, day: ProjectDay) -> None:
    crowd(store, day)
    the_next = ProjectDay(day.project_id, day.day_us + DAY_US)
    with store.reading() as conn:
        assert cohort_cap.full_days(conn, COHORTS) == []
        assert cohort_cap.full_days(conn, MOST) == [the_next, day]
    keep(store, day)
    with store.reading() as conn:
        assert cohort_cap.full_days(conn, COHORTS) == [day]


def _id(store: Store, number: int) -> int:
    named = select(schema.cohort.c.id).where(schema.cohort.c.team == cohort(number).team)
    with store.reading() as conn:
        return int(conn.execute(named).scalar_one())


def train(store: Store, project_id: int, team: str, hours: int) -> None:
    key = JobKey(project_id, team)
    events = [
        event(JobFacts, team=team, gpus=8),
        event(AttemptStarted, gpus=8),
        event(AttemptEnded, NOON + hours * HOUR, outcome=Outcome.COMPLETED),
    ]
    deliver(store, key, events)
    refreshed(store, key, NOON + 100 * HOUR)


def own(rollups: Rollups) -> set[str]:
    return {
        cohort.team
        for grain, _, _, (cohort, is_other) in rollups
        if grain == "daily" and not is_other
    }


def test_a_day_over_the_cap_is_brought_back(store: Store, project_id: int) -> None:
    for hours, team in enumerate("abcd", start=1):
        train(store, project_id, team, hours)
    clock = Clock()
    capping = CohortCapping(store, clock, most=2)

    capping.run_once()
    assert own(check_rollups(store)) == {"c", "d"}

    train(store, project_id, "e", 5)
    capping.run_once()
    assert own(check_rollups(store)) == {"c", "d"}
    clock.now_us += CAP_EVERY_US
    capping.run_once()
    assert own(check_rollups(store)) == {"d", "e"}


def test_days_for_which_there_was_no_time_come_next(store: Store, project_id: int) -> None:
    train(store, project_id, "a", 40)
    train(store, project_id, "b", 41)

    class Slow(Clock):
        """A clock that goes on a second whenever it is read."""

        def __call__(self) -> int:
            self.now_us += 1_000_000
            return self.now_us

    capping = CohortCapping(store, Slow(), most=1)
    capping.run_once()
    assert own(check_rollups(store)) == {"a", "b"}


def test_a_running_worker_keeps_the_cap(store: Store, project_id: int) -> None:
    for hours, team in enumerate("abc", start=1):
        train(store, project_id, team, hours)
    with running(Worker(store, Clock(), poll_seconds=0.01, cohorts_a_day=1)):
        assert wait_for(lambda: own(stored_rollups(store)) == {"c"})
    assert own(check_rollups(store)) == {"c"}
