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
)
from sqlalchemy.schema import SchemaItem

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
    Column("answer", Text, nullable=False),
    _belongs_to_a_job(),
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
    Column("answer", Text, nullable=False),
    _belongs_to_a_job(),
)
