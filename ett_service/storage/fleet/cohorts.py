"""Cohorts in rows, and which keep rollups of their own on a day."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from sqlalchemy import Connection, bindparam, select
from sqlalchemy.dialects import postgresql, sqlite

from ett_service.core.dimensions import DIMENSIONS, Cohort
from ett_service.storage.schema import cohort, cohort_day

_KEY = ("project_id", *DIMENSIONS, "excluded", "other")
_FIND = select(cohort.c.id).where(*(cohort.c[name] == bindparam(name) for name in _KEY))
_INSERT_COHORT = {
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
        found = conn.scalar(_INSERT_COHORT[conn.dialect.name], key)
    if found is None:  # another writer was first, and has committed
        found = conn.execute(_FIND, key).scalar_one()
    return int(found)


CohortDay: TypeAlias = tuple[int, int]
"""The start of a day, in microseconds since the Unix epoch, and a cohort's id."""

_AT_ONCE = 500  #: in one IN list

_of_days = (
    cohort_day.c.project_id == bindparam("project_id"),
    cohort_day.c.day_us.in_(bindparam("days", expanding=True)),
)
_HELD = (
    select(cohort_day.c.day_us, cohort_day.c.cohort_id, cohort_day.c.kept)
    .where(*_of_days, cohort_day.c.cohort_id.in_(bindparam("cohorts", expanding=True)))
    .order_by(cohort_day.c.day_us, cohort_day.c.cohort_id)
    .with_for_update(read=True)
)
_FULL = select(cohort_day.c.day_us).where(*_of_days, cohort_day.c.kept.is_(False)).distinct()
_INSERT_COHORT_DAY = {
    "sqlite": sqlite.insert(cohort_day).on_conflict_do_nothing(),
    "postgresql": postgresql.insert(cohort_day).on_conflict_do_nothing(),
}


def hold(conn: Connection, project_id: int, wanted: Collection[CohortDay]) -> dict[CohortDay, bool]:
    """Return whether each keeps rows of its own, which stays so until the transaction ends.

    A cohort that is new to a day keeps its own, unless the day has others already that do not.
    """
    found: dict[CohortDay, bool] = {}
    for some in _pieces(sorted(wanted)):
        found |= _held(conn, project_id, some)
        if new := [one for one in some if one not in found]:
            _insert(conn, project_id, new)
            found |= _held(conn, project_id, new)
    return {one: found[one] for one in wanted}


def _held(conn: Connection, project_id: int, some: Sequence[CohortDay]) -> dict[CohortDay, bool]:
    days, cohorts = zip(*some, strict=True)
    wanted = {"project_id": project_id, "days": set(days), "cohorts": set(cohorts)}
    rows = conn.execute(_HELD, wanted)
    return {(day_us, cohort_id): bool(kept) for day_us, cohort_id, kept in rows}


def _insert(conn: Connection, project_id: int, new: Sequence[CohortDay]) -> None:
    of_days = {"project_id": project_id, "days": {day for day, _ in new}}
    full = set(conn.scalars(_FULL, of_days))
    rows: list[dict[str, Any]] = [
        {"project_id": project_id, "day_us": day, "cohort_id": cohort_id, "kept": day not in full}
        for day, cohort_id in new
    ]
    conn.execute(_INSERT_COHORT_DAY[conn.dialect.name], rows)


def _pieces(wanted: Sequence[CohortDay]) -> Iterator[Sequence[CohortDay]]:
    for start in range(0, len(wanted), _AT_ONCE):
        yield wanted[start : start + _AT_ONCE]
