"""Cohorts in rows: the ids that sets of dimensions have.

No id is remembered from one transaction to the next: the one that made it may be rolled back.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import Connection, bindparam, select
from sqlalchemy.dialects import postgresql, sqlite

from ett_service.core.cohort import DIMENSIONS, Cohort
from ett_service.storage.tables import cohort

_KEY = ("project_id", *DIMENSIONS, "excluded", "other")
_FIND = select(cohort.c.id).where(*(cohort.c[name] == bindparam(name) for name in _KEY))
_INSERT = {
    "sqlite": sqlite.insert(cohort).on_conflict_do_nothing().returning(cohort.c.id),
    "postgresql": postgresql.insert(cohort).on_conflict_do_nothing().returning(cohort.c.id),
}


def ids(conn: Connection, project_id: int, cohorts: Iterable[Cohort]) -> dict[Cohort, int]:
    """Return the ids of a project's cohorts; new ones are inserted.

    That is done in order, so that two writers never wait for each other in a circle.
    """
    return {
        one: _id(conn, {"project_id": project_id, **one._asdict(), "other": False})
        for one in sorted(cohorts)
    }


def other(conn: Connection, project_id: int, *, excluded: bool) -> int:
    """Return the id of the cohort that takes what the cap on a day's cohorts leaves over."""
    unknown = dict.fromkeys(DIMENSIONS, "")
    key = {"project_id": project_id, **unknown, "excluded": excluded, "other": True}
    return _id(conn, key)


def _id(conn: Connection, key: Mapping[str, Any]) -> int:
    found = conn.scalar(_FIND, key)
    if found is None:
        found = conn.scalar(_INSERT[conn.dialect.name], key)
    if found is None:  # another writer was first, and has committed
        found = conn.execute(_FIND, key).scalar_one()
    return int(found)
