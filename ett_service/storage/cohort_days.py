"""Which cohorts keep rollups of their own on a day, and which are summed up as ``other``.

``cohort_day`` has a row for every cohort that was seen on a day. Whoever adds to a cohort's
rollups holds that row shared until the commit, whoever moves the cohort holds it alone.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Any, TypeAlias

from sqlalchemy import Connection, bindparam, select
from sqlalchemy.dialects import postgresql, sqlite

from ett_service.storage.tables import cohort_day

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
_INSERT = {
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
    conn.execute(_INSERT[conn.dialect.name], rows)


def _pieces(wanted: Sequence[CohortDay]) -> Iterator[Sequence[CohortDay]]:
    for start in range(0, len(wanted), _AT_ONCE):
        yield wanted[start : start + _AT_ONCE]
