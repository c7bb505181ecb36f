"""Rows that are there already are left as they are, and upserts write the columns they name."""

import threading
from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Connection, insert, select

from ett_service.core.dimensions import Cohort
from ett_service.storage.engine import statements
from ett_service.storage.engine.statements import (
    COPY_FROM,
    Summed,
    Summing,
    insert_new,
    summed_rows,
)
from ett_service.storage.engine.store import Store
from ett_service.storage.fleet import rollup_deltas
from ett_service.storage.schema import event, job, rollup_daily
from tests.builders.clock import NOON

NAMES = ("stalled_us", "failures")


def rows(project_id: int, numbers: range, body: str = "{}") -> list[Mapping[str, Any]]:
    return [
        {
            "project_id": project_id,
            "job": "llm",
            "id": f"{number:06}",
            "type": "heartbeat",
            "at_us": NOON,
            "received_us": NOON,
            "batch": 1,
            "body": body,
        }
        for number in numbers
    ]


@pytest.fixture
def with_job(store: Store, project_id: int) -> Store:
    row = {"project_id": project_id, "job": "llm", "received_us": NOON}
    assert store.write(lambda conn: insert_new(conn, job, [row])) == 1
    return store


def bodies(store: Store) -> list[str]:
    with store.reading() as conn:
        return list(conn.execute(select(event.c.body).order_by(event.c.id)).scalars())


@pytest.mark.parametrize("size", [1, COPY_FROM - 1, COPY_FROM, 3 * COPY_FROM + 11])
def test_rows_of_a_known_key_are_left_and_not_counted(
    with_job: Store, project_id: int, size: int
) -> None:
    half = size // 2

    def insert(conn: Connection, numbers: range, body: str) -> int:
        return insert_new(conn, event, rows(project_id, numbers, body))

    assert with_job.write(lambda conn: insert(conn, range(half), "old")) == half
    assert with_job.write(lambda conn: insert(conn, range(size), "new")) == size - half
    assert with_job.write(lambda conn: insert(conn, range(size), "newer")) == 0
    assert bodies(with_job) == ["old"] * half + ["new"] * (size - half)


def test_two_large_inserts_of_one_transaction_do_not_mix(with_job: Store, project_id: int) -> None:
    def insert(conn: Connection) -> list[int]:
        return [
            insert_new(conn, event, rows(project_id, range(start, start + COPY_FROM)))
            for start in (0, COPY_FROM // 2, 5 * COPY_FROM)
        ]

    assert with_job.write(insert) == [COPY_FROM, COPY_FROM // 2, COPY_FROM]


def test_no_rows_are_no_row_of_defaults(store: Store) -> None:
    assert store.write(lambda conn: insert_new(conn, job, [])) == 0


@pytest.mark.parametrize("text", ["a\tb\\nc\n", "\\N", "é😀\ufffd", "'\"; --"])
@pytest.mark.parametrize("size", [1, COPY_FROM])
def test_text_arrives_as_it_was(with_job: Store, project_id: int, size: int, text: str) -> None:
    with_job.write(lambda conn: insert_new(conn, event, rows(project_id, range(size), text)))

    assert bodies(with_job) == [text] * size


def test_writers_of_the_same_rows_neither_wait_in_a_circle_nor_both_count(
    with_job: Store, project_id: int
) -> None:
    counts: list[int] = []

    def insert() -> None:
        for start in range(0, 200, 40):
            new = rows(project_id, range(start, start + 120))
            counts.append(with_job.write(partial(insert_new, into=event, rows=new)))

    threads = [threading.Thread(target=insert) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(counts) == 20
    assert sum(counts) == 280


def test_a_sum_beyond_64_bits_is_exact(with_job: Store, project_id: int) -> None:
    largest = 2**63 - 1
    body = [{**row, "batch": largest} for row in rows(project_id, range(3))]
    with_job.write(lambda conn: insert_new(conn, event, body))

    def made(summing: Summing) -> Summed:
        sums = summing({"batch": event.c.batch})
        return select(*sums.columns), sums

    with with_job.reading() as conn:
        ((*columns,),), sums = summed_rows(conn, made)
    assert sums.read(columns) == {"batch": 3 * largest}


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
