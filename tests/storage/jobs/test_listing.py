"""A page of jobs is read in the order of an index, and no other job is looked at."""

import pytest
from sqlalchemy import Connection, event

from ett_service.storage.engine.store import Store
from ett_service.storage.jobs.listing import JobFilter, JobPosition, jobs


def plans(conn: Connection, job_filter: JobFilter, sort: str, after: JobPosition | None) -> str:
    """Return how SQLite reads a page."""
    statements = []

    def ask(_conn: object, _cursor: object, text: str, values: object, *_: object) -> None:
        statements.append((text, values))

    event.listen(conn, "before_cursor_execute", ask)
    jobs(conn, 1, job_filter, sort=sort, descending=True, limit=50, after=after)
    event.remove(conn, "before_cursor_execute", ask)
    explained = [
        conn.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}", values)  # type: ignore[arg-type]
        for text, values in statements
    ]
    return "\n".join(row.detail for rows in explained for row in rows)


@pytest.mark.parametrize("dialect", ["sqlite"])
@pytest.mark.parametrize(
    ("job_filter", "sort", "value"),
    [
        (JobFilter(equal={}), "started_at", 5),
        (JobFilter(equal={}), "ended_at", 5),
        (JobFilter(equal={}), "e2e_seconds", 5),
        (JobFilter(equal={}), "ett_ratio", 0.5),
        (JobFilter(equal={}), "lost_gpu_seconds", 5),
        (JobFilter(equal={}), "failures", 5),
        (JobFilter(equal={}), "unsaved_training_seconds", 5),
        (JobFilter(equal={}), "slowed_seconds", 5),
        (JobFilter(equal={}), "job", "b"),
        (JobFilter(equal={}, contains="b", from_us=3, to_us=9), "started_at", 5),
        (JobFilter(equal={"state": "running"}), "started_at", 5),
        (JobFilter(equal={"team": "red"}), "started_at", 5),
        (JobFilter(equal={"model": "large"}), "started_at", 5),
    ],
)
def test_a_page_is_read_in_the_order_of_an_index(
    store: Store, job_filter: JobFilter, sort: str, value: str | float
) -> None:
    with store.reading() as conn:
        for after in (None, JobPosition(value=value, job="b")):
            plan = plans(conn, job_filter, sort, after)
            assert "SEARCH job_ledger USING INDEX" in plan
            assert "TEMP B-TREE" not in plan, plan
