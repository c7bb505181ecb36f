"""What was lost to preemptions is read without a look at the attempts of other jobs."""

import pytest
from sqlalchemy import Connection, event

from ett_service.storage.engine.store import Store
from ett_service.storage.fleet.preemptions import losses
from ett_service.storage.fleet.rollups import CohortFilter


def plan(conn: Connection) -> list[str]:
    """Return how SQLite reads the losses of a window."""
    asked = []

    def ask(_conn: object, _cursor: object, text: str, values: object, *_: object) -> None:
        asked.append((text, values))

    event.listen(conn, "before_cursor_execute", ask)
    losses(conn, CohortFilter(), (5, 9))
    event.remove(conn, "before_cursor_execute", ask)
    return [
        row.detail
        for text, values in asked
        if text.startswith(("SELECT", "WITH"))
        for row in conn.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}", values)  # type: ignore[arg-type]
    ]


@pytest.mark.parametrize("dialect", ["sqlite"])
def test_attempts_are_found_by_their_job_or_as_preempted_in_the_window(store: Store) -> None:
    with store.reading() as conn:
        read = [line for line in plan(conn) if "attempt_ledger" in line or "preempted" in line]

    assert len(read) == 3
    for line in read:
        assert "project_id=? AND job=?" in line or "(project_id=? AND ended_us>?" in line, line
