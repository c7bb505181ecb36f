"""Reading the public views as anybody may."""

from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import text

from ett_service.storage.engine.store import Store

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def all_of(name: str) -> str:
    return "SELECT * FROM " + name  # noqa: S608 - names of the schema


def read(store: Store, query: str, **values: Any) -> list[dict[str, Any]]:
    with store.reading() as conn:
        return [dict(row) for row in conn.execute(text(query), values).mappings()]


def instant(us: int, dialect: str) -> object:
    at = EPOCH + timedelta(microseconds=us)
    return at if dialect == "postgresql" else at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
