"""A ledger is read back from its rows; that it is what was written, ``test_job_changes`` says."""

from ett_service.storage.engine.store import Store
from ett_service.storage.jobs import ledgers
from ett_service.storage.record.dirty_marks import JobKey


def test_a_job_without_a_ledger_has_none(store: Store, project_id: int) -> None:
    with store.reading() as conn:
        assert ledgers.job_ledger(conn, project_id, "never-heard-of") is None
        assert ledgers.segments(conn, project_id, "never-heard-of") == []
        assert ledgers.head(conn, JobKey(project_id, "never-heard-of")) is None
