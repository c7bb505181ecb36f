"""Hours of the rollups that may be pruned: their view leaves them out, and another says since when.

Views are built after every migration, so this one moves no table. It is there because without it
a database of the version before would pass for one that has them.
"""

revision = "20261219_hours"
down_revision = "20261218_orders"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Leave the tables as they are."""


def downgrade() -> None:
    """Likewise."""
