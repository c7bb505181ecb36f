"""Waits for data, and effective training of no measured speed, of the fleet."""

import sqlalchemy as sa
from alembic import op

revision = "20261214_loop_waits"
down_revision = "20261213_unbound_events"
branch_labels = None
depends_on = None

INT64 = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

COLUMNS = (
    "speed_unmeasured_us",
    "speed_unmeasured_weighted_us",
    "data_wait_us",
    "data_wait_weighted_us",
    "data_wait_loop_us",
    "data_wait_loop_weighted_us",
    "data_wait_attempts",
)
SUMS = ("contribution", "rollup_hourly", "rollup_daily")


def upgrade() -> None:
    """Add the columns; ledgers of the formula before are folded anew by the worker."""
    for name in COLUMNS:
        for table in SUMS:
            op.add_column(table, sa.Column(name, INT64, server_default="0", nullable=False))


def downgrade() -> None:
    """Drop them."""
    for table in SUMS:
        for name in reversed(COLUMNS):
            op.drop_column(table, name)
