"""Events without a foreign key of their own.

The mark that is inserted with them has one. On PostgreSQL a check of each event took a third of the
time of its insertion.
"""

import re

import sqlalchemy as sa
from alembic import op

revision = "20261213_unbound_events"
down_revision = "20261212_operations"
branch_labels = None
depends_on = None

NAME = "fk_event_project_id_job"
KEY = f"CONSTRAINT {NAME} FOREIGN KEY(project_id, job) REFERENCES job (project_id, job)"


def upgrade() -> None:
    """Drop it."""
    if op.get_bind().dialect.name == "sqlite":
        _rewrite(rf",\s*{re.escape(KEY)}", "")
    else:
        op.drop_constraint(NAME, "event", type_="foreignkey")


def downgrade() -> None:
    """Have events checked again."""
    if op.get_bind().dialect.name == "sqlite":
        _rewrite(r"\s*\)(\s*STRICT\s*)\Z", rf", \n\t{KEY}\n)\1")
    else:
        columns = ["project_id", "job"]
        op.create_foreign_key(NAME, "event", "job", columns, columns)


def _rewrite(pattern: str, text: str) -> None:
    """Change the text of the table, which changes no row: SQLite documents this for constraints."""
    conn = op.get_bind()
    read = sa.text("SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = 'event'")
    written, count = re.subn(pattern, text, conn.execute(read).scalar_one())
    if count != 1:
        raise RuntimeError("The table of events is not as it was made.")
    version = conn.exec_driver_sql("PRAGMA schema_version").scalar_one()
    conn.exec_driver_sql("PRAGMA writable_schema = ON")
    write = sa.text("UPDATE sqlite_schema SET sql = :sql WHERE type = 'table' AND name = 'event'")
    conn.execute(write, {"sql": written})
    conn.exec_driver_sql(f"PRAGMA schema_version = {version + 1}")
    conn.exec_driver_sql("PRAGMA writable_schema = RESET")
