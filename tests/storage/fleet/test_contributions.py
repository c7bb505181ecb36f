"""What a job adds is replaced row by row, and the rollups follow by the difference."""

import itertools
from functools import partial

import pytest
from sqlalchemy import Connection, select

from ett_service.core.dimensions import Cohort
from ett_service.core.fleet.contribution import Cell, Cells
from ett_service.core.fleet.measures import MEASURES
from ett_service.core.intervals import HOUR_US
from ett_service.storage.engine.store import Store
from ett_service.storage.fleet import contributions
from ett_service.storage.record.dirty_marks import JobBatch, JobKey
from ett_service.storage.schema import rollup_daily
from tests.builders.clock import NOON
from tests.builders.databases.statements import (
    FEWEST_STATEMENTS,
    Crash,
    before_statement,
    recorded_statements,
)
from tests.builders.ledgers import deliver
from tests.builders.rollups import stored_rollups

NLP, VISION = Cohort(team="nlp", size="8-15"), Cohort(team="vision", size="8-15")


def cell(us: int, **tallied: int) -> Cell:
    return Cell({"stalled_us": us, "cells": 1}, dict.fromkeys(tallied.items(), (1, us)))


@pytest.fixture
def key(store: Store, project_id: int) -> JobKey:
    named = JobKey(project_id, "llm-70b")
    deliver(store, named, [])
    return named


def replace(store: Store, key: JobKey, cells: Cells, since: int | None = None) -> None:
    store.write(lambda conn: contributions.replace(conn, key, cells, since))


def stored(store: Store, key: JobKey) -> dict[tuple[int, Cohort], tuple[int, str]]:
    """Read what the job adds: stalled time and tallies."""
    with store.reading() as conn:
        batch = JobBatch(key.project_id, [key.job])
        cells = contributions.existing_of_batch(conn, batch).get(key.job, {})
    place = MEASURES.index("stalled_us")
    return {at: (cell.content.sums[place], cell.content.tallies) for at, cell in cells.items()}


def stalled_a_day(store: Store) -> list[int]:
    with store.reading() as conn:
        return sorted(conn.scalars(select(rollup_daily.c.stalled_us)))


def test_what_is_read_is_what_was_written(store: Store, key: JobKey) -> None:
    replace(store, key, {(NOON, NLP): cell(7, queue_wait=3), (NOON + HOUR_US, NLP): cell(5)})

    assert stored(store, key) == {
        (NOON, NLP): (7, '{"queue_wait":{"3":[1,7]}}'),
        (NOON + HOUR_US, NLP): (5, "{}"),
    }
    assert stalled_a_day(store) == [12]


def test_only_the_difference_moves_the_rollups(store: Store, key: JobKey) -> None:
    beside = JobKey(key.project_id, "beside")
    deliver(store, beside, [])
    replace(store, beside, {(NOON, NLP): cell(100, queue_wait=3)})
    replace(store, key, {(NOON, NLP): cell(7, queue_wait=3), (NOON + HOUR_US, NLP): cell(5)})
    replace(store, key, {(NOON, NLP): cell(8, queue_wait=4), (NOON + HOUR_US, VISION): cell(5)})

    assert stalled_a_day(store) == [5, 108]
    daily = {
        place[3][0].team: row for place, row in stored_rollups(store).items() if "daily" in place
    }
    assert daily["nlp"]["cells"] == 2
    assert daily["nlp"]["queue_wait 3 count"] == daily["nlp"]["queue_wait 4 count"] == 1


def test_hours_before_the_change_stay_as_they_are(store: Store, key: JobKey) -> None:
    replace(store, key, {(NOON, NLP): cell(7), (NOON + HOUR_US, NLP): cell(5)})
    replace(store, key, {(NOON + HOUR_US, VISION): cell(6)}, since=NOON + HOUR_US + 59)

    assert stored(store, key) == {(NOON, NLP): (7, "{}"), (NOON + HOUR_US, VISION): (6, "{}")}
    assert stalled_a_day(store) == [6, 7]


def test_a_job_that_adds_nothing_any_more_leaves_nothing(store: Store, key: JobKey) -> None:
    replace(store, key, {(NOON, NLP): cell(7, queue_wait=3)})
    replace(store, key, {})

    assert stored(store, key) == {}
    assert stored_rollups(store) == {}


def test_what_has_not_changed_is_not_written(store: Store, key: JobKey) -> None:
    cells = {(NOON, NLP): cell(7, queue_wait=3)}
    replace(store, key, cells)

    def work(conn: Connection) -> list[str]:
        with recorded_statements(conn) as statements:
            contributions.replace(conn, key, cells)
        return statements

    *read, merge = store.write(work)
    assert read
    assert all(statement.startswith("SELECT") for statement in read)
    assert merge.startswith("DELETE FROM unmerged")


def test_a_crash_between_any_two_statements_leaves_nothing_half(store: Store, key: JobKey) -> None:
    replace(store, key, {(NOON, NLP): cell(7, queue_wait=3), (NOON + HOUR_US, NLP): cell(5)})
    before = stored_rollups(store), stored(store, key)

    def crash() -> None:
        raise Crash

    def work(conn: Connection, place: int) -> None:
        with before_statement(conn, place, crash):
            contributions.replace(conn, key, {(NOON, VISION): cell(9, queue_wait=3)})

    for place in itertools.count():
        try:
            store.write(partial(work, place=place))
        except Crash:
            assert (stored_rollups(store), stored(store, key)) == before
        else:
            assert place > FEWEST_STATEMENTS
            break
    assert stored(store, key) == {(NOON, VISION): (9, '{"queue_wait":{"3":[1,9]}}')}
