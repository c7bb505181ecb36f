"""What each job lost, so that jobs can be read in that order."""

import sqlalchemy as sa
from alembic import op

revision = "20261217_lost"
down_revision = "20261216_lean_events"
branch_labels = None
depends_on = None

INT64 = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

COLUMNS = ("lost_weighted_us", "lost_gpu_us")

# In two halves of 32 bits: SQLite refuses a sum that outgrows 64, which a fold bounds.
_SUM = """
    SELECT CASE
        WHEN sum({amount} >> 32) IS NULL THEN NULL
        WHEN sum({amount} >> 32) >= 2147483647 THEN 9223372036854775807
        ELSE CAST(sum({amount} >> 32) AS BIGINT) * 4294967296
            + CAST(sum({amount} & 4294967295) AS BIGINT)
    END
    FROM (
        SELECT CASE category WHEN 'effective_training' THEN {amount} * 0 ELSE {amount} END {amount}
        FROM share
        WHERE share.project_id = job_ledger.project_id AND share.job = job_ledger.job
    ) lost
"""
_FILL = "UPDATE job_ledger SET lost_weighted_us = ({weighted}), lost_gpu_us = ({gpu})"


def upgrade() -> None:
    """Add the columns with their sums, and two orders of jobs."""
    for name in COLUMNS:
        op.add_column("job_ledger", sa.Column(name, INT64))
    weighted, gpu = (_SUM.format(amount=amount) for amount in ("weighted_us", "gpu_us"))
    op.execute(_FILL.format(weighted=weighted, gpu=gpu))
    above_0 = sa.text("lost_weighted_us > 0")
    op.create_index(
        "ix_job_ledger_lost_weighted", "job_ledger",
        ["lost_weighted_us", "project_id", "job", "started_us", "ended_us"],
        sqlite_where=above_0, postgresql_where=above_0,
    )  # fmt: skip
    op.create_index(
        "ix_job_ledger_lost_gpu", "job_ledger",
        ["project_id", sa.text("coalesce(lost_gpu_us, 0)"), "job"],
    )  # fmt: skip


def downgrade() -> None:
    """Drop them."""
    for index in ("ix_job_ledger_lost_gpu", "ix_job_ledger_lost_weighted"):
        op.drop_index(index, "job_ledger")
    for name in reversed(COLUMNS):
        op.drop_column("job_ledger", name)
