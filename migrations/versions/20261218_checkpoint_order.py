"""The checkpoints of all jobs in the order of time, for those of the latest days."""

from alembic import op

revision = "20261218_checkpoint_order"
down_revision = "20261217_lost"
branch_labels = None
depends_on = None

_INDEX = "ix_checkpoint_project_id_saved_us"


def upgrade() -> None:
    """Add the index."""
    op.create_index(_INDEX, "checkpoint", ["project_id", "saved_us"])


def downgrade() -> None:
    """Drop it."""
    op.drop_index(_INDEX, "checkpoint")
