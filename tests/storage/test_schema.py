"""What holds for every table."""

from sqlalchemy import make_url

from ett_service.storage.schema import metadata

POSTGRESQL = make_url("postgresql+psycopg://").get_dialect()()
SQLITE = make_url("sqlite://").get_dialect()()
TABLES = list(metadata.tables.values())
COLUMNS = [column for table in TABLES for column in table.columns]


def test_keys_of_a_jobs_facts_start_with_project_and_job() -> None:
    first_two = {
        table.name: [column.name for column in table.primary_key][:2]
        for table in TABLES
        if "job" in table.columns
    }

    assert len(first_two) > 5
    assert {name: key for name, key in first_two.items() if key != ["project_id", "job"]} == {}


def test_instants_and_durations_are_whole_numbers_of_64_bits() -> None:
    of_time = [column for column in COLUMNS if column.name.endswith("us")]

    assert {column.type.compile(POSTGRESQL) for column in of_time} == {"BIGINT"}


def test_sqlite_takes_every_type_into_its_strict_tables() -> None:
    assert {column.type.compile(SQLITE) for column in COLUMNS} <= {"INTEGER", "TEXT"}
    assert all(table.dialect_options["sqlite"]["strict"] for table in TABLES)
