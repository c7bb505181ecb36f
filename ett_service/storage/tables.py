"""The tables. Keys of a job's facts start with project and job, so they can be spread by job.

Instants and durations are integer microseconds (``_us``), instants since the Unix epoch.
Ratios are never stored: readers divide.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.schema import SchemaItem

from ett_service.core.cohort import DIMENSIONS
from ett_service.core.totals import MEASURES

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

#: 64 bits on both engines; SQLite's STRICT tables know neither BIGINT nor BOOLEAN.
Int64 = BigInteger().with_variant(Integer, "sqlite")
Flag = Boolean(create_constraint=False).with_variant(Integer, "sqlite")


def _table(name: str, *items: SchemaItem) -> Table:
    return Table(name, metadata, *items, sqlite_strict=True)


def _index_above_0(name: str, flag: str, *columns: str) -> Index:
    """Return an index of the rows in which a number is not 0."""
    condition = text(f"{flag} > 0")
    return Index(name, *columns, sqlite_where=condition, postgresql_where=condition)


def _of_a_job() -> tuple[Column[int], Column[str]]:
    return (
        Column("project_id", Integer, primary_key=True),
        Column("job", Text, primary_key=True),
    )


def _belongs_to_a_job() -> ForeignKeyConstraint:
    return ForeignKeyConstraint(["project_id", "job"], ["job.project_id", "job.job"])


#: One row a fact about the database itself: ``store_epoch``.
store = _table(
    "store",
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
)

project = _table(
    "project",
    Column("id", Integer, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("created_us", Int64, nullable=False),
)

#: ``prefix`` is the readable start of a key; the key itself is kept as its SHA-256 only.
api_key = _table(
    "api_key",
    Column("prefix", Text, primary_key=True),
    Column("project_id", Integer, ForeignKey("project.id"), nullable=False),
    Column("name", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("scopes", Text, nullable=False),
    Column("created_us", Int64, nullable=False),
    Column("revoked_us", Int64),
)

#: Inserted once by ingest and locked by the worker; nothing else of a job is ever locked.
job = _table(
    "job",
    *_of_a_job(),
    Column("received_us", Int64, nullable=False),
)

#: A job that a batch with ``history`` ever touched; it moves no Prometheus counter.
job_history = _table(
    "job_history",
    *_of_a_job(),
    _belongs_to_a_job(),
)

#: Immutable facts. ``body`` is the canonical content: what a duplicate must equal.
event = _table(
    "event",
    *_of_a_job(),
    Column("id", Text, primary_key=True),
    Column("type", Text, nullable=False),
    Column("at_us", Int64, nullable=False),
    Column("received_us", Int64, nullable=False),
    Column("batch", Int64, nullable=False),
    Column("body", Text, nullable=False),
    _belongs_to_a_job(),
    Index(None, "project_id", "job", "batch"),
    Index(None, "project_id", "job", "at_us", "id"),
)

#: How far a producer's clock is behind the server's: the least of received minus sent.
producer = _table(
    "producer",
    *_of_a_job(),
    Column("producer", Text, primary_key=True),
    Column("offset_us", Int64, nullable=False),
    _belongs_to_a_job(),
)

#: Append-only: this job has facts that its ledger does not know. ``batch`` names the events.
dirty = _table(
    "dirty",
    *_of_a_job(),
    Column("batch", Int64, primary_key=True),
    Column("marked_us", Int64, nullable=False),
    _belongs_to_a_job(),
)

#: What the fold of a job's events says. ``answer`` holds all but its lists as JSON. A fold of
#: the same events as of ``folded_us`` gives the same; ``due_us`` is when to fold them next.
job_ledger = _table(
    "job_ledger",
    *_of_a_job(),
    Column("revision", Int64, nullable=False),
    Column("formula_version", Integer, nullable=False),
    Column("event_count", Int64, nullable=False),
    Column("folded_us", Int64, nullable=False),
    Column("state", Text, nullable=False),
    Column("as_of_us", Int64, nullable=False),
    Column("due_us", Int64),
    Column("started_us", Int64),
    Column("ended_us", Int64),
    Column("e2e_us", Int64, nullable=False),
    Column("effective_us", Int64, nullable=False),
    Column("queue_wait_us", Int64, nullable=False),
    Column("time_to_start_us", Int64),
    Column("failures", Integer, nullable=False),
    Column("infra_failures", Integer, nullable=False),
    Column("unsaved_us", Int64, nullable=False),
    Column("name", Text),
    Column("team", Text),
    Column("model", Text),
    Column("cluster", Text),
    Column("hardware", Text),
    Column("kind", Text),
    Column("code_version", Text),
    Column("gpus", Int64),
    Column("samples", Int64, nullable=False),
    Column("tokens", Int64, nullable=False),
    Column("teraflops", Int64, nullable=False),
    Column("answer", Text, nullable=False),
    _belongs_to_a_job(),
    Index(None, "project_id", "started_us", "job"),
    Index(None, "due_us"),
)

attempt_ledger = _table(
    "attempt_ledger",
    *_of_a_job(),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("launch", Text, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("cycle", Integer, nullable=False),
    Column("started_us", Int64, nullable=False),
    Column("ended_us", Int64, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("origin", Text),
    Column("cause", Text),
    Column("gpus", Int64),
    Column("code_version", Text),
    Column("effective_us", Int64, nullable=False),
    Column("unsaved_us", Int64, nullable=False),
    Column("preempted_by", Text),
    Column("last_step", Int64),
    Column("rule", Text),
    Column("evidence", Text),
    Column("corrected", Flag, nullable=False),
    Column("answer", Text, nullable=False),
    _belongs_to_a_job(),
    Index(None, "project_id", "ended_us"),
    Index(None, "project_id", "job", "started_us"),
)

segment = _table(
    "segment",
    *_of_a_job(),
    Column("started_us", Int64, primary_key=True, autoincrement=False),
    Column("ended_us", Int64, nullable=False),
    Column("category", Text, nullable=False),
    Column("period", Text, nullable=False),
    Column("number", Integer),
    _belongs_to_a_job(),
)

#: A job's E2E, partitioned; ``phase`` is what was reported, empty where nothing was.
share = _table(
    "share",
    *_of_a_job(),
    Column("category", Text, primary_key=True),
    Column("period", Text, primary_key=True),
    Column("phase", Text, primary_key=True),
    Column("us", Int64, nullable=False),
    Column("weighted_us", Int64),
    Column("gpu_us", Int64),
    _belongs_to_a_job(),
)

recovery = _table(
    "recovery",
    *_of_a_job(),
    Column("interrupted", Integer, primary_key=True, autoincrement=False),
    Column("started_us", Int64, primary_key=True, autoincrement=False),
    Column("resumed", Integer),
    Column("us", Int64, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("stalled_us", Int64, nullable=False),
    Column("repeated_us", Int64, nullable=False),
    Column("answer", Text, nullable=False),
    _belongs_to_a_job(),
)

#: An attempt's time by stage, of the stream's spans; stages never own time of the ledger.
stage_time = _table(
    "stage_time",
    *_of_a_job(),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("phase", Text, primary_key=True),
    Column("stage", Text, primary_key=True),
    Column("spans", Integer, nullable=False),
    Column("inclusive_us", Int64, nullable=False),
    Column("exclusive_us", Int64, nullable=False),
    _belongs_to_a_job(),
)

checkpoint = _table(
    "checkpoint",
    *_of_a_job(),
    Column("id", Text, primary_key=True),
    Column("number", Integer, nullable=False),
    Column("saved_us", Int64, nullable=False),
    Column("step", Int64, nullable=False),
    Column("bytes", Int64),
    Column("duration_us", Int64),
    _belongs_to_a_job(),
)


def _measures() -> list[Column[int]]:
    return [Column(name, Int64, nullable=False, server_default="0") for name in MEASURES]


#: The jobs that share a set of dimensions, empty where unknown. ``other`` is the one, a project,
#: that takes what the cap on cohorts leaves over; ``excluded`` keeps time out of the numbers.
cohort = _table(
    "cohort",
    Column("id", Integer, primary_key=True),
    Column("project_id", Integer, ForeignKey("project.id"), nullable=False),
    *(Column(name, Text, nullable=False) for name in DIMENSIONS),
    Column("excluded", Flag, nullable=False),
    Column("other", Flag, nullable=False),
    UniqueConstraint("project_id", *DIMENSIONS, "excluded", "other", name="uq_cohort"),
)

#: What a job adds to an hour of a cohort. ``tallies`` is ``{name: {place: [count, us]}}``.
contribution = _table(
    "contribution",
    *_of_a_job(),
    Column("hour_us", Int64, primary_key=True, autoincrement=False),
    Column("cohort_id", Integer, ForeignKey("cohort.id"), primary_key=True, autoincrement=False),
    *_measures(),
    Column("tallies", Text, nullable=False),
    _belongs_to_a_job(),
    Index(None, "project_id", "cohort_id", "hour_us"),
)

#: The cohorts seen on a day, and whether each keeps rows of its own or goes to ``other``.
cohort_day = _table(
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
    return _table(name, *_of_a_cell(), *_measures())


#: The sum of all contributions by hour and by day (UTC); a cell with ``cells`` 0 has no row.
rollup_hourly = _rollup("rollup_hourly")
rollup_daily = _rollup("rollup_daily")


def _tally(name: str) -> Table:
    return _table(
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

#: A deploy, launch or maintenance window. ``made_by`` is the prefix of a key.
marker = _table(
    "marker",
    Column("project_id", Integer, ForeignKey("project.id"), primary_key=True),
    Column("id", Text, primary_key=True),
    Column("at_us", Int64, nullable=False),
    Column("end_us", Int64),
    Column("kind", Text, nullable=False),
    Column("title", Text, nullable=False),
    Column("labels", Text, nullable=False),
    Column("made_by", Text, nullable=False),
    Column("made_us", Int64, nullable=False),
    Index(None, "project_id", "at_us", "id"),
)

#: Append-only: who corrected what about a job and why. One that was taken back keeps its row.
#: ``id`` counts the job's; a window of an exclusion is a row, and a verdict names its attempt.
correction = _table(
    "correction",
    *_of_a_job(),
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("kind", Text, nullable=False),
    Column("launch", Text),
    Column("attempt", Integer),
    Column("cycle", Integer),
    Column("origin", Text),
    Column("cause", Text),
    Column("from_us", Int64),
    Column("to_us", Int64),
    Column("why", Text, nullable=False),
    Column("made_by", Text, nullable=False),
    Column("made_us", Int64, nullable=False),
    Column("taken_back_by", Text),
    Column("taken_back_us", Int64),
    _belongs_to_a_job(),
)

#: What a job adds to the counters of /metrics, by key of ``core.counters``, as JSON: what its
#: ledger says (``said``) and what of that the counters hold (``counted``). ``fresh`` is 1 until
#: both were compared, then 0. ``ident`` names the job where its name must not stand, and with a
#: number behind it an attempt; ``open_since``, ``heard`` and ``heard_us`` are its ``OpenWork``.
counted = _table(
    "counted",
    *_of_a_job(),
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
    _belongs_to_a_job(),
    _index_above_0("ix_counted_fresh", "fresh", "project_id", "job"),
    _index_above_0("ix_counted_running", "running", "cluster", "cohort"),
    Index(None, "ident"),
)

#: The words that label counters: a cluster or cohort that is not shown (1, else 0) counts under
#: ``other``.
label_value = _table(
    "label_value",
    Column("kind", Text, primary_key=True),
    Column("value", Text, primary_key=True),
    Column("shown", Integer, nullable=False),
    Index(None, "kind", "shown"),
)

#: The counters: ``sums`` is what is known now, ``marks`` the most that was ever published, which
#: never goes down. ``cohort`` is empty where a family does not tell cohorts apart.
counter = _table(
    "counter",
    Column("cluster", Text, primary_key=True),
    Column("cohort", Text, primary_key=True),
    Column("sums", Text, nullable=False),
    Column("marks", Text, nullable=False),
    Column("excess_us", Int64, nullable=False),
)

#: The latest duration in each bucket of a histogram. ``attempt_id`` is opaque.
exemplar = _table(
    "exemplar",
    Column("cluster", Text, primary_key=True),
    Column("cohort", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("at_us", Int64, nullable=False),
    Column("us", Int64, nullable=False),
    Column("attempt_id", Text, nullable=False),
)

#: What else /metrics shows, as JSON by name, and when it was worked out. Its writers wait for the
#: row ``turn``.
published = _table(
    "published",
    Column("name", Text, primary_key=True),
    Column("revision", Int64, nullable=False),
    Column("at_us", Int64, nullable=False),
    Column("body", Text, nullable=False),
)
