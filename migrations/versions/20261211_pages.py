"""Order in which pages read: rollups by their key, jobs by what they are sorted by."""

from alembic import op
from sqlalchemy import text

revision = "20261211_pages"
down_revision = "20261210_retention"
branch_labels = None
depends_on = None

_ROLLUPS = ("rollup_hourly", "rollup_daily", "tally_hourly", "tally_daily")
_OF_JOBS = (
    ("ended_us", "job"),
    ("e2e_us", "job"),
    ("state", "started_us", "job"),
    ("team", "started_us", "job"),
    ("model", "started_us", "job"),
)
_RATIO = "coalesce(CAST(effective_us AS FLOAT) / nullif(e2e_us, 0), 0.0)"


def upgrade() -> None:
    """Put the rows of SQLite's rollups in the order of their key, and make the indexes."""
    _rebuild(with_rowid=False)
    for columns in _OF_JOBS:
        op.create_index(_name(columns), "job_ledger", ["project_id", *columns])
    op.create_index("ix_job_ledger_ett_ratio", "job_ledger", ["project_id", text(_RATIO), "job"])
    preempted = text("outcome = 'preempted'")
    op.create_index(
        "ix_attempt_ledger_preempted", "attempt_ledger", ["project_id", "ended_us"],
        sqlite_where=preempted, postgresql_where=preempted,
    )  # fmt: skip


def downgrade() -> None:
    """Undo both."""
    op.drop_index("ix_attempt_ledger_preempted", "attempt_ledger")
    op.drop_index("ix_job_ledger_ett_ratio", "job_ledger")
    for columns in reversed(_OF_JOBS):
        op.drop_index(_name(columns), "job_ledger")
    _rebuild(with_rowid=True)


def _name(columns: tuple[str, ...]) -> str:
    return f"ix_job_ledger_project_id_{'_'.join(columns)}"


def _rebuild(*, with_rowid: bool) -> None:
    if op.get_bind().dialect.name == "sqlite":
        options = {"sqlite_strict": True, "sqlite_with_rowid": with_rowid}
        for name in _ROLLUPS:
            with op.batch_alter_table(name, recreate="always", table_kwargs=options):
                pass
