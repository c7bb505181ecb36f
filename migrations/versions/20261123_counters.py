"""The counters of /metrics: what jobs say, marks, labels, exemplars and what is published."""

import sqlalchemy as sa
from alembic import op

revision = "20261123_counters"
down_revision = "20261122_fleet"
branch_labels = None
depends_on = None

INT64 = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
FLAG = sa.Boolean(create_constraint=False).with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Build the tables."""
    _counted()
    _label_value()
    _counter()
    _exemplar()
    _published()
    # The worker takes them for ledgers of another formula: it folds them anew, and counts them.
    op.execute("UPDATE job_ledger SET formula_version = 0")


def downgrade() -> None:
    """Drop them."""
    for table in ("published", "exemplar", "counter", "label_value", "counted"):
        op.drop_table(table)


def _texts(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.Text(), nullable=False) for name in names]


def _counted() -> None:
    op.create_table(
        "counted",
        sa.Column("project_id", sa.Integer(), nullable=False),
        sa.Column("job", sa.Text(), nullable=False),
        *_texts("ident", "cluster", "cohort"),
        sa.Column("kept_out", FLAG, nullable=False),
        *_texts("said", "seen", "open_since", "heard"),
        sa.Column("heard_us", INT64, nullable=True),
        sa.Column("running", sa.Integer(), nullable=False),
        *_texts("counted"),
        sa.Column("fresh", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["project_id", "job"], ["job.project_id", "job.job"], name="fk_counted_project_id_job"
        ),
        sa.PrimaryKeyConstraint("project_id", "job", name="pk_counted"),
        sqlite_strict=True,
    )
    op.create_index("ix_counted_ident", "counted", ["ident"])
    for name, columns in (("fresh", ["project_id", "job"]), ("running", ["cluster", "cohort"])):
        condition = sa.text(f"{name} > 0")
        op.create_index(
            f"ix_counted_{name}",
            "counted",
            columns,
            sqlite_where=condition,
            postgresql_where=condition,
        )


def _label_value() -> None:
    op.create_table(
        "label_value",
        *_texts("kind", "value"),
        sa.Column("shown", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("kind", "value", name="pk_label_value"),
        sqlite_strict=True,
    )
    op.create_index("ix_label_value_kind_shown", "label_value", ["kind", "shown"])


def _counter() -> None:
    op.create_table(
        "counter",
        *_texts("cluster", "cohort", "sums", "marks"),
        sa.Column("excess_us", INT64, nullable=False),
        sa.PrimaryKeyConstraint("cluster", "cohort", name="pk_counter"),
        sqlite_strict=True,
    )


def _exemplar() -> None:
    op.create_table(
        "exemplar",
        *_texts("cluster", "cohort", "body"),
        sa.PrimaryKeyConstraint("cluster", "cohort", name="pk_exemplar"),
        sqlite_strict=True,
    )


def _published() -> None:
    op.create_table(
        "published",
        *_texts("name"),
        sa.Column("revision", INT64, nullable=False),
        sa.Column("at_us", INT64, nullable=False),
        *_texts("body"),
        sa.PrimaryKeyConstraint("name", name="pk_published"),
        sqlite_strict=True,
    )
