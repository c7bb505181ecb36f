"""What senders report: waits for data, and what recording cost."""

import sqlalchemy as sa
from alembic import op

revision = "20261128_reported"
down_revision = "20261127_speed_found"
branch_labels = None
depends_on = None

INT64 = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

DATA_WAIT = ("data_wait_us", "data_wait_loop_us")
COLUMNS = (
    *(("job_ledger", name) for name in DATA_WAIT),
    *(("attempt_ledger", name) for name in (*DATA_WAIT, "telemetry_us")),
)


def upgrade() -> None:
    """Add the columns; the worker fills them as it folds jobs anew."""
    for table, name in COLUMNS:
        op.add_column(table, sa.Column(name, INT64))


def downgrade() -> None:
    """Drop them."""
    for table, name in reversed(COLUMNS):
        op.drop_column(table, name)
