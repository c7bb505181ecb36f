"""What the tables are made of, and where they are known."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    text,
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


def table(name: str, *items: SchemaItem, sqlite_with_rowid: bool = True) -> Table:
    """Define a table; without row ids its rows lie in the order of their key in SQLite."""
    return Table(name, metadata, *items, sqlite_strict=True, sqlite_with_rowid=sqlite_with_rowid)


def index_above_0(name: str, flag: str, *columns: str) -> Index:
    """Return an index of the rows in which a number is not 0."""
    condition = text(f"{flag} > 0")
    return Index(name, *columns, sqlite_where=condition, postgresql_where=condition)


def of_a_job() -> tuple[Column[int], Column[str]]:
    return (
        Column("project_id", Integer, primary_key=True),
        Column("job", Text, primary_key=True),
    )


def belongs_to_a_job() -> ForeignKeyConstraint:
    return ForeignKeyConstraint(["project_id", "job"], ["job.project_id", "job.job"])
