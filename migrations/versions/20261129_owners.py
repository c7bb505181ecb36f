"""Whose wait it is, of jobs and of the fleet."""

import sqlalchemy as sa
from alembic import op

revision = "20261129_owners"
down_revision = "20261128_reported"
branch_labels = None
depends_on = None

INT64 = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

OWNERS = ("quota", "scheduler", "image", "node", "network", "framework", "user")
COLUMNS = (
    *(f"{owner}_wait_us" for owner in OWNERS),
    *(f"{owner}_wait_weighted_us" for owner in OWNERS),
    *(f"{owner}_queue_us" for owner in OWNERS),
)
SUMS = ("contribution", "rollup_hourly", "rollup_daily")


def upgrade() -> None:
    """Add table and columns, and have every job folded anew, which fills them."""
    op.create_table(
        "wait_share",
        sa.Column("project_id", sa.Integer(), nullable=False),
        sa.Column("job", sa.Text(), nullable=False),
        sa.Column("part", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("us", INT64, nullable=False),
        sa.Column("weighted_us", INT64),
        sa.ForeignKeyConstraint(
            ["project_id", "job"],
            ["job.project_id", "job.job"],
            name="fk_wait_share_project_id_job",
        ),
        sa.PrimaryKeyConstraint("project_id", "job", "part", "owner", name="pk_wait_share"),
        sqlite_strict=True,
    )
    for table in SUMS:
        for name in COLUMNS:
            op.add_column(table, sa.Column(name, INT64, server_default="0", nullable=False))
    op.execute("UPDATE job_ledger SET formula_version = 0")


def downgrade() -> None:
    """Drop them."""
    for table in SUMS:
        for name in reversed(COLUMNS):
            op.drop_column(table, name)
    op.drop_table("wait_share")
