"""Of which cluster each launch is."""

import sqlalchemy as sa
from alembic import op

revision = "20261215_launch_cluster"
down_revision = "20261214_loop_waits"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table, empty: of launches that are stored, whoever names a cluster first does."""
    op.create_table(
        "launch_cluster",
        sa.Column("project_id", sa.Integer(), nullable=False),
        sa.Column("job", sa.Text(), nullable=False),
        sa.Column("launch", sa.Text(), nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["project_id", "job"],
            ["job.project_id", "job.job"],
            name="fk_launch_cluster_project_id_job",
        ),
        sa.PrimaryKeyConstraint("project_id", "job", "launch", name="pk_launch_cluster"),
        sqlite_strict=True,
    )


def downgrade() -> None:
    """Drop it."""
    op.drop_table("launch_cluster")
