"""The time of a project's cohorts day by day, for the search for regressions."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Float, Select, cast, func, select

from ett_service.core.fleet.measures import WEIGHTED
from ett_service.core.intervals import DAY_US
from ett_service.storage.schema import cohort, rollup_daily, rollup_hourly

_MEASURES = tuple(WEIGHTED.categories.values())


class DailyTime(NamedTuple):
    """The time of a cohort's jobs in one block of 24 hours."""

    day: int
    labels: tuple[str, ...]  #: of the wanted dimensions; empty where unknown
    other: bool  #: whether the cap on a day's cohorts took the labels away
    us: tuple[float, ...]  #: times accelerators, by category in the order of ``Category``


def daily_time(
    conn: Connection, project_id: int, first_us: int, days: int, by: Sequence[str]
) -> Iterator[DailyTime]:
    """Yield the time in this many blocks of 24 hours from *first_us*, which is on a full hour.

    Excluded time does not count. Sums are floats, exact below 2^53.
    """
    table = rollup_hourly if first_us % DAY_US else rollup_daily
    day = ((table.c.start_us - first_us) // DAY_US).label("day")
    by_cohort = (
        select(
            table.c.cohort_id,
            day,
            *(func.sum(cast(table.c[name], Float)).label(name) for name in _MEASURES),
        )
        .where(
            table.c.project_id == project_id,
            table.c.start_us >= first_us,
            table.c.start_us < first_us + days * DAY_US,
        )
        .group_by(table.c.cohort_id, "day")
        .subquery()
    )
    labels = [cohort.c[name].label(f"label_{place}") for place, name in enumerate(by)]
    statement: Select[Any] = (
        select(
            by_cohort.c.day,
            *labels,
            cohort.c.other,
            *(func.sum(by_cohort.c[name]) for name in _MEASURES),
        )
        .join_from(by_cohort, cohort, by_cohort.c.cohort_id == cohort.c.id)
        .where(cohort.c.excluded.is_(False))
        .group_by(by_cohort.c.day, *(label.name for label in labels), cohort.c.other)
        .order_by(by_cohort.c.day, *(label.name for label in labels), cohort.c.other)
    )
    width = len(by)
    for day_number, *rest in conn.execute(statement):
        yield DailyTime(
            int(day_number), tuple(rest[:width]), bool(rest[width]), tuple(rest[width + 1 :])
        )
