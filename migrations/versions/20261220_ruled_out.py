"""Which suspect of a finding two runs ruled out, so that the next one is tried."""

import sqlalchemy as sa
from alembic import op

revision = "20261220_ruled_out"
down_revision = "20261219_hours"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; what was ruled out before stands in the reason alone."""
    op.add_column("regression_change", sa.Column("suspect", sa.Text))


def downgrade() -> None:
    """Drop it."""
    op.drop_column("regression_change", "suspect")
