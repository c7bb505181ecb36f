"""Schemas of earlier versions."""

from alembic import command

from ett_service.storage.engine.migrate import PATIENCE_S, change_schema


def undo(url: str, revision: str = "base", patience_s: float = PATIENCE_S) -> None:
    """Take the database at *url* back to an earlier schema; base is none. Data is lost."""
    change_schema(url, lambda config: command.downgrade(config, revision), patience_s)
