"""What the fold makes of a job's events."""

from sqlalchemy import (
    Column,
    ColumnElement,
    Float,
    Index,
    Integer,
    Text,
    cast,
    func,
    literal_column,
    text,
)

from ett_service.core.dimensions import JOB_COLUMNS
from ett_service.storage.schema.definition import (
    Flag,
    Int64,
    belongs_to_a_job,
    index_above_0,
    of_a_job,
    table,
)

PREEMPTED = "outcome = 'preempted'"
"""Of the attempts that an index of their own holds."""

#: What the fold of a job's events says. ``answer`` holds all but its lists as JSON. A fold of
#: the same events as of ``folded_us`` gives the same; ``due_us`` is when to fold them next. What
#: was lost is all but effective training: times accelerators, and while they were held.
job_ledger = table(
    "job_ledger",
    *of_a_job(),
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
    Column("lost_weighted_us", Int64),
    Column("lost_gpu_us", Int64),
    Column("queue_wait_us", Int64, nullable=False),
    Column("runs", Integer, nullable=False, server_default="1"),
    Column("between_runs_us", Int64, nullable=False, server_default="0"),
    Column("effective_at_reference_us", Int64),
    Column("slowed_us", Int64),
    Column("data_wait_us", Int64),
    Column("data_wait_loop_us", Int64),
    Column("time_to_start_us", Int64),
    Column("failures", Integer, nullable=False),
    Column("infra_failures", Integer, nullable=False),
    Column("unsaved_us", Int64, nullable=False),
    *(Column(name, Text) for name in JOB_COLUMNS),
    Column("gpus", Int64),
    Column("samples", Int64, nullable=False),
    Column("tokens", Int64, nullable=False),
    Column("teraflops", Int64, nullable=False),
    Column("answer", Text, nullable=False),
    belongs_to_a_job(),
    Index(None, "project_id", "started_us", "job"),
    Index(None, "project_id", "ended_us", "job"),
    Index(None, "project_id", "e2e_us", "job"),
    Index(None, "project_id", "failures", "job"),
    Index(None, "project_id", "unsaved_us", "job"),
    Index(None, "project_id", "state", "started_us", "job"),
    Index(None, "project_id", "team", "started_us", "job"),
    Index(None, "project_id", "model", "started_us", "job"),
    Index(None, "due_us"),
    index_above_0(
        "ix_job_ledger_lost_weighted",
        "lost_weighted_us",
        "lost_weighted_us",
        "project_id",
        "job",
        "started_us",
        "ended_us",
    ),
)

#: What jobs are sorted by; readers divide for themselves.
ETT_RATIO: ColumnElement[float] = func.coalesce(
    cast(job_ledger.c.effective_us, Float).op("/")(
        func.nullif(job_ledger.c.e2e_us, literal_column("0"))
    ),
    literal_column("0.0"),
)
Index("ix_job_ledger_ett_ratio", job_ledger.c.project_id, ETT_RATIO, job_ledger.c.job)

SLOWED: ColumnElement[int] = func.coalesce(job_ledger.c.slowed_us, literal_column("0"))
Index("ix_job_ledger_slowed", job_ledger.c.project_id, SLOWED, job_ledger.c.job)

LOST_GPU: ColumnElement[int] = func.coalesce(job_ledger.c.lost_gpu_us, literal_column("0"))
Index("ix_job_ledger_lost_gpu", job_ledger.c.project_id, LOST_GPU, job_ledger.c.job)

attempt_ledger = table(
    "attempt_ledger",
    *of_a_job(),
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
    Column("effective_at_reference_us", Int64),
    Column("slowed_us", Int64),
    Column("data_wait_us", Int64),
    Column("data_wait_loop_us", Int64),
    Column("telemetry_us", Int64),
    Column("unsaved_us", Int64, nullable=False),
    Column("preempted_by", Text),
    Column("last_step", Int64),
    Column("rule", Text),
    Column("evidence", Text),
    Column("corrected", Flag, nullable=False),
    Column("answer", Text, nullable=False),
    belongs_to_a_job(),
    Index(None, "project_id", "ended_us"),
    Index(None, "project_id", "job", "started_us"),
    Index(
        "ix_attempt_ledger_preempted",
        "project_id",
        "ended_us",
        sqlite_where=text(PREEMPTED),
        postgresql_where=text(PREEMPTED),
    ),
)

segment = table(
    "segment",
    *of_a_job(),
    Column("started_us", Int64, primary_key=True, autoincrement=False),
    Column("ended_us", Int64, nullable=False),
    Column("category", Text, nullable=False),
    Column("period", Text, nullable=False),
    Column("number", Integer),
    belongs_to_a_job(),
)

#: A job's E2E, partitioned; ``phase`` is what was reported, empty where nothing was.
share = table(
    "share",
    *of_a_job(),
    Column("category", Text, primary_key=True),
    Column("period", Text, primary_key=True),
    Column("phase", Text, primary_key=True),
    Column("us", Int64, nullable=False),
    Column("weighted_us", Int64),
    Column("gpu_us", Int64),
    belongs_to_a_job(),
)

#: What a job waited, by who owned it. A part is ``queue``, or a period of E2E whose rows sum to it.
wait_share = table(
    "wait_share",
    *of_a_job(),
    Column("part", Text, primary_key=True),
    Column("owner", Text, primary_key=True),
    Column("us", Int64, nullable=False),
    Column("weighted_us", Int64),
    belongs_to_a_job(),
)

recovery = table(
    "recovery",
    *of_a_job(),
    Column("interrupted", Integer, primary_key=True, autoincrement=False),
    Column("started_us", Int64, primary_key=True, autoincrement=False),
    Column("resumed", Integer),
    Column("us", Int64, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("stalled_us", Int64, nullable=False),
    Column("repeated_us", Int64, nullable=False),
    Column("answer", Text, nullable=False),
    belongs_to_a_job(),
)

#: An attempt's time by stage, of the stream's spans; stages never own time of the ledger.
stage_time = table(
    "stage_time",
    *of_a_job(),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("phase", Text, primary_key=True),
    Column("stage", Text, primary_key=True),
    Column("spans", Integer, nullable=False),
    Column("inclusive_us", Int64, nullable=False),
    Column("exclusive_us", Int64, nullable=False),
    belongs_to_a_job(),
)

checkpoint = table(
    "checkpoint",
    *of_a_job(),
    Column("id", Text, primary_key=True),
    Column("number", Integer, nullable=False),
    Column("saved_us", Int64, nullable=False),
    Column("step", Int64, nullable=False),
    Column("bytes", Int64),
    Column("duration_us", Int64),
    belongs_to_a_job(),
    Index(None, "project_id", "saved_us"),
)
