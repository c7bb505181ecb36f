"""Effective training by its speed, of jobs, attempts and the fleet."""

import sqlalchemy as sa
from alembic import op

revision = "20261126_speed"
down_revision = "20261125_runs"
branch_labels = None
depends_on = None

INT64 = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

COLUMNS = ("effective_at_reference_us", "slowed_us")
LEDGERS = ("job_ledger", "attempt_ledger")
SUMS = ("contribution", "rollup_hourly", "rollup_daily")


def upgrade() -> None:
    """Add the columns; the worker fills them as it folds jobs anew."""
    for name in COLUMNS:
        for table in LEDGERS:
            op.add_column(table, sa.Column(name, INT64))
        for table in SUMS:
            op.add_column(table, sa.Column(name, INT64, server_default="0", nullable=False))


def downgrade() -> None:
    """Drop them."""
    for table in (*SUMS, *LEDGERS):
        for name in reversed(COLUMNS):
            op.drop_column(table, name)
