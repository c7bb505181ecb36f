"""How findings began and ended, when receivers were last notified, and what tunes the search."""

import sqlalchemy as sa
from alembic import op

revision = "20261130_findings"
down_revision = "20261129_owners"
branch_labels = None
depends_on = None

INT64 = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Add columns and a table; of what fires already, nobody knows how it began."""
    op.add_column("regression", sa.Column("fired", sa.Text(), nullable=True))
    op.add_column("regression", sa.Column("ended", sa.Text(), nullable=True))
    op.add_column("regression", sa.Column("merged_into", sa.Text(), nullable=True))
    op.add_column("regression", sa.Column("notified_us", INT64, nullable=True))
    op.create_table(
        "tuning_reset",
        sa.Column("project_id", sa.Integer(), nullable=False),
        sa.Column("metric", sa.Text(), nullable=False),
        sa.Column("since_us", INT64, nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("made_by", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["project.id"], name="fk_tuning_reset_project_id"),
        sa.PrimaryKeyConstraint("project_id", "metric", name="pk_tuning_reset"),
        sqlite_strict=True,
    )


def downgrade() -> None:
    """Drop them."""
    op.drop_table("tuning_reset")
    for name in ("notified_us", "merged_into", "ended", "fired"):
        op.drop_column("regression", name)
