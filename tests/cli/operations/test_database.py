import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ett_service.cli.main import main
from ett_service.storage.engine.store import open_store
from tests.builders.servers.ett import Server


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
