"""Regressions, what people say of them, receivers and what they are sent."""

import sqlalchemy as sa
from alembic import op

revision = "20261124_regressions"
down_revision = "20261123_counters"
branch_labels = None
depends_on = None

INT64 = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Build the tables."""
    _lease()
    _regression()
    _regression_change()
    _mute()
    _accepted_baseline()
    _detection_run()
    _receiver()
    _receiver_health()
    _delivery()


def downgrade() -> None:
    """Drop them."""
    for table in (
        "delivery",
        "receiver_health",
        "receiver",
        "detection_run",
        "accepted_baseline",
        "mute",
        "regression_change",
        "regression",
        "lease",
    ):
        op.drop_table(table)


def _texts(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.Text(), nullable=False) for name in names]


def _instants(*names: str, nullable: bool = False) -> list[sa.Column[int]]:
    return [sa.Column(name, INT64, nullable=nullable) for name in names]


def _lease() -> None:
    op.create_table(
        "lease",
        *_texts("name", "holder"),
        *_instants("epoch", "expires_us"),
        sa.PrimaryKeyConstraint("name", name="pk_lease"),
        sqlite_strict=True,
    )


def _regression() -> None:
    op.create_table(
        "regression",
        sa.Column("project_id", sa.Integer(), nullable=False),
        *_texts(
            "id",
            "fingerprint",
            "metric",
            "phase",
            "stage",
            "cause",
            "cohort",
            "verdict",
            "state",
            "severity",
        ),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("told", sa.Integer(), nullable=False),
        sa.Column("runs", sa.Integer(), nullable=False),
        sa.Column("quiet_runs", sa.Integer(), nullable=False),
        *_instants("onset_us", "pending_us"),
        *_instants("firing_us", "resolved_us", nullable=True),
        sa.Column("reopened", sa.Integer(), nullable=False),
        *_instants("last_run_us", "baseline_from_us", "baseline_to_us"),
        *_instants("acknowledged_us", nullable=True),
        sa.Column("acknowledged_by", sa.Text(), nullable=True),
        sa.Column("triage", sa.Text(), nullable=True),
        sa.Column("triage_by", sa.Text(), nullable=True),
        *_instants("triage_us", nullable=True),
        *_texts("finding", "attribution"),
        sa.ForeignKeyConstraint(["project_id"], ["project.id"], name="fk_regression_project_id"),
        sa.PrimaryKeyConstraint("project_id", "id", name="pk_regression"),
        sqlite_strict=True,
    )
    op.create_index(
        "ix_regression_project_id_fingerprint_pending_us",
        "regression",
        ["project_id", "fingerprint", "pending_us"],
    )
    op.create_index("ix_regression_state_project_id", "regression", ["state", "project_id"])


def _regression_change() -> None:
    op.create_table(
        "regression_change",
        sa.Column("project_id", sa.Integer(), nullable=False),
        *_texts("regression_id"),
        sa.Column("seq", sa.Integer(), nullable=False),
        *_instants("at_us"),
        *_texts("what", "by", "why"),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["project_id"], ["project.id"], name="fk_regression_change_project_id"
        ),
        sa.ForeignKeyConstraint(
            ["project_id", "regression_id"],
            ["regression.project_id", "regression.id"],
            name="fk_regression_change_project_id_regression_id",
        ),
        sa.PrimaryKeyConstraint("project_id", "regression_id", "seq", name="pk_regression_change"),
        sqlite_strict=True,
    )


def _mute() -> None:
    op.create_table(
        "mute",
        sa.Column("project_id", sa.Integer(), nullable=False),
        *_texts("id", "cohort", "phase"),
        *_instants("from_us", "until_us"),
        *_texts("why", "made_by"),
        *_instants("made_us"),
        sa.Column("taken_back_by", sa.Text(), nullable=True),
        *_instants("taken_back_us", nullable=True),
        sa.ForeignKeyConstraint(["project_id"], ["project.id"], name="fk_mute_project_id"),
        sa.PrimaryKeyConstraint("project_id", "id", name="pk_mute"),
        sqlite_strict=True,
    )


def _accepted_baseline() -> None:
    op.create_table(
        "accepted_baseline",
        sa.Column("project_id", sa.Integer(), nullable=False),
        *_texts("fingerprint"),
        *_instants("since_us"),
        *_texts("why", "made_by"),
        *_instants("made_us"),
        sa.ForeignKeyConstraint(
            ["project_id"], ["project.id"], name="fk_accepted_baseline_project_id"
        ),
        sa.PrimaryKeyConstraint("project_id", "fingerprint", name="pk_accepted_baseline"),
        sqlite_strict=True,
    )


def _detection_run() -> None:
    op.create_table(
        "detection_run",
        sa.Column("project_id", sa.Integer(), nullable=False),
        *_instants("at_us", "made_us", "took_us", "epoch"),
        sa.Column("series", sa.Integer(), nullable=False),
        *_texts("body"),
        sa.ForeignKeyConstraint(["project_id"], ["project.id"], name="fk_detection_run_project_id"),
        sa.PrimaryKeyConstraint("project_id", "at_us", name="pk_detection_run"),
        sqlite_strict=True,
    )


def _receiver() -> None:
    op.create_table(
        "receiver",
        sa.Column("project_id", sa.Integer(), nullable=False),
        *_texts("name", "url", "format", "cohort", "secret"),
        sa.Column("old_secret", sa.Text(), nullable=True),
        *_instants("old_until_us", nullable=True),
        *_texts("made_by"),
        *_instants("made_us"),
        sa.ForeignKeyConstraint(["project_id"], ["project.id"], name="fk_receiver_project_id"),
        sa.PrimaryKeyConstraint("project_id", "name", name="pk_receiver"),
        sqlite_strict=True,
    )


def _receiver_health() -> None:
    op.create_table(
        "receiver_health",
        sa.Column("owner", sa.Integer(), nullable=False),
        *_texts("name"),
        sa.Column("failures", sa.Integer(), nullable=False),
        *_instants("open_until_us", "disabled_us", nullable=True),
        sa.Column("disabled_why", sa.Text(), nullable=True),
        *_instants("busy_until_us", nullable=True),
        sa.PrimaryKeyConstraint("owner", "name", name="pk_receiver_health"),
        sqlite_strict=True,
    )


def _delivery() -> None:
    op.create_table(
        "delivery",
        *_texts("id"),
        sa.Column("project_id", sa.Integer(), nullable=False),
        sa.Column("owner", sa.Integer(), nullable=False),
        *_texts("receiver", "fingerprint"),
        sa.Column("version", sa.Integer(), nullable=False),
        *_texts("body"),
        *_instants("made_us", "due_us"),
        sa.Column("tries", sa.Integer(), nullable=False),
        *_instants("claimed_until_us", nullable=True),
        *_texts("done"),
        *_instants("done_us", nullable=True),
        *_texts("tried"),
        sa.ForeignKeyConstraint(["project_id"], ["project.id"], name="fk_delivery_project_id"),
        sa.PrimaryKeyConstraint("id", name="pk_delivery"),
        sqlite_strict=True,
    )
    op.create_index("ix_delivery_done_due_us", "delivery", ["done", "due_us"])
    op.create_index("ix_delivery_owner_receiver_done", "delivery", ["owner", "receiver", "done"])
