import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ett_service.cli.main import main
from ett_service.core.intervals import DAY_US
from ett_service.storage.engine.store import open_for_reading, open_store
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.storage.record.events import store_epoch
from ett_service.storage.record.keys import create_project
from tests.builders.clock import NOON, RECEIVED_AT
from tests.builders.databases.engines import ON_ONE_ENGINE
from tests.builders.servers.ett import Server
from tests.storage.test_retention import closed_job, fold


@pytest.fixture
def copy(served: Server) -> Path:
    """Copy the server's database into the test's folder, where the settings look for it."""
    source = served.database_url.removeprefix("sqlite:///")
    with (
        closing(sqlite3.connect(f"file:{source}?mode=ro", uri=True)) as source_conn,
        closing(sqlite3.connect("ett.db")) as own,
    ):
        source_conn.backup(own)
    return Path("ett.db")


@pytest.mark.usefixtures("copy")
def test_what_a_server_stored_is_what_its_events_say(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["jobs"] >= 1
    assert answer["differences"] == []


def test_a_stored_number_that_was_changed_is_found(
    copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(sqlite3.connect(copy)) as conn, conn:
        conn.execute("UPDATE job_ledger SET failures = 7 WHERE job = 'llm-7b'")
    assert main(["verify"]) == 3
    (row,) = [line for line in capsys.readouterr().out.splitlines() if "llm-7b" in line]
    assert row.split()[-4:] == ["job_ledger", "failures", "7", "1"]


@pytest.mark.usefixtures("copy")
def test_the_rollups_of_a_server_are_the_sum_of_its_jobs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["verify", "--fleet", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["cells"] >= 2
    assert answer["differences"] == []
    assert main(["verify", "--fleet"]) == 0
    assert f"{answer['cells']} cells of the rollups, no difference" in capsys.readouterr().out


def test_a_changed_cell_is_found_when_rollups_are_verified(
    copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(sqlite3.connect(copy)) as conn, conn:
        conn.execute("UPDATE rollup_daily SET failures = failures + 1")
    assert main(["verify"]) == 0
    capsys.readouterr()
    assert main(["verify", "--fleet"]) == 3
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if "failures" in line]
    assert rows
    assert {tuple(row[1:3]) for row in rows} == {("-", "rollup_daily")}


def test_a_new_file_gets_the_schema_and_a_second_run_changes_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["migrate"]) == 0
    open_store("sqlite:///ett.db").close()
    assert main(["migrate"]) == 0
    assert capsys.readouterr().out == "sqlite:///ett.db has the latest schema.\n" * 2


def test_numbers_that_were_changed_are_put_right(
    copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(sqlite3.connect(copy)) as conn, conn:
        conn.execute("UPDATE job_ledger SET failures = 7")
        conn.execute("UPDATE rollup_daily SET failures = 7")
    assert main(["verify", "--fleet"]) == 3
    capsys.readouterr()

    assert main(["recompute", "--json", "--processes", "1"]) == 0

    answer = json.loads(capsys.readouterr().out)
    assert answer["jobs"] >= 1
    assert answer["events"] >= answer["jobs"]
    assert main(["verify", "--fleet"]) == 0


def test_an_event_that_cannot_be_read_is_named_with_its_job(
    copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(sqlite3.connect(copy)) as conn, conn:
        (job,) = conn.execute("SELECT min(job) FROM event").fetchone()
        conn.execute("UPDATE event SET body = '{' WHERE job = ?", (job,))
    assert main(["recompute", "--processes", "1"]) == 1

    said = capsys.readouterr().err
    assert f"of job {job!r} cannot be read" in said
    assert "ett jobs delete JOB" in said
    assert "Traceback" not in said


def test_a_file_that_a_server_writes_is_left_to_it(
    served: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ETT_DATABASE_URL", served.database_url)

    assert main(["recompute"]) == 1

    output = capsys.readouterr()
    assert output.out == ""
    assert "Another process is writing" in output.err
    assert "Stop the other process" in output.err


def test_a_number_of_processes_is_one_or_more(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["recompute", "--processes", "0"])

    assert "not a whole number from 1" in capsys.readouterr().err


def epoch_of(url: str) -> str:
    with closing(open_for_reading(url)) as store, store.reading() as conn:
        return store_epoch(conn)


@ON_ONE_ENGINE
def test_a_copy_is_made_beside_a_server_and_nothing_is_replaced_unasked(
    database_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ETT_DATABASE_URL", database_url)
    with closing(open_store(database_url)):  # as a server holds it
        assert main(["backup", "copy.db", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer == {"path": "copy.db", "bytes": Path("copy.db").stat().st_size}
    assert main(["backup", "copy.db"]) == 1
    assert "--force" in capsys.readouterr().err
    Path(f"{database_url.removeprefix('sqlite:///')}.key").touch()
    assert main(["backup", "copy.db", "--force"]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("copy.db: ")
    assert ".key is not in the copy" in printed.err


def test_a_restored_database_answers_by_another_name(
    database_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ETT_DATABASE_URL", database_url)
    before = epoch_of(database_url)
    assert main(["backup", "--restored"]) == 0
    assert "trainers send again what it lacks" in capsys.readouterr().out
    assert epoch_of(database_url) != before
    with pytest.raises(SystemExit, match="2"):
        main(["backup"])


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_a_copy_of_postgresql_is_left_to_its_own_programs(
    database_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ETT_DATABASE_URL", database_url)
    assert main(["backup", "copy.db"]) == 1
    assert "pg_dump" in capsys.readouterr().err
    assert not Path("copy.db").exists()


@pytest.fixture
def _store(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ETT_DATABASE_URL", database_url)
    monkeypatch.setattr(
        "ett_service.cli.operations.database.now_us", lambda: RECEIVED_AT + 99 * DAY_US
    )
    with closing(open_store(database_url)) as store:
        project_id = store.write(lambda conn: create_project(conn, "research", RECEIVED_AT))
        for name in "ab":
            fold(store, JobKey(project_id, name), closed_job())


def answer(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict[str, Any]:
    assert main([*arguments, "--json"]) == code
    printed: dict[str, Any] = json.loads(capsys.readouterr().out)
    return printed


@pytest.mark.usefixtures("_store")
def test_a_dry_run_says_what_a_run_deletes(capsys: pytest.CaptureFixture[str]) -> None:
    events = 2 * len(closed_job())
    planned = answer(capsys, "prune", "--days", "60", "--dry-run")
    assert (planned["jobs"], planned["events"], planned["days"]) == (2, events, 60)
    assert planned["bytes"] > 0
    assert answer(capsys, "prune", "--days", "90000", "--dry-run")["jobs"] == 0

    done = answer(capsys, "prune", "--days", "60", "--yes")

    assert done["jobs"] == 2
    assert done["rows"] > events
    assert answer(capsys, "prune", "--days", "60", "--dry-run")["jobs"] == 0
    verified = answer(capsys, "verify", "--fleet")
    assert (verified["jobs"], verified["pruned"], verified["differences"]) == (0, 2, [])
    assert main(["verify"]) == 0
    assert "2 jobs were not compared: their events were pruned." in capsys.readouterr().err


@ON_ONE_ENGINE
@pytest.mark.usefixtures("_store")
def test_without_a_number_of_days_nothing_is_pruned(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["prune"]) == 1
    assert "retention_days" in capsys.readouterr().err
    monkeypatch.setenv("ETT_RETENTION_DAYS", "60")
    assert main(["prune", "--dry-run"]) == 0
    assert "2 jobs closed for 60 days would be pruned" in capsys.readouterr().out
    assert main(["prune"]) == 1
    refused = capsys.readouterr()
    assert "2 jobs closed for 60 days will lose their events and segments for good" in refused.err
    assert refused.out == ""
    assert main(["prune", "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["jobs"] == 2
    assert main(["prune", "--yes"]) == 0
    assert capsys.readouterr().out.startswith("2 jobs closed for 60 days pruned")


@pytest.mark.usefixtures("_store")
def test_hours_are_pruned_and_what_is_verified_says_since_when(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now_us = NOON + 99 * DAY_US
    monkeypatch.setattr("ett_service.cli.operations.database.now_us", lambda: now_us)
    compared = answer(capsys, "verify", "--fleet")
    assert compared["hourly_from"] is None

    planned = answer(capsys, "prune", "--hourly-days", "60", "--dry-run")
    assert (planned["days"], planned["jobs"], planned["hourly_days"]) == (None, 0, 60)
    assert planned["hourly_before"] == "2026-04-09"
    assert planned["hourly_bytes"] > 0
    assert main(["prune", "--hourly-days", "60", "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("Sums by hour before 2026-04-09 would be pruned, about ")
    assert said.endswith("iB; those by day stay.\n")
    assert answer(capsys, "verify", "--fleet") == compared

    assert main(["prune", "--hourly-days", "60"]) == 1
    refused = capsys.readouterr().err
    assert "the fleet will lose its sums by hour before 2026-04-09 for good" in refused
    assert "jobs closed" not in refused
    assert main(["prune", "--hourly-days", "60", "--yes"]) == 0
    assert re.fullmatch(
        r"Sums by hour before 2026-04-09 pruned, \d+ rows; those by day stay\.\n",
        capsys.readouterr().out,
    )

    assert answer(capsys, "prune", "--hourly-days", "60", "--dry-run")["hourly_bytes"] == 0
    verified = answer(capsys, "verify", "--fleet")
    assert verified["hourly_from"] == "2026-04-09T00:00:00.000000Z"
    assert (verified["differences"], verified["pruned"]) == ([], 0)
    assert 0 < verified["cells"] < compared["cells"]
    assert main(["verify", "--fleet"]) == 0
    assert "Hours before 2026-04-09 were not compared" in capsys.readouterr().err


@ON_ONE_ENGINE
@pytest.mark.usefixtures("_store")
def test_both_are_pruned_where_the_settings_say_so_but_no_hours_that_are_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ETT_RETENTION_DAYS", "60")
    monkeypatch.setenv("ETT_ROLLUPS", '{"hourly_days": 70}')
    assert main(["prune", "--dry-run"]) == 0
    assert re.fullmatch(
        r"2 jobs closed for 60 days would be pruned: .*\nSums by hour before .*\n",
        capsys.readouterr().out,
    )
    assert main(["prune", "--hourly-days", "56", "--yes"]) == 1
    assert "--hourly-days may be 57 or more" in capsys.readouterr().err
    pruned = answer(capsys, "prune", "--yes")
    assert (pruned["jobs"], pruned["days"], pruned["hourly_days"]) == (2, 60, 70)
    assert pruned["rows"] > 0
    assert pruned["hourly_rows"] > 0
