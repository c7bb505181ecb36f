"""Runs migrations on the connection that ``ett_service.storage.engine.migrate`` hands over."""

from alembic import context
from sqlalchemy import Connection

from ett_service.storage.engine import citus
from ett_service.storage.engine.migrate import TURN
from ett_service.storage.schema import metadata, views


def run(conn: Connection) -> None:
    """Run the migrations in one transaction, so that half of one never stands."""
    if conn.dialect.name == "postgresql":
        # Better to fail at once and be run again than to make every writer wait behind us.
        conn.exec_driver_sql("SET LOCAL lock_timeout = '3s'")
        conn.exec_driver_sql(f"SELECT pg_advisory_xact_lock({TURN})")
        conn.exec_driver_sql("SET LOCAL statement_timeout = 0")
    context.configure(
        connection=conn,
        target_metadata=metadata,
        transactional_ddl=True,
        render_as_batch=conn.dialect.name == "sqlite",
    )
    asked = context.config.attributes.get("citus", False)
    with context.begin_transaction(), citus.spreading(conn, asked=asked):
        _migrate(conn)


def _migrate(conn: Connection) -> None:
    """Move the tables; the views on them are of the newest schema, or there are none."""
    target = context.get_revision_argument()
    if context.get_context().get_current_revision() == target:
        return
    views.drop(conn)
    context.run_migrations()
    if target == context.get_head_revision():
        views.build(conn)


run(context.config.attributes["connection"])
