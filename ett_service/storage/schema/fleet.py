"""What jobs add to the fleet, and its sums by hour and by day."""

from sqlalchemy import Column, ForeignKey, Index, Integer, Table, Text, UniqueConstraint

from ett_service.core.dimensions import DIMENSIONS
from ett_service.core.fleet.totals import MEASURES
from ett_service.storage.schema.definition import Flag, Int64, belongs_to_a_job, of_a_job, table


def _measures() -> list[Column[int]]:
    return [Column(name, Int64, nullable=False, server_default="0") for name in MEASURES]


#: The jobs that share a set of dimensions, empty where unknown. ``other`` is the one, a project,
#: that takes what the cap on cohorts leaves over; ``excluded`` keeps time out of the numbers.
cohort = table(
    "cohort",
    Column("id", Integer, primary_key=True),
    Column("project_id", Integer, ForeignKey("project.id"), nullable=False),
    *(Column(name, Text, nullable=False) for name in DIMENSIONS),
    Column("excluded", Flag, nullable=False),
    Column("other", Flag, nullable=False),
    UniqueConstraint("project_id", *DIMENSIONS, "excluded", "other", name="uq_cohort"),
)

#: What a job adds to an hour of a cohort. ``tallies`` is ``{name: {place: [count, us]}}``.
contribution = table(
    "contribution",
    *of_a_job(),
    Column("hour_us", Int64, primary_key=True, autoincrement=False),
    Column("cohort_id", Integer, ForeignKey("cohort.id"), primary_key=True, autoincrement=False),
    *_measures(),
    Column("tallies", Text, nullable=False),
    belongs_to_a_job(),
    Index(None, "project_id", "cohort_id", "hour_us"),
)

#: The cohorts seen on a day, and whether each keeps rows of its own or goes to ``other``.
cohort_day = table(
    "cohort_day",
    Column("project_id", Integer, primary_key=True),
    Column("day_us", Int64, primary_key=True, autoincrement=False),
    Column("cohort_id", Integer, ForeignKey("cohort.id"), primary_key=True, autoincrement=False),
    Column("kept", Flag, nullable=False),
)


def _of_a_cell() -> tuple[Column[int], ...]:
    return (
        Column("project_id", Integer, primary_key=True, autoincrement=False),
        Column("start_us", Int64, primary_key=True, autoincrement=False),
        Column(
            "cohort_id", Integer, ForeignKey("cohort.id"), primary_key=True, autoincrement=False
        ),
    )


def _rollup(name: str) -> Table:
    return table(name, *_of_a_cell(), *_measures())


#: The sum of all contributions by hour and by day (UTC); a cell with ``cells`` 0 has no row.
rollup_hourly = _rollup("rollup_hourly")
rollup_daily = _rollup("rollup_daily")


def _tally(name: str) -> Table:
    return table(
        name,
        *_of_a_cell(),
        Column("name", Text, primary_key=True),
        Column("place", Integer, primary_key=True, autoincrement=False),
        Column("count", Int64, nullable=False),
        Column("us", Int64, nullable=False),
    )


#: Their distributions and labelled counts: ``place`` is a bucket of ``core.distribution``.
tally_hourly = _tally("tally_hourly")
tally_daily = _tally("tally_daily")
