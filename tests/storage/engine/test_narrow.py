"""Statements that name few columns of a wide row write those and leave the others alone."""

import pytest
from sqlalchemy import insert, select

from ett_service.core.dimensions import Cohort
from ett_service.storage.engine import statements
from ett_service.storage.engine.store import Store
from ett_service.storage.fleet import rollup_deltas
from ett_service.storage.schema import rollup_daily

NAMES = ("stalled_us", "failures")


def test_what_an_upsert_names_is_written_and_the_rest_is_left(
    store: Store, project_id: int
) -> None:
    cohort = Cohort()
    cohort_id = store.write(lambda conn: rollup_deltas.ids(conn, project_id, [cohort]))[cohort]
    first, second = (project_id, 0, cohort_id), (project_id, 1, cohort_id)
    row = dict(zip(("project_id", "start_us", "cohort_id"), first, strict=True))
    store.write(lambda conn: conn.execute(insert(rollup_daily), {**row, "failures": 3, "cells": 5}))

    store.write(
        lambda conn: statements.add(conn, rollup_daily, NAMES, [(*first, 7, 1), (*second, 8, 2)])
    )
    store.write(lambda conn: statements.put(conn, rollup_daily, ("failures",), [(*second, 9)]))

    columns = [rollup_daily.c[name] for name in ("start_us", *NAMES, "attempts", "cells")]
    with store.reading() as conn:
        rows = conn.execute(select(*columns).order_by(rollup_daily.c.start_us)).all()
    assert [tuple(row) for row in rows] == [(0, 7, 4, 0, 5), (1, 8, 9, 0, 0)]


def test_many_rows_are_written_as_few_are(store: Store, project_id: int) -> None:
    cohort = Cohort()
    cohort_id = store.write(lambda conn: rollup_deltas.ids(conn, project_id, [cohort]))[cohort]
    rows = [(project_id, start, cohort_id, start, 2**62) for start in range(100)]

    store.write(lambda conn: statements.add(conn, rollup_daily, (*NAMES[:1], "cells"), rows))
    more = [(*row[:3], -row[3], 1) for row in rows]
    store.write(lambda conn: statements.add(conn, rollup_daily, (*NAMES[:1], "cells"), more))

    columns = (rollup_daily.c.start_us, rollup_daily.c.stalled_us, rollup_daily.c.cells)
    with store.reading() as conn:
        stored = sorted(tuple(row) for row in conn.execute(select(*columns)))
    assert stored == [(start, 0, 2**62 + 1) for start in range(100)]


def test_no_rows_are_no_statement(store: Store) -> None:
    store.write(lambda conn: statements.add(conn, rollup_daily, NAMES, []))


def test_a_column_is_written_where_any_row_has_other_than_0() -> None:
    assert statements.nonzero_places([[0, 1, 0], [0, 0, -1]]) == [1, 2]
    assert statements.nonzero_places([]) == []


@pytest.mark.parametrize("count", [1, 3, 100])
def test_rows_are_inserted_and_deleted_one_or_many_at_once(
    store: Store, project_id: int, count: int
) -> None:
    cohort = Cohort()
    cohort_id = store.write(lambda conn: rollup_deltas.ids(conn, project_id, [cohort]))[cohort]
    rows = [(project_id, start, cohort_id, start, 1) for start in range(count)]
    other_row = (project_id, count, cohort_id, 7, 1)

    names = (NAMES[0], "cells")
    store.write(lambda conn: statements.insert(conn, rollup_daily, names, [*rows, other_row]))

    columns = [rollup_daily.c[name] for name in ("project_id", "start_us", "cohort_id", *names)]
    with store.reading() as conn:
        assert {tuple(row) for row in conn.execute(select(*columns))} == {*rows, other_row}

    store.write(lambda conn: statements.delete(conn, rollup_daily, [row[:3] for row in rows]))
    with store.reading() as conn:
        assert [tuple(row) for row in conn.execute(select(*columns))] == [other_row]
