"""What jobs add to the fleet, and its sums by hour and by day."""

from sqlalchemy import Column, ForeignKey, Index, Integer, Table, Text, UniqueConstraint

from ett_service.core.dimensions import DIMENSIONS
from ett_service.core.fleet.measures import MEASURES
from ett_service.storage.schema.definition import (
    Flag,
    Int64,
    belongs_to_a_job,
    index_above_0,
    of_a_job,
    table,
)


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

#: What a fold adds to the rollups and no merger has taken there yet: a row a fold, ``cells`` as
#: JSON, ``[[hour_us, cohort_id, {measure: amount}, tallies as above], ...]``. ``marked_us`` is
#: when the oldest of the facts came in that were folded.
unmerged = table(
    "unmerged",
    *of_a_job(),
    Column("fold", Int64, primary_key=True, autoincrement=False),
    Column("marked_us", Int64, nullable=False),
    Column("cells", Text, nullable=False),
    belongs_to_a_job(),
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
    return table(name, *_of_a_cell(), *_measures(), sqlite_with_rowid=False)


#: The sum of all contributions by hour and by day (UTC), but for what is unmerged; a cell with
#: ``cells`` 0 has no row.
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
        sqlite_with_rowid=False,
    )


#: Their distributions and labelled counts: ``place`` is a bucket of ``core.fleet.totals``.
tally_hourly = _tally("tally_hourly")
tally_daily = _tally("tally_daily")


#: What a job adds to the counters of /metrics, by key of ``core.fleet.counters``, as JSON: what its
#: ledger says (``said``) and what of that the counters hold (``counted``). ``fresh`` is 1 until
#: both were compared, then 0. ``ident`` names the job where its name must not stand, and with a
#: number behind it an attempt; ``open_since``, ``heard`` and ``heard_us`` are its ``OpenWork``.
counted = table(
    "counted",
    *of_a_job(),
    Column("ident", Text, nullable=False),
    Column("cluster", Text, nullable=False),
    Column("cohort", Text, nullable=False),
    Column("kept_out", Flag, nullable=False),
    Column("said", Text, nullable=False),
    Column("seen", Text, nullable=False),
    Column("open_since", Text, nullable=False),
    Column("heard", Text, nullable=False),
    Column("heard_us", Int64),
    Column("running", Integer, nullable=False),
    Column("counted", Text, nullable=False),
    Column("fresh", Integer, nullable=False),
    belongs_to_a_job(),
    index_above_0("ix_counted_fresh", "fresh", "project_id", "job"),
    index_above_0("ix_counted_running", "running", "cluster", "cohort"),
    Index(None, "ident"),
)

#: The words that label counters: a cluster or cohort that is not shown (1, else 0) counts under
#: ``other``.
label_value = table(
    "label_value",
    Column("kind", Text, primary_key=True),
    Column("value", Text, primary_key=True),
    Column("shown", Integer, nullable=False),
    Index(None, "kind", "shown"),
)

#: The counters: ``sums`` is what is known now, ``marks`` the most that was ever published, which
#: never goes down. ``cohort`` is empty where a family does not tell cohorts apart.
counter = table(
    "counter",
    Column("cluster", Text, primary_key=True),
    Column("cohort", Text, primary_key=True),
    Column("sums", Text, nullable=False),
    Column("marks", Text, nullable=False),
    Column("excess_us", Int64, nullable=False),
)

#: The latest duration in each bucket of a histogram, as JSON by its key: a scrape reads them all,
#: and as rows of their own they would cost it most of its time.
exemplar = table(
    "exemplar",
    Column("cluster", Text, primary_key=True),
    Column("cohort", Text, primary_key=True),
    Column("body", Text, nullable=False),
)

#: What else /metrics shows, as JSON by name, and when it was worked out. Its writers wait for the
#: row ``turn``.
published = table(
    "published",
    Column("name", Text, primary_key=True),
    Column("revision", Int64, nullable=False),
    Column("at_us", Int64, nullable=False),
    Column("body", Text, nullable=False),
)
