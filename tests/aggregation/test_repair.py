"""Rollups that drifted are brought back to the sum of what jobs contribute."""

from random import Random

import pytest
from sqlalchemy import Connection, delete, insert, update

from ett_service.aggregation.verify import repair
from ett_service.storage.engine.store import Store
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.storage.schema import rollup_daily, rollup_hourly, tally_daily, tally_hourly
from tests.builders.clock import HOUR, NOON
from tests.builders.drawn.story import drawn_story
from tests.builders.ledgers import deliver, refreshed
from tests.builders.rollups import expected_rollups, stored_rollups


@pytest.fixture(autouse=True)
def _jobs(store: Store, project_id: int) -> None:
    for number in range(5):
        key = JobKey(project_id, f"job-{number}")
        deliver(store, key, drawn_story(NOON, Random(number)))
        refreshed(store, key, NOON + 100 * HOUR)


def test_what_is_right_is_left_alone(store: Store) -> None:
    assert repair(store) == 0
    assert stored_rollups(store) == expected_rollups(store)


def test_rows_that_are_wrong_missing_or_too_many_are_corrected(
    store: Store, project_id: int
) -> None:
    def spoil(conn: Connection) -> None:
        conn.execute(update(rollup_hourly).values(failures=rollup_hourly.c.failures + 3))
        conn.execute(delete(rollup_daily))
        conn.execute(delete(tally_daily).where(tally_daily.c.name == "time_to_start"))
        (cohort_id,) = conn.execute(rollup_hourly.select().limit(1)).mappings().all()[:1]
        far = {"project_id": project_id, "start_us": 0, "cohort_id": cohort_id["cohort_id"]}
        conn.execute(insert(rollup_hourly), {**far, "cells": 1, "evaluation_us": 5})
        conn.execute(insert(tally_hourly), {**far, "name": "n", "place": 1, "count": 1, "us": 1})

    store.write(spoil)
    assert stored_rollups(store) != expected_rollups(store)

    assert repair(store) > 0
    assert stored_rollups(store) == expected_rollups(store)
    assert repair(store) == 0
