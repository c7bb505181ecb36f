"""Effective training by its speed, times accelerators, of the fleet."""

import sqlalchemy as sa
from alembic import op

revision = "20261127_speed_found"
down_revision = "20261126_speed"
branch_labels = None
depends_on = None

INT64 = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

COLUMNS = ("effective_at_reference_weighted_us", "slowed_weighted_us")
SUMS = ("contribution", "rollup_hourly", "rollup_daily")


def upgrade() -> None:
    """Add the columns; the worker fills them as it folds jobs anew."""
    for name in COLUMNS:
        for table in SUMS:
            op.add_column(table, sa.Column(name, INT64, server_default="0", nullable=False))


def downgrade() -> None:
    """Drop them."""
    for table in SUMS:
        for name in reversed(COLUMNS):
            op.drop_column(table, name)
