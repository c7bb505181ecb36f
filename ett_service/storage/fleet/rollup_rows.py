"""The rollups as they are, and what they should be, day by day."""

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any, NamedTuple

from sqlalchemy import Connection, Table, and_, bindparam, case, select

from ett_service.core.fleet.measures import MEASURES
from ett_service.core.intervals import DAY_US
from ett_service.storage.engine.statements import lift_time_limit
from ett_service.storage.fleet.contributions import DAY, Content, amounts
from ett_service.storage.fleet.rollup_deltas import MEASURES_OF, Additions, Amounts, day_of
from ett_service.storage.schema import cohort, cohort_day, contribution, project

_AT_ONCE = 1_000  #: rows on their way from PostgreSQL

_other = cohort.alias("other")

#: Each contribution under the cohort that the cap gives it to; NULL where nothing tells.
_ROLLED_UP = (
    select(
        contribution.c.hour_us,
        case((cohort_day.c.kept.is_(True), cohort.c.id), else_=_other.c.id),
        *(contribution.c[name] for name in MEASURES),
        contribution.c.tallies,
    )
    .join_from(contribution, cohort, contribution.c.cohort_id == cohort.c.id)
    .outerjoin(
        cohort_day,
        and_(
            cohort_day.c.project_id == contribution.c.project_id,
            cohort_day.c.day_us == DAY,
            cohort_day.c.cohort_id == contribution.c.cohort_id,
        ),
    )
    .outerjoin(
        _other,
        and_(
            _other.c.project_id == cohort.c.project_id,
            _other.c.excluded == cohort.c.excluded,
            _other.c.other.is_(True),
        ),
    )
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
    """A project's day: its rollups as they are stored, and as contributions sum up."""

    project_id: int
    day_us: int
    stored: Mapping[Table, Amounts]
    summed: Mapping[Table, Amounts]


def days(conn: Connection) -> Iterator[RollupDay]:
    """Yield every day that has rollups or contributions, project by project."""
    for project_id in conn.scalars(select(project.c.id).order_by(project.c.id)).all():
        left = _rolled_up_days(conn, project_id)
        for day_us, summed in _summed(conn, project_id):
            left.discard(day_us)
            yield RollupDay(project_id, day_us, _stored(conn, project_id, day_us), summed)
        for day_us in sorted(left):
            yield RollupDay(project_id, day_us, _stored(conn, project_id, day_us), {})


def _rolled_up_days(conn: Connection, project_id: int) -> set[int]:
    """Return the start of every day of which there are rollups."""
    of_project = {"project_id": project_id}
    return {
        day_of(start_us)
        for statement in _STARTS.values()
        for start_us in conn.scalars(statement, of_project)
    }


def _stored(conn: Connection, project_id: int, day_us: int) -> dict[Table, Amounts]:
    """Read all rollups of a day."""
    of_day = {"project_id": project_id, "since": day_us, "until": day_us + DAY_US}
    by_table: dict[Table, Amounts] = {}
    for table, statement in _OF_DAY.items():
        key = len(table.primary_key) - 1
        rows = map(tuple, conn.execute(statement, of_day))
        by_table[table] = {row[:key]: row[key:] for row in rows}
    return by_table


def _summed(conn: Connection, project_id: int) -> Iterator[tuple[int, dict[Table, Amounts]]]:
    """Sum the contributions of each day that has any; days come in order, one in memory."""
    lift_time_limit(conn)  # all of them are sorted at once
    rows = map(tuple, conn.execute(_ROLLED_UP, {"project_id": project_id}))
    for day_us, of_day in groupby(rows, key=lambda row: day_of(row[0])):
        additions = Additions()
        for hour_us, rolled_up_as, *sums, tallies in of_day:
            additions.put(hour_us, rolled_up_as, *amounts(Content(tuple(sums), tallies)))
        yield day_us, additions.by_table()
