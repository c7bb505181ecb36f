"""Keys that expire."""

import sqlalchemy as sa
from alembic import op

revision = "20261130_key_expiry"
down_revision = "20261130_findings"
branch_labels = None
depends_on = None

INT64 = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Add the instant; the keys that are there never expire."""
    op.add_column("api_key", sa.Column("expires_us", INT64))


def downgrade() -> None:
    """Drop it."""
    op.drop_column("api_key", "expires_us")
