"""The fleet: contributions, rollups, stages, checkpoints, markers and corrections."""

import sqlalchemy as sa
from alembic import op

revision = "20261122_fleet"
down_revision = "20261121_first_schema"
branch_labels = None
depends_on = None

INDEX = "ix_attempt_ledger_project_id_job_started_us"
INT64 = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
FLAG = sa.Boolean(create_constraint=False).with_variant(sa.Integer(), "sqlite")

DIMENSIONS = (
    "team",
    "model",
    "cluster",
    "hardware",
    "precision",
    "kind",
    "size",
    "code_version",
)

MEASURES = (
    "scheduling_us",
    "hardware_setup_us",
    "launcher_init_us",
    "pt2_compile_us",
    "effective_training_us",
    "repeated_training_us",
    "checkpoint_blocking_us",
    "recompile_us",
    "evaluation_us",
    "stalled_us",
    "shutdown_us",
    "restart_wait_us",
    "unattributed_us",
    "scheduling_weighted_us",
    "hardware_setup_weighted_us",
    "launcher_init_weighted_us",
    "pt2_compile_weighted_us",
    "effective_training_weighted_us",
    "repeated_training_weighted_us",
    "checkpoint_blocking_weighted_us",
    "recompile_weighted_us",
    "evaluation_weighted_us",
    "stalled_weighted_us",
    "shutdown_weighted_us",
    "restart_wait_weighted_us",
    "unattributed_weighted_us",
    "restart_wait_gpu_us",
    "scheduling_period_us",
    "starting_period_us",
    "training_period_us",
    "recovering_period_us",
    "ending_period_us",
    "scheduling_period_weighted_us",
    "starting_period_weighted_us",
    "training_period_weighted_us",
    "recovering_period_weighted_us",
    "ending_period_weighted_us",
    "wasted_us",
    "wasted_weighted_us",
    "unweighted_us",
    "queue_wait_us",
    "unsaved_us",
    "unsaved_weighted_us",
    "failures",
    "infra_failures",
    "preemptions",
    "attempts",
    "jobs_hour",
    "jobs_day",
    "jobs_started",
    "jobs_ended",
    "jobs_ended_unweighted",
    "jobs_left_out",
    "samples",
    "samples_known",
    "samples_us",
    "samples_weighted_us",
    "tokens",
    "tokens_known",
    "tokens_us",
    "tokens_weighted_us",
    "tokens_gpu_us",
    "teraflops",
    "teraflops_weighted_us",
    "cells",
)


def upgrade() -> None:
    """Build the tables."""
    _stage_time()
    _checkpoint()
    _cohort()
    _contribution()
    _cohort_day()
    for grain in ("hourly", "daily"):
        _rollup(f"rollup_{grain}")
        _tally(f"tally_{grain}")
    _marker()
    _correction()
    op.create_index(INDEX, "attempt_ledger", ["project_id", "job", "started_us"])
    # The worker takes them for ledgers of another formula: it folds them anew, and rolls them up.
    op.execute("UPDATE job_ledger SET formula_version = 0")


def downgrade() -> None:
    """Drop them, those that are pointed at last."""
    op.drop_index(INDEX, "attempt_ledger")
    for table in reversed(TABLES):
        op.drop_table(table)


def _of_a_job(table: str) -> list[sa.ForeignKeyConstraint | sa.Column[int] | sa.Column[str]]:
    return [
        sa.Column("project_id", sa.Integer(), nullable=False),
        sa.Column("job", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["project_id", "job"],
            ["job.project_id", "job.job"],
            name=f"fk_{table}_project_id_job",
        ),
    ]


def _cohort_id(table: str) -> list[sa.ForeignKeyConstraint | sa.Column[int]]:
    return [
        sa.Column("cohort_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.ForeignKeyConstraint(["cohort_id"], ["cohort.id"], name=f"fk_{table}_cohort_id"),
    ]


def _measures() -> list[sa.Column[int]]:
    return [sa.Column(name, INT64, server_default="0", nullable=False) for name in MEASURES]


def _stage_time() -> None:
    op.create_table(
        "stage_time",
        *_of_a_job("stage_time"),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("phase", sa.Text(), nullable=False),
        sa.Column("stage", sa.Text(), nullable=False),
        sa.Column("spans", sa.Integer(), nullable=False),
        sa.Column("inclusive_us", INT64, nullable=False),
        sa.Column("exclusive_us", INT64, nullable=False),
        sa.PrimaryKeyConstraint(
            "project_id", "job", "number", "phase", "stage", name="pk_stage_time"
        ),
        sqlite_strict=True,
    )


def _checkpoint() -> None:
    op.create_table(
        "checkpoint",
        *_of_a_job("checkpoint"),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("saved_us", INT64, nullable=False),
        sa.Column("step", INT64, nullable=False),
        sa.Column("bytes", INT64, nullable=True),
        sa.Column("duration_us", INT64, nullable=True),
        sa.PrimaryKeyConstraint("project_id", "job", "id", name="pk_checkpoint"),
        sqlite_strict=True,
    )


def _cohort() -> None:
    op.create_table(
        "cohort",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("project_id", sa.Integer(), nullable=False),
        *(sa.Column(name, sa.Text(), nullable=False) for name in DIMENSIONS),
        sa.Column("excluded", FLAG, nullable=False),
        sa.Column("other", FLAG, nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["project.id"], name="fk_cohort_project_id"),
        sa.PrimaryKeyConstraint("id", name="pk_cohort"),
        sa.UniqueConstraint("project_id", *DIMENSIONS, "excluded", "other", name="uq_cohort"),
        sqlite_strict=True,
    )


def _contribution() -> None:
    op.create_table(
        "contribution",
        *_of_a_job("contribution"),
        sa.Column("hour_us", INT64, autoincrement=False, nullable=False),
        *_cohort_id("contribution"),
        *_measures(),
        sa.Column("tallies", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint(
            "project_id", "job", "hour_us", "cohort_id", name="pk_contribution"
        ),
        sqlite_strict=True,
    )
    op.create_index(
        "ix_contribution_project_id_cohort_id_hour_us",
        "contribution",
        ["project_id", "cohort_id", "hour_us"],
    )


def _cohort_day() -> None:
    op.create_table(
        "cohort_day",
        sa.Column("project_id", sa.Integer(), nullable=False),
        sa.Column("day_us", INT64, autoincrement=False, nullable=False),
        *_cohort_id("cohort_day"),
        sa.Column("kept", FLAG, nullable=False),
        sa.PrimaryKeyConstraint("project_id", "day_us", "cohort_id", name="pk_cohort_day"),
        sqlite_strict=True,
    )


def _rollup(table: str) -> None:
    op.create_table(
        table,
        sa.Column("project_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("start_us", INT64, autoincrement=False, nullable=False),
        *_cohort_id(table),
        *_measures(),
        sa.PrimaryKeyConstraint("project_id", "start_us", "cohort_id", name=f"pk_{table}"),
        sqlite_strict=True,
    )


def _tally(table: str) -> None:
    op.create_table(
        table,
        sa.Column("project_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("start_us", INT64, autoincrement=False, nullable=False),
        *_cohort_id(table),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("place", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("count", INT64, nullable=False),
        sa.Column("us", INT64, nullable=False),
        sa.PrimaryKeyConstraint(
            "project_id", "start_us", "cohort_id", "name", "place", name=f"pk_{table}"
        ),
        sqlite_strict=True,
    )


def _marker() -> None:
    op.create_table(
        "marker",
        sa.Column("project_id", sa.Integer(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("at_us", INT64, nullable=False),
        sa.Column("end_us", INT64, nullable=True),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("labels", sa.Text(), nullable=False),
        sa.Column("made_by", sa.Text(), nullable=False),
        sa.Column("made_us", INT64, nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["project.id"], name="fk_marker_project_id"),
        sa.PrimaryKeyConstraint("project_id", "id", name="pk_marker"),
        sqlite_strict=True,
    )
    op.create_index("ix_marker_project_id_at_us_id", "marker", ["project_id", "at_us", "id"])


def _correction() -> None:
    op.create_table(
        "correction",
        *_of_a_job("correction"),
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("launch", sa.Text(), nullable=True),
        sa.Column("attempt", sa.Integer(), nullable=True),
        sa.Column("cycle", sa.Integer(), nullable=True),
        sa.Column("origin", sa.Text(), nullable=True),
        sa.Column("cause", sa.Text(), nullable=True),
        sa.Column("from_us", INT64, nullable=True),
        sa.Column("to_us", INT64, nullable=True),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("made_by", sa.Text(), nullable=False),
        sa.Column("made_us", INT64, nullable=False),
        sa.Column("taken_back_by", sa.Text(), nullable=True),
        sa.Column("taken_back_us", INT64, nullable=True),
        sa.PrimaryKeyConstraint("project_id", "job", "id", name="pk_correction"),
        sqlite_strict=True,
    )


TABLES = (
    "stage_time",
    "checkpoint",
    "cohort",
    "contribution",
    "cohort_day",
    "rollup_hourly",
    "tally_hourly",
    "rollup_daily",
    "tally_daily",
    "marker",
    "correction",
)
