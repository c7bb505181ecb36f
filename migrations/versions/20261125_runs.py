"""Runs of a job: how many there are, and the time between them."""

import sqlalchemy as sa
from alembic import op

revision = "20261125_runs"
down_revision = "20261124_regressions"
branch_labels = None
depends_on = None

INT64 = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

TABLES = ("job_ledger", "contribution", "rollup_hourly", "rollup_daily")


def upgrade() -> None:
    """Add the columns; ledgers of the formula before are folded anew by the worker."""
    for table in TABLES:
        op.add_column(
            table, sa.Column("between_runs_us", INT64, server_default="0", nullable=False)
        )
    op.add_column("job_ledger", sa.Column("runs", sa.Integer(), server_default="1", nullable=False))


def downgrade() -> None:
    """Drop them."""
    op.drop_column("job_ledger", "runs")
    for table in reversed(TABLES):
        op.drop_column(table, "between_runs_us")
