"""Orders of jobs by failures, unsaved and slowed training, and of checkpoints by time."""

from alembic import op
from sqlalchemy import text

revision = "20261218_orders"
down_revision = "20261217_lost"
branch_labels = None
depends_on = None

_OF_JOBS = ("failures", "unsaved_us")


def upgrade() -> None:
    """Add the indexes."""
    op.create_index("ix_checkpoint_project_id_saved_us", "checkpoint", ["project_id", "saved_us"])
    for name in _OF_JOBS:
        op.create_index(_name(name), "job_ledger", ["project_id", name, "job"])
    slowed = text("coalesce(slowed_us, 0)")
    op.create_index("ix_job_ledger_slowed", "job_ledger", ["project_id", slowed, "job"])


def downgrade() -> None:
    """Drop them."""
    op.drop_index("ix_job_ledger_slowed", "job_ledger")
    for name in reversed(_OF_JOBS):
        op.drop_index(_name(name), "job_ledger")
    op.drop_index("ix_checkpoint_project_id_saved_us", "checkpoint")


def _name(column: str) -> str:
    return f"ix_job_ledger_project_id_{column}_job"
