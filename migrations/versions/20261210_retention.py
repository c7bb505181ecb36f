"""Jobs whose record was pruned, and how much room tables take."""

import sqlalchemy as sa
from alembic import op

revision = "20261210_retention"
down_revision = "20261130_key_expiry"
branch_labels = None
depends_on = None

INT64 = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Add the column, empty, and the table."""
    op.add_column("job", sa.Column("pruned_us", INT64))
    is_whole = sa.text("pruned_us IS NULL")
    op.create_index(
        "ix_job_whole", "job", ["received_us"], sqlite_where=is_whole, postgresql_where=is_whole
    )
    op.create_table(
        "store_size",
        sa.Column("day_us", INT64, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("bytes", INT64, nullable=False),
        sa.PrimaryKeyConstraint("day_us", "name", name="pk_store_size"),
        sqlite_strict=True,
    )


def downgrade() -> None:
    """Drop them; what was pruned stays away."""
    op.drop_table("store_size")
    op.drop_index("ix_job_whole", "job")
    op.drop_column("job", "pruned_us")
