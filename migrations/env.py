"""Runs migrations on the connection that ``ett_service.storage.migrate`` hands over."""

from alembic import context
from sqlalchemy import Connection

from ett_service.storage.tables import metadata


def run(conn: Connection) -> None:
    """Run the migrations in one transaction, so that half of one never stands."""
    if conn.dialect.name == "postgresql":
        # Better to fail at once and be run again than to make every writer wait behind us.
        conn.exec_driver_sql("SET LOCAL lock_timeout = '3s'")
        conn.exec_driver_sql("SET LOCAL statement_timeout = 0")
    context.configure(
        connection=conn,
        target_metadata=metadata,
        transactional_ddl=True,
        render_as_batch=conn.dialect.name == "sqlite",
    )
    with context.begin_transaction():
        context.run_migrations()


run(context.config.attributes["connection"])
