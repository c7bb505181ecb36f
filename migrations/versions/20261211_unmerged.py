"""What folds add to the rollups, until a merger takes it there."""

import sqlalchemy as sa
from alembic import op

revision = "20261211_unmerged"
down_revision = "20261211_pages"
branch_labels = None
depends_on = None

INT64 = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Add the table, empty: all that was folded before is in the rollups."""
    op.create_table(
        "unmerged",
        sa.Column("project_id", sa.Integer(), nullable=False),
        sa.Column("job", sa.Text(), nullable=False),
        sa.Column("fold", INT64, nullable=False),
        sa.Column("marked_us", INT64, nullable=False),
        sa.Column("cells", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["project_id", "job"], ["job.project_id", "job.job"], name="fk_unmerged_project_id_job"
        ),
        sa.PrimaryKeyConstraint("project_id", "job", "fold", name="pk_unmerged"),
        sqlite_strict=True,
    )


def downgrade() -> None:
    """Drop it; `ett recompute` adds to the rollups what was in it."""
    op.drop_table("unmerged")
