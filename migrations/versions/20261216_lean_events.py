"""Events without an id in the index by instant, which repeated the longest part of their key.

On PostgreSQL an index is built here only where that is done at once. A larger table keeps the wide
one, which serves as well; ``docs/operations.md`` says how to exchange it while events come in.
"""

from alembic import op

revision = "20261216_lean_events"
down_revision = "20261215_launch_cluster"
branch_labels = None
depends_on = None

MOST_BYTES = 64 << 20
"""Of the table on PostgreSQL: an index on that much takes well under a second."""

_WIDE = "ix_event_project_id_job_at_us_id"
_NARROW = "ix_event_project_id_job_at_us"


def upgrade() -> None:
    """Leave the id out."""
    _exchange(_WIDE, _NARROW, ["project_id", "job", "at_us"])


def downgrade() -> None:
    """Take it in again."""
    _exchange(_NARROW, _WIDE, ["project_id", "job", "at_us", "id"])


def _exchange(old: str, new: str, columns: list[str]) -> None:
    conn = op.get_bind()
    if conn.dialect.name == "postgresql":
        size = conn.exec_driver_sql("SELECT pg_relation_size('event')").scalar_one()
        if size > MOST_BYTES:
            return
    op.execute(f"DROP INDEX IF EXISTS {old}")
    op.execute(f"CREATE INDEX IF NOT EXISTS {new} ON event ({', '.join(columns)})")
