"""The migrations build exactly the declared tables, up and down, on both engines."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import Script, ScriptDirectory
from sqlalchemy import Connection, inspect
from sqlalchemy.dialects.sqlite import dialect as sqlite_dialect
from sqlalchemy.schema import CreateIndex

from ett_service.storage.engine import migrate, postgresql, sqlite
from ett_service.storage.engine.errors import StorageUnavailable
from ett_service.storage.schema import metadata
from tests.builders.databases.schemas import undo

SCRIPTS = ScriptDirectory.from_config(migrate.configuration())
REVISIONS = list(reversed(list(SCRIPTS.walk_revisions())))

#: Alembic keeps the revision in a column of this length.
LONGEST_REVISION = 32

OF_EXPRESSIONS = (
    "ix_job_ledger_ett_ratio",
    "ix_job_ledger_lost_gpu",
    "ix_job_ledger_slowed",
)
SQLITES_OWN = frozenset({"sqlite_schema", "sqlite_temp_schema"})


@contextmanager
def connected(url: str) -> Iterator[Connection]:
    address = migrate.address(url)
    if address.get_backend_name() == "sqlite":
        engine = sqlite.writing_engine(sqlite.path_of(address))
    else:
        engine = postgresql.pooled_engine(address)
    with engine.connect() as conn:
        yield conn
    engine.dispose()


def differences(url: str) -> list[object]:
    with connected(url) as conn:
        context = MigrationContext.configure(conn, opts={"compare_server_default": True})
        return list(compare_metadata(context, metadata))


def tables(url: str) -> set[str]:
    with connected(url) as conn:
        return set(inspect(conn).get_table_names()) - {"alembic_version"}


def test_the_migrations_build_exactly_the_declared_tables(bare_database_url: str) -> None:
    migrate.migrate(bare_database_url)

    assert differences(bare_database_url) == []


def test_every_migration_can_be_undone_and_done_again(bare_database_url: str) -> None:
    for script in REVISIONS:
        below = script.down_revision or "base"
        assert isinstance(below, str)
        before = tables(bare_database_url)
        migrate.migrate(bare_database_url, script.revision)
        undo(bare_database_url, below)
        assert tables(bare_database_url) == before
        migrate.migrate(bare_database_url, script.revision)

    assert differences(bare_database_url) == []


@pytest.mark.parametrize("dialect", ["sqlite"])
def test_sqlite_builds_the_same_tables_strict(bare_database_url: str) -> None:
    migrate.migrate(bare_database_url)
    with connected(bare_database_url) as conn:
        listed = conn.exec_driver_sql("PRAGMA table_list").mappings().all()
    strict = {row["name"] for row in listed if row["strict"]}
    without_rowid = {row["name"] for row in listed if row["wr"]} - SQLITES_OWN

    assert strict == set(metadata.tables)
    assert without_rowid == {
        name
        for name, table in metadata.tables.items()
        if not table.dialect_options["sqlite"]["with_rowid"]
    }


@pytest.mark.parametrize("dialect", ["sqlite"])
@pytest.mark.parametrize("name", OF_EXPRESSIONS)
def test_sqlite_builds_the_index_of_an_expression_that_is_not_reflected(
    bare_database_url: str, name: str
) -> None:
    migrate.migrate(bare_database_url)
    with connected(bare_database_url) as conn:
        built = conn.exec_driver_sql(
            "SELECT sql FROM sqlite_master WHERE name = ?", (name,)
        ).scalar_one()
    (declared,) = (index for index in metadata.tables["job_ledger"].indexes if index.name == name)

    assert built == str(CreateIndex(declared).compile(dialect=sqlite_dialect()))


@pytest.mark.parametrize("dialect", ["postgresql"])
def test_a_migration_that_cannot_get_its_lock_gives_up_and_leaves_nothing(
    bare_database_url: str,
) -> None:
    migrate.migrate(bare_database_url)
    with connected(bare_database_url) as conn:
        conn.exec_driver_sql("LOCK TABLE event IN ACCESS SHARE MODE")
        with pytest.raises(StorageUnavailable, match="lock timeout"):
            undo(bare_database_url, patience_s=0)

    assert differences(bare_database_url) == []


@pytest.mark.parametrize("script", REVISIONS, ids=lambda script: script.revision)
def test_a_migration_is_named_by_its_date_and_what_it_does(script: Script) -> None:
    name = script.path.rpartition("/")[2]

    assert re.fullmatch(
        r"20\d{2}(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])_[a-z]+(_[a-z0-9]+)*\.py", name
    )
    assert script.revision == name.removesuffix(".py")
    assert len(script.revision) <= LONGEST_REVISION


def test_the_migrations_are_one_line_in_the_order_of_their_dates() -> None:
    assert len(SCRIPTS.get_heads()) == 1
    assert [script.revision for script in REVISIONS] == sorted(
        script.revision for script in REVISIONS
    )
