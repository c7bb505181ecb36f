"""The record: projects, keys, jobs, events, markers and corrections."""

from sqlalchemy import Column, ColumnElement, ForeignKey, Index, Integer, Text, func, text

from ett_service.storage.schema.definition import Int64, belongs_to_a_job, of_a_job, table

VERDICT, EXCLUSION = "verdict", "exclusion"
"""The kinds of corrections."""

NUMBERED = "-"
"""Begins the body of an event whose id is its producer and its number: ``PRODUCER-NUMBER``."""

HOURLY_FROM = "hourly_from"
"""The row of ``store`` that says from when on the rollups have hours, once some were pruned."""

EVERY_HOUR = -(2**62)
"""What it would say before: an instant before all others."""

#: One row a fact about the database itself: ``store_epoch``.
store = table(
    "store",
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
)

#: How much room each table took on a day, with its indexes.
store_size = table(
    "store_size",
    Column("day_us", Int64, primary_key=True, autoincrement=False),
    Column("name", Text, primary_key=True),
    Column("bytes", Int64, nullable=False),
)

project = table(
    "project",
    Column("id", Integer, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("created_us", Int64, nullable=False),
)

#: ``prefix`` is the readable start of a key; the key itself is kept as its SHA-256 only.
#: ``replaced_by`` is the prefix of its successor.
api_key = table(
    "api_key",
    Column("prefix", Text, primary_key=True),
    Column("project_id", Integer, ForeignKey("project.id"), nullable=False),
    Column("name", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("scopes", Text, nullable=False),
    Column("created_us", Int64, nullable=False),
    Column("revoked_us", Int64),
    Column("expires_us", Int64),
    Column("replaced_by", Text),
    Column("last_used_us", Int64),
)

#: What a key sent in ten minutes; ``bytes`` are those of bodies, as sent.
key_usage = table(
    "key_usage",
    Column("prefix", Text, primary_key=True),
    Column("slot_us", Int64, primary_key=True, autoincrement=False),
    Column("requests", Int64, nullable=False),
    Column("refused", Int64, nullable=False),
    Column("events", Int64, nullable=False),
    Column("bytes", Int64, nullable=False),
)

#: Append-only, which the database holds to: who did what, when, and from where.
audit_log = table(
    "audit_log",
    Column("at_us", Int64, primary_key=True, autoincrement=False),
    Column("id", Text, primary_key=True),
    Column("action", Text, nullable=False),
    Column("project_id", Integer, ForeignKey("project.id")),
    Column("target", Text, nullable=False),
    Column("details", Text, nullable=False),
    Column("made_by", Text),
    Column("made_by_name", Text, nullable=False),
    Column("made_via", Text, nullable=False),
    Column("made_from", Text, nullable=False),
)

#: Inserted once by ingest and locked by the worker; nothing else of a job is ever locked. From
#: ``pruned_us`` on its events and segments are gone, or going, and it takes no more of them.
job = table(
    "job",
    *of_a_job(),
    Column("received_us", Int64, nullable=False),
    Column("pruned_us", Int64),
    Index(
        "ix_job_whole",
        "received_us",
        sqlite_where=text("pruned_us IS NULL"),
        postgresql_where=text("pruned_us IS NULL"),
    ),
)

#: A job that a batch with ``history`` ever touched; it moves no Prometheus counter.
job_history = table(
    "job_history",
    *of_a_job(),
    belongs_to_a_job(),
)

#: Immutable facts. ``body`` is what the other columns leave unsaid of the canonical content, which
#: a duplicate must equal. That there is their job the ``dirty`` mark sees to, which comes in the
#: same transaction: a check of each event would take a third of the time of its insertion.
event = table(
    "event",
    *of_a_job(),
    Column("id", Text, primary_key=True),
    Column("type", Text, nullable=False),
    Column("at_us", Int64, nullable=False),
    Column("received_us", Int64, nullable=False),
    Column("batch", Int64, nullable=False),
    Column("body", Text, nullable=False),
    Index(None, "project_id", "job", "batch"),
    Index(None, "project_id", "job", "at_us"),
)

OWN_MEMBERS: ColumnElement[str] = func.ltrim(event.c.body, NUMBERED)
"""The members that the body of an event holds, as JSON."""

event.add_is_dependent_on(job)  # whoever deletes both begins with the events

#: How far a producer's clock is behind the server's: the least of received minus sent.
producer = table(
    "producer",
    *of_a_job(),
    Column("producer", Text, primary_key=True),
    Column("offset_us", Int64, nullable=False),
    belongs_to_a_job(),
)

#: Of which cluster a launch is; another one's with the same id is refused.
launch_cluster = table(
    "launch_cluster",
    *of_a_job(),
    Column("launch", Text, primary_key=True),
    Column("cluster", Text, nullable=False),
    belongs_to_a_job(),
)

#: Append-only: this job has facts that its ledger does not know. ``batch`` names the events.
dirty = table(
    "dirty",
    *of_a_job(),
    Column("batch", Int64, primary_key=True),
    Column("marked_us", Int64, nullable=False),
    belongs_to_a_job(),
)

#: A deploy, launch or maintenance window. ``made_by`` is the prefix of a key.
marker = table(
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
correction = table(
    "correction",
    *of_a_job(),
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
    belongs_to_a_job(),
)
