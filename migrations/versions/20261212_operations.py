"""What administrators did, keys that have a successor, and what each key sends."""

import sqlalchemy as sa
from alembic import op

revision = "20261212_operations"
down_revision = "20261211_unmerged"
branch_labels = None
depends_on = None

INT64 = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

REFUSED = ("UPDATE", "DELETE")


def upgrade() -> None:
    """Add the tables and the columns, empty."""
    op.add_column("api_key", sa.Column("replaced_by", sa.Text()))
    op.add_column("api_key", sa.Column("last_used_us", INT64))
    op.create_table(
        "key_usage",
        sa.Column("prefix", sa.Text(), nullable=False),
        sa.Column("slot_us", INT64, nullable=False),
        sa.Column("requests", INT64, nullable=False),
        sa.Column("refused", INT64, nullable=False),
        sa.Column("events", INT64, nullable=False),
        sa.Column("bytes", INT64, nullable=False),
        sa.PrimaryKeyConstraint("prefix", "slot_us", name="pk_key_usage"),
        sqlite_strict=True,
    )
    op.create_table(
        "audit_log",
        sa.Column("at_us", INT64, nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("project_id", sa.Integer()),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("details", sa.Text(), nullable=False),
        sa.Column("made_by", sa.Text()),
        sa.Column("made_by_name", sa.Text(), nullable=False),
        sa.Column("made_via", sa.Text(), nullable=False),
        sa.Column("made_from", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["project.id"], name="fk_audit_log_project_id"),
        sa.PrimaryKeyConstraint("at_us", "id", name="pk_audit_log"),
        sqlite_strict=True,
    )
    if op.get_bind().dialect.name == "sqlite":
        _append_only_on_sqlite()
    else:
        _append_only_on_postgresql()


def downgrade() -> None:
    """Drop them."""
    op.drop_table("audit_log")
    if op.get_bind().dialect.name == "postgresql":
        op.execute("DROP FUNCTION ett_audit_log_only_grows()")
    op.drop_table("key_usage")
    op.drop_column("api_key", "last_used_us")
    op.drop_column("api_key", "replaced_by")


def _append_only_on_sqlite() -> None:
    for change in REFUSED:
        op.execute(
            f"CREATE TRIGGER audit_log_no_{change.lower()} BEFORE {change} ON audit_log "
            "BEGIN SELECT RAISE(ABORT, 'audit_log only grows'); END"
        )


def _append_only_on_postgresql() -> None:
    op.execute(
        "CREATE FUNCTION ett_audit_log_only_grows() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'audit_log only grows'; END $$"
    )
    op.execute(
        f"CREATE TRIGGER audit_log_only_grows BEFORE {' OR '.join((*REFUSED, 'TRUNCATE'))} "
        "ON audit_log FOR EACH STATEMENT EXECUTE FUNCTION ett_audit_log_only_grows()"
    )
