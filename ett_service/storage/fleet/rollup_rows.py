"""The rollups as they are, and what they should be, day by day."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from itertools import groupby
from operator import add
from typing import Any, NamedTuple

from sqlalchemy import Connection, Table, and_, bindparam, case, func, select

from ett_service.core.fleet.measures import MEASURES
from ett_service.core.intervals import DAY_US
from ett_service.storage.engine.driver import lift_time_limit
from ett_service.storage.fleet import rollup_deltas
from ett_service.storage.fleet.contributions import DAY, Content, amounts
from ett_service.storage.fleet.hours import PRUNED_TABLES, kept_from
from ett_service.storage.fleet.rollup_deltas import (
    MEASURES_OF,
    Amounts,
    CohortDay,
    RollupDeltas,
    day_of,
)
from ett_service.storage.schema import cohort, cohort_day, contribution, project

_AT_ONCE = 1_000  #: rows on their way from PostgreSQL

_other = cohort.alias("other")

_NOWHERE = 0  #: the id of no cohort

#: The cohort that the cap gives a cohort's day to, or none, as before the first merge of it.
_PLACE = func.coalesce(
    case((cohort_day.c.kept.is_(True), cohort.c.id), (cohort_day.c.kept.is_(False), _other.c.id)),
    _NOWHERE,
)
_ITS_OTHER = and_(
    _other.c.project_id == cohort.c.project_id,
    _other.c.excluded == cohort.c.excluded,
    _other.c.other.is_(True),
)
_PLACES = (
    select(cohort_day.c.day_us, cohort_day.c.cohort_id, _PLACE)
    .join_from(cohort_day, cohort, cohort.c.id == cohort_day.c.cohort_id)
    .outerjoin(_other, _ITS_OTHER)
    .where(
        cohort_day.c.project_id == bindparam("project_id"),
        cohort_day.c.cohort_id.in_(bindparam("cohorts", expanding=True)),
    )
)

_ITS_DAY = and_(
    cohort_day.c.project_id == contribution.c.project_id,
    cohort_day.c.day_us == DAY,
    cohort_day.c.cohort_id == contribution.c.cohort_id,
)
_UNSEEN = (
    select(contribution.c.project_id, DAY, contribution.c.cohort_id)
    .outerjoin(cohort_day, _ITS_DAY)
    .where(cohort_day.c.cohort_id.is_(None))
    .distinct()
)

_ROLLED_UP = (
    select(
        contribution.c.hour_us,
        _PLACE,
        *(contribution.c[name] for name in MEASURES),
        contribution.c.tallies,
    )
    .join_from(contribution, cohort, contribution.c.cohort_id == cohort.c.id)
    .outerjoin(cohort_day, _ITS_DAY)
    .outerjoin(_other, _ITS_OTHER)
    .where(contribution.c.project_id == bindparam("project_id"))
    .order_by(contribution.c.hour_us)
    .execution_options(yield_per=_AT_ONCE)
)


def _of_project(table: Table) -> Any:
    return table.c.project_id == bindparam("project_id")


_STARTS = {
    table: select(table.c.start_us).where(_of_project(table)).distinct() for table in MEASURES_OF
}
_OF_DAY = {
    table: select(*list(table.columns)[1:]).where(
        _of_project(table),
        table.c.start_us >= bindparam("since"),
        table.c.start_us < bindparam("until"),
    )
    for table in MEASURES_OF
}


class RollupDay(NamedTuple):
    """A project's day: its rollups with what waits to be merged, and as contributions sum up."""

    project_id: int
    day_us: int
    stored: Mapping[Table, Amounts]
    summed: Mapping[Table, Amounts]


def days(conn: Connection) -> Iterator[RollupDay]:
    """Yield every day that has rollups or contributions, project by project.

    Hours before the horizon are left out on both sides.
    """
    horizon_us = kept_from(conn)
    for project_id in conn.scalars(select(project.c.id).order_by(project.c.id)).all():
        yield from _days(conn, project_id, horizon_us)


def unseen(conn: Connection) -> Mapping[int, Collection[CohortDay]]:
    """Return by project the days of cohorts to which jobs contribute, but nothing was merged yet.

    After a loss, likewise, those of which nothing shows where they were rolled up.
    """
    lift_time_limit(conn)
    by_project: defaultdict[int, set[CohortDay]] = defaultdict(set)
    for project_id, day_us, cohort_id in map(tuple, conn.execute(_UNSEEN)):
        by_project[project_id].add((day_us, cohort_id))
    return by_project


def _days(conn: Connection, project_id: int, horizon_us: int) -> Iterator[RollupDay]:
    waiting = _unmerged(conn, project_id, horizon_us)
    left = _rolled_up_days(conn, project_id) | waiting.keys()

    def day(day_us: int, summed: Mapping[Table, Amounts]) -> RollupDay:
        stored = _stored(conn, project_id, day_us, horizon_us)
        return RollupDay(project_id, day_us, _plus(stored, waiting.get(day_us, {})), summed)

    for day_us, summed in _summed(conn, project_id, horizon_us):
        left.discard(day_us)
        yield day(day_us, summed)
    for day_us in sorted(left):
        yield day(day_us, {})


def _rolled_up_days(conn: Connection, project_id: int) -> set[int]:
    """Return the start of every day of which there are rollups."""
    of_project = {"project_id": project_id}
    return {
        day_of(start_us)
        for statement in _STARTS.values()
        for start_us in conn.scalars(statement, of_project)
    }


def _stored(
    conn: Connection, project_id: int, day_us: int, horizon_us: int
) -> dict[Table, Amounts]:
    """Read all rollups of a day."""
    by_table: dict[Table, Amounts] = {}
    for table, statement in _OF_DAY.items():
        since = max(day_us, horizon_us) if table in PRUNED_TABLES else day_us
        of_day = {"project_id": project_id, "since": since, "until": day_us + DAY_US}
        key = len(table.primary_key) - 1
        rows = map(tuple, conn.execute(statement, of_day))
        by_table[table] = {row[:key]: row[key:] for row in rows}
    return by_table


def _unmerged(
    conn: Connection, project_id: int, horizon_us: int
) -> dict[int, dict[Table, Amounts]]:
    """Return by day what waits to be merged, under the cohorts that the cap gives it to."""
    cells = list(rollup_deltas.unmerged_cells(conn, project_id))
    parameters = {"project_id": project_id, "cohorts": {cell.cohort_id for cell in cells}}
    rows = conn.execute(_PLACES, parameters) if cells else ()
    places = {(day_us, cohort_id): place for day_us, cohort_id, place in map(tuple, rows)}
    by_day: defaultdict[int, RollupDeltas] = defaultdict(RollupDeltas)
    for hour_us, cohort_id, sums, tallies in cells:
        day_us = day_of(hour_us)
        by_day[day_us].put(hour_us, places.get((day_us, cohort_id), _NOWHERE), sums, tallies)
    return {day_us: deltas.by_table(horizon_us) for day_us, deltas in by_day.items()}


def _plus(stored: Mapping[Table, Amounts], more: Mapping[Table, Amounts]) -> dict[Table, Amounts]:
    by_table = {table: dict(rows) for table, rows in stored.items()}
    for table, rows in more.items():
        for key, added in rows.items():
            before = by_table[table].pop(key, (0,) * len(added))
            after = tuple(map(add, before, added))
            if any(after):
                by_table[table][key] = after
    return by_table


def _summed(
    conn: Connection, project_id: int, horizon_us: int
) -> Iterator[tuple[int, dict[Table, Amounts]]]:
    """Sum the contributions of each day that has any; days come in order, one in memory."""
    lift_time_limit(conn)  # all of them are sorted at once
    rows = map(tuple, conn.execute(_ROLLED_UP, {"project_id": project_id}))
    for day_us, of_day in groupby(rows, key=lambda row: day_of(row[0])):
        deltas = RollupDeltas()
        for hour_us, rolled_up_as, *sums, tallies in of_day:
            deltas.put(hour_us, rolled_up_as, *amounts(Content(tuple(sums), tallies)))
        yield day_us, deltas.by_table(horizon_us)
