"""A cell of the rollups that is not the sum of its contributions is found, wherever it lies."""

import pytest
from sqlalchemy import Connection, Table, delete, insert, select, update

from ett_service.aggregation.verify import DayVerdict, RollupDifference, verify_rollups
from ett_service.core.events import AttemptEnded, AttemptStarted, JobFacts, PhaseStarted
from ett_service.core.intervals import DAY_US
from ett_service.core.words import Outcome, Phase
from ett_service.storage import schema
from ett_service.storage.engine.store import Store
from ett_service.storage.fleet import cohort_cap
from ett_service.storage.fleet.cohort_cap import ProjectDay
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.storage.record.keys import create_project
from tests.builders.clock import HOUR, MINUTE, NOON, RECEIVED_AT
from tests.builders.ledgers import deliver, refreshed
from tests.builders.record import event

ROLLUPS = [schema.rollup_hourly, schema.rollup_daily, schema.tally_hourly, schema.tally_daily]


@pytest.fixture
def day(store: Store, project_id: int) -> ProjectDay:
    """Return the first of two days on which jobs of two cohorts ran."""
    for team, hours in (("nlp", 20), ("vision", 2)):
        key = JobKey(project_id, team)
        events = [
            event(JobFacts, team=team),
            event(AttemptStarted, gpus=8),
            event(PhaseStarted, NOON + MINUTE, phase=Phase.TRAIN_LOOP),
            event(AttemptEnded, NOON + hours * HOUR, outcome=Outcome.FAILED),
        ]
        deliver(store, key, events)
        refreshed(store, key, NOON + 2 * DAY_US)
    return ProjectDay(project_id, NOON - NOON % DAY_US)


def verified(store: Store) -> list[DayVerdict]:
    return list(verify_rollups(store))


def differences(store: Store) -> list[RollupDifference]:
    return [difference for day in verified(store) for difference in day.differences]


def test_nothing_differs_in_what_was_rolled_up(store: Store, day: ProjectDay) -> None:
    days = verified(store)
    assert [(day.day_us, day.differences) for day in days] == [
        (day.day_us, ()),
        (day.day_us + DAY_US, ()),
    ]
    assert all(day.cells > 10 for day in days)


def test_nothing_differs_where_cohorts_are_in_other(store: Store, day: ProjectDay) -> None:
    with store.reading() as conn:
        moves = cohort_cap.plan(conn, day, 1)
    store.write(lambda conn: cohort_cap.move(conn, day, moves.out, own=False))
    assert differences(store) == []


def test_projects_are_compared_each_for_itself(store: Store, day: ProjectDay) -> None:
    elsewhere = store.write(lambda conn: create_project(conn, "other", RECEIVED_AT))
    key = JobKey(elsewhere, "llm-70b")
    deliver(store, key, [event(AttemptStarted, gpus=8)])
    refreshed(store, key, NOON + MINUTE)

    assert {verified_day.project_id for verified_day in verified(store)} == {
        day.project_id,
        elsewhere,
    }
    assert differences(store) == []


@pytest.mark.parametrize("table", ROLLUPS, ids=str)
def test_a_planted_wrong_cell_is_found(store: Store, day: ProjectDay, table: Table) -> None:
    measure = "us" if "us" in table.c else "effective_training_weighted_us"

    def plant(conn: Connection) -> tuple[int, ...]:
        key = conn.execute(select(*table.primary_key).limit(1)).one()
        where = [column == value for column, value in zip(table.primary_key, key, strict=True)]
        wrong = update(table).where(*where).values({measure: table.c[measure] + 1})
        conn.execute(wrong)
        return tuple(key)

    key = store.write(plant)

    (difference,) = differences(store)
    assert difference.project_id == day.project_id
    assert difference.what == " ".join([table.name, *map(str, key[1:]), measure])
    assert difference.stored == int(str(difference.recomputed)) + 1


@pytest.mark.usefixtures("day")
@pytest.mark.parametrize("table", ROLLUPS, ids=str)
def test_a_missing_row_is_found(store: Store, table: Table) -> None:
    store.write(lambda conn: conn.execute(delete(table)))
    reported = differences(store)
    assert {difference.stored for difference in reported} == {"nothing"}
    assert {difference.what.split()[0] for difference in reported} == {table.name}


def test_a_row_of_a_day_without_contributions_is_found(store: Store, day: ProjectDay) -> None:
    def plant(conn: Connection) -> None:
        cohort_id = conn.scalars(select(schema.cohort.c.id).limit(1)).one()
        row = {"project_id": day.project_id, "start_us": 9 * DAY_US, "cohort_id": cohort_id}
        conn.execute(insert(schema.rollup_daily), row)

    store.write(plant)
    reported = differences(store)
    assert {difference.recomputed for difference in reported} == {"nothing"}
    assert {difference.what.split()[1] for difference in reported} == {str(9 * DAY_US)}


@pytest.mark.usefixtures("day")
def test_a_contribution_of_no_job_is_found(store: Store) -> None:
    more = update(schema.contribution).values(failures=schema.contribution.c.failures + 1)
    store.write(lambda conn: conn.execute(more))
    assert {difference.what.split()[-1] for difference in differences(store)} == {"failures"}


@pytest.mark.usefixtures("day")
def test_a_lost_row_of_the_cap_is_found(store: Store) -> None:
    store.write(lambda conn: conn.execute(delete(schema.cohort_day)))
    assert differences(store)
