"""What ``/metrics`` shows, and what it comes of."""

from sqlalchemy import Column, Index, Integer, Text

from ett_service.storage.schema.definition import (
    Flag,
    Int64,
    belongs_to_a_job,
    index_above_0,
    of_a_job,
    table,
)

#: What a job adds to the counters of /metrics, by key of ``core.counters``, as JSON: what its
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
