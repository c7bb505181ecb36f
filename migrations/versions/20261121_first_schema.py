"""The first schema."""

import uuid

import sqlalchemy as sa
from alembic import op

revision = "20261121_first_schema"
down_revision = None
branch_labels = None
depends_on = None

INT64 = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
FLAG = sa.Boolean(create_constraint=False).with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Build every table, and give the store the name that tells it from its successors."""
    _store()
    _project()
    _api_key()
    _job()
    _job_history()
    _event()
    _producer()
    _dirty()
    _job_ledger()
    _attempt_ledger()
    _segment()
    _share()
    _recovery()
    op.execute(
        sa.text("INSERT INTO store (name, value) VALUES ('store_epoch', :epoch)").bindparams(
            epoch=uuid.uuid4().hex
        )
    )


def downgrade() -> None:
    """Drop every table, those that are pointed at last."""
    for table in reversed(TABLES):
        op.drop_table(table)


def _store() -> None:
    op.create_table(
        "store",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_store"),
        sqlite_strict=True,
    )


def _project() -> None:
    op.create_table(
        "project",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("created_us", INT64, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_project"),
        sa.UniqueConstraint("name", name="uq_project_name"),
        sqlite_strict=True,
    )


def _api_key() -> None:
    op.create_table(
        "api_key",
        sa.Column("prefix", sa.Text(), nullable=False),
        sa.Column("project_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("scopes", sa.Text(), nullable=False),
        sa.Column("created_us", INT64, nullable=False),
        sa.Column("revoked_us", INT64, nullable=True),
        sa.ForeignKeyConstraint(["project_id"], ["project.id"], name="fk_api_key_project_id"),
        sa.PrimaryKeyConstraint("prefix", name="pk_api_key"),
        sqlite_strict=True,
    )


def _job() -> None:
    op.create_table(
        "job",
        sa.Column("project_id", sa.Integer(), nullable=False),
        sa.Column("job", sa.Text(), nullable=False),
        sa.Column("received_us", INT64, nullable=False),
        sa.PrimaryKeyConstraint("project_id", "job", name="pk_job"),
        sqlite_strict=True,
    )


def _job_history() -> None:
    op.create_table(
        "job_history",
        sa.Column("project_id", sa.Integer(), nullable=False),
        sa.Column("job", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["project_id", "job"],
            ["job.project_id", "job.job"],
            name="fk_job_history_project_id_job",
        ),
        sa.PrimaryKeyConstraint("project_id", "job", name="pk_job_history"),
        sqlite_strict=True,
    )


def _event() -> None:
    op.create_table(
        "event",
        sa.Column("project_id", sa.Integer(), nullable=False),
        sa.Column("job", sa.Text(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("at_us", INT64, nullable=False),
        sa.Column("received_us", INT64, nullable=False),
        sa.Column("batch", INT64, nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["project_id", "job"], ["job.project_id", "job.job"], name="fk_event_project_id_job"
        ),
        sa.PrimaryKeyConstraint("project_id", "job", "id", name="pk_event"),
        sqlite_strict=True,
    )
    op.create_index(
        "ix_event_project_id_job_at_us_id", "event", ["project_id", "job", "at_us", "id"]
    )
    op.create_index("ix_event_project_id_job_batch", "event", ["project_id", "job", "batch"])


def _producer() -> None:
    op.create_table(
        "producer",
        sa.Column("project_id", sa.Integer(), nullable=False),
        sa.Column("job", sa.Text(), nullable=False),
        sa.Column("producer", sa.Text(), nullable=False),
        sa.Column("offset_us", INT64, nullable=False),
        sa.ForeignKeyConstraint(
            ["project_id", "job"], ["job.project_id", "job.job"], name="fk_producer_project_id_job"
        ),
        sa.PrimaryKeyConstraint("project_id", "job", "producer", name="pk_producer"),
        sqlite_strict=True,
    )


def _dirty() -> None:
    op.create_table(
        "dirty",
        sa.Column("project_id", sa.Integer(), nullable=False),
        sa.Column("job", sa.Text(), nullable=False),
        sa.Column("batch", INT64, nullable=False),
        sa.Column("marked_us", INT64, nullable=False),
        sa.ForeignKeyConstraint(
            ["project_id", "job"], ["job.project_id", "job.job"], name="fk_dirty_project_id_job"
        ),
        sa.PrimaryKeyConstraint("project_id", "job", "batch", name="pk_dirty"),
        sqlite_strict=True,
    )


def _job_ledger() -> None:
    op.create_table(
        "job_ledger",
        sa.Column("project_id", sa.Integer(), nullable=False),
        sa.Column("job", sa.Text(), nullable=False),
        sa.Column("revision", INT64, nullable=False),
        sa.Column("formula_version", sa.Integer(), nullable=False),
        sa.Column("event_count", INT64, nullable=False),
        sa.Column("folded_us", INT64, nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("as_of_us", INT64, nullable=False),
        sa.Column("due_us", INT64, nullable=True),
        sa.Column("started_us", INT64, nullable=True),
        sa.Column("ended_us", INT64, nullable=True),
        sa.Column("e2e_us", INT64, nullable=False),
        sa.Column("effective_us", INT64, nullable=False),
        sa.Column("queue_wait_us", INT64, nullable=False),
        sa.Column("time_to_start_us", INT64, nullable=True),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("infra_failures", sa.Integer(), nullable=False),
        sa.Column("unsaved_us", INT64, nullable=False),
        sa.Column("name", sa.Text(), nullable=True),
        sa.Column("team", sa.Text(), nullable=True),
        sa.Column("model", sa.Text(), nullable=True),
        sa.Column("cluster", sa.Text(), nullable=True),
        sa.Column("hardware", sa.Text(), nullable=True),
        sa.Column("kind", sa.Text(), nullable=True),
        sa.Column("code_version", sa.Text(), nullable=True),
        sa.Column("gpus", INT64, nullable=True),
        sa.Column("samples", INT64, nullable=False),
        sa.Column("tokens", INT64, nullable=False),
        sa.Column("teraflops", INT64, nullable=False),
        sa.Column("answer", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["project_id", "job"],
            ["job.project_id", "job.job"],
            name="fk_job_ledger_project_id_job",
        ),
        sa.PrimaryKeyConstraint("project_id", "job", name="pk_job_ledger"),
        sqlite_strict=True,
    )
    op.create_index("ix_job_ledger_due_us", "job_ledger", ["due_us"])
    op.create_index(
        "ix_job_ledger_project_id_started_us_job", "job_ledger", ["project_id", "started_us", "job"]
    )


def _attempt_ledger() -> None:
    op.create_table(
        "attempt_ledger",
        sa.Column("project_id", sa.Integer(), nullable=False),
        sa.Column("job", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("launch", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("cycle", sa.Integer(), nullable=False),
        sa.Column("started_us", INT64, nullable=False),
        sa.Column("ended_us", INT64, nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("origin", sa.Text(), nullable=True),
        sa.Column("cause", sa.Text(), nullable=True),
        sa.Column("gpus", INT64, nullable=True),
        sa.Column("code_version", sa.Text(), nullable=True),
        sa.Column("effective_us", INT64, nullable=False),
        sa.Column("unsaved_us", INT64, nullable=False),
        sa.Column("preempted_by", sa.Text(), nullable=True),
        sa.Column("last_step", INT64, nullable=True),
        sa.Column("rule", sa.Text(), nullable=True),
        sa.Column("evidence", sa.Text(), nullable=True),
        sa.Column("corrected", FLAG, nullable=False),
        sa.Column("answer", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["project_id", "job"],
            ["job.project_id", "job.job"],
            name="fk_attempt_ledger_project_id_job",
        ),
        sa.PrimaryKeyConstraint("project_id", "job", "number", name="pk_attempt_ledger"),
        sqlite_strict=True,
    )
    op.create_index(
        "ix_attempt_ledger_project_id_ended_us", "attempt_ledger", ["project_id", "ended_us"]
    )


def _segment() -> None:
    op.create_table(
        "segment",
        sa.Column("project_id", sa.Integer(), nullable=False),
        sa.Column("job", sa.Text(), nullable=False),
        sa.Column("started_us", INT64, autoincrement=False, nullable=False),
        sa.Column("ended_us", INT64, nullable=False),
        sa.Column("category", sa.Text(), nullable=False),
        sa.Column("period", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=True),
        sa.ForeignKeyConstraint(
            ["project_id", "job"], ["job.project_id", "job.job"], name="fk_segment_project_id_job"
        ),
        sa.PrimaryKeyConstraint("project_id", "job", "started_us", name="pk_segment"),
        sqlite_strict=True,
    )


def _share() -> None:
    op.create_table(
        "share",
        sa.Column("project_id", sa.Integer(), nullable=False),
        sa.Column("job", sa.Text(), nullable=False),
        sa.Column("category", sa.Text(), nullable=False),
        sa.Column("period", sa.Text(), nullable=False),
        sa.Column("phase", sa.Text(), nullable=False),
        sa.Column("us", INT64, nullable=False),
        sa.Column("weighted_us", INT64, nullable=True),
        sa.Column("gpu_us", INT64, nullable=True),
        sa.ForeignKeyConstraint(
            ["project_id", "job"], ["job.project_id", "job.job"], name="fk_share_project_id_job"
        ),
        sa.PrimaryKeyConstraint(
            "project_id", "job", "category", "period", "phase", name="pk_share"
        ),
        sqlite_strict=True,
    )


def _recovery() -> None:
    op.create_table(
        "recovery",
        sa.Column("project_id", sa.Integer(), nullable=False),
        sa.Column("job", sa.Text(), nullable=False),
        sa.Column("interrupted", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("started_us", INT64, autoincrement=False, nullable=False),
        sa.Column("resumed", sa.Integer(), nullable=True),
        sa.Column("us", INT64, nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("stalled_us", INT64, nullable=False),
        sa.Column("repeated_us", INT64, nullable=False),
        sa.Column("answer", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["project_id", "job"], ["job.project_id", "job.job"], name="fk_recovery_project_id_job"
        ),
        sa.PrimaryKeyConstraint(
            "project_id", "job", "interrupted", "started_us", name="pk_recovery"
        ),
        sqlite_strict=True,
    )


TABLES = (
    "store",
    "project",
    "api_key",
    "job",
    "job_history",
    "event",
    "producer",
    "dirty",
    "job_ledger",
    "attempt_ledger",
    "segment",
    "share",
    "recovery",
)
