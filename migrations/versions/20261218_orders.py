"""Orders of jobs by failures, unsaved and slowed training, and of checkpoints by time."""

from alembic import op
from sqlalchemy import text

revision = "20261218_orders"
down_revision = "20261217_lost"
branch_labels = None
depends_on = None

_INDEXES = {
    "ix_checkpoint_project_id_saved_us": ("checkpoint", ["project_id", "saved_us"]),
    "ix_job_ledger_project_id_failures_job": ("job_ledger", ["project_id", "failures", "job"]),
    "ix_job_ledger_project_id_unsaved_us_job": ("job_ledger", ["project_id", "unsaved_us", "job"]),
    "ix_job_ledger_slowed": (
        "job_ledger",
        ["project_id", text("coalesce(slowed_us, 0)"), "job"],
    ),
}


def upgrade() -> None:
    """Add the indexes."""
    for name, (table, columns) in _INDEXES.items():
        op.create_index(name, table, columns)


def downgrade() -> None:
    """Drop them."""
    for name, (table, _) in reversed(_INDEXES.items()):
        op.drop_index(name, table)
