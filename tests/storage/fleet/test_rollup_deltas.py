"""What is added to hours is added to their days, and what comes to nothing leaves no row."""

from collections.abc import Mapping
from typing import Any

import pytest
from sqlalchemy import select

from ett_service.core.dimensions import Cohort
from ett_service.core.fleet.measures import MEASURES
from ett_service.core.intervals import DAY_US, HOUR_US
from ett_service.storage.engine.store import Store
from ett_service.storage.fleet import rollup_deltas
from ett_service.storage.fleet.rollup_deltas import Additions, Sums, Tallies, day_of
from ett_service.storage.schema import metadata
from tests.builders.clock import NOON

DAY = day_of(NOON)
TALLIES: Tallies = {"queue_wait": {3: (2, 50), 4: (1, 40)}}


def sums(**amounts: int) -> Sums:
    return [amounts.get(name, 0) for name in MEASURES]


def read(store: Store, table: str) -> dict[Any, Mapping[str, Any]]:
    """Read a table by start, and by name and place where it has them; only what is not 0."""
    with store.reading() as conn:
        rows = conn.execute(select(metadata.tables[table])).mappings().all()
    keys = ("start_us", "name", "place")
    left_out = {*keys, "project_id", "cohort_id"}
    return {
        tuple(row[key] for key in keys if key in row): {
            name: value for name, value in row.items() if value and name not in left_out
        }
        for row in rows
    }


@pytest.fixture
def cohort_id(store: Store, project_id: int) -> int:
    ids = store.write(lambda conn: rollup_deltas.ids(conn, project_id, [Cohort(team="nlp")]))
    return ids[Cohort(team="nlp")]


def write(store: Store, project_id: int, additions: Additions) -> None:
    store.write(lambda conn: additions.write(conn, project_id))


def test_hours_add_up_to_days(store: Store, project_id: int, cohort_id: int) -> None:
    additions = Additions()
    for hour in (0, 23, 24):
        additions.put(DAY + hour * HOUR_US, cohort_id, sums(stalled_us=7, cells=1), TALLIES)
    write(store, project_id, additions)
    write(store, project_id, additions)

    assert read(store, "rollup_hourly") == {
        (DAY + hour * HOUR_US,): {"stalled_us": 14, "cells": 2} for hour in (0, 23, 24)
    }
    assert read(store, "rollup_daily") == {
        (DAY,): {"stalled_us": 28, "cells": 4},
        (DAY + DAY_US,): {"stalled_us": 14, "cells": 2},
    }
    assert read(store, "tally_daily") == {
        (DAY, "queue_wait", 3): {"count": 8, "us": 200},
        (DAY, "queue_wait", 4): {"count": 4, "us": 160},
        (DAY + DAY_US, "queue_wait", 3): {"count": 4, "us": 100},
        (DAY + DAY_US, "queue_wait", 4): {"count": 2, "us": 80},
    }


def test_what_is_taken_out_again_leaves_no_row(
    store: Store, project_id: int, cohort_id: int
) -> None:
    content = (DAY, cohort_id, sums(stalled_us=7, failures=1, cells=1), TALLIES)
    there, back = Additions(), Additions()
    there.put(*content)
    back.take(*content)

    write(store, project_id, there)
    write(store, project_id, back)

    for table in ("rollup_hourly", "rollup_daily", "tally_hourly", "tally_daily"):
        assert read(store, table) == {}


def test_a_row_stays_while_it_sums_anything(store: Store, project_id: int, cohort_id: int) -> None:
    both, back = Additions(), Additions()
    both.put(DAY, cohort_id, sums(stalled_us=7, cells=1), {})
    both.put(DAY, cohort_id, sums(cells=1), {})
    back.take(DAY, cohort_id, sums(stalled_us=7, cells=1), {})

    write(store, project_id, both)
    write(store, project_id, back)

    assert read(store, "rollup_hourly") == {(DAY,): {"cells": 1}}


def test_what_cancels_out_is_not_written() -> None:
    additions = Additions()
    additions.put(DAY, 1, sums(stalled_us=7, cells=1), TALLIES)
    additions.take(DAY, 1, sums(stalled_us=7, cells=1), TALLIES)

    assert not any(additions.by_table().values())


def test_amounts_of_64_bits_are_kept_whole(store: Store, project_id: int, cohort_id: int) -> None:
    additions = Additions()
    additions.put(DAY, cohort_id, sums(tokens=2**62, cells=1), {"queue_wait": {0: (1, 2**62)}})
    write(store, project_id, additions)

    assert read(store, "rollup_daily")[(DAY,)]["tokens"] == 2**62
    assert read(store, "tally_daily")[DAY, "queue_wait", 0]["us"] == 2**62
