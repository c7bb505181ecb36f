import json
import sqlite3
from contextlib import closing

import pytest

from ett_service.cli.main import main
from tests.cli.conftest import Served


@pytest.fixture
def _copy(served: Served) -> None:
    """Copy the server's database into the test's folder, where the settings look for it."""
    source = served.database_url.removeprefix("sqlite:///")
    with (
        closing(sqlite3.connect(f"file:{source}?mode=ro", uri=True)) as kept,
        closing(sqlite3.connect("ett.db")) as own,
    ):
        kept.backup(own)
        own.execute("UPDATE job_ledger SET failures = 7")
        own.execute("UPDATE rollup_daily SET failures = 7")
        own.commit()


@pytest.mark.usefixtures("_copy")
def test_numbers_that_were_changed_are_put_right(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "--fleet"]) == 3
    capsys.readouterr()

    assert main(["recompute", "--json", "--processes", "1"]) == 0

    said = json.loads(capsys.readouterr().out)
    assert said["jobs"] >= 1
    assert said["events"] >= said["jobs"]
    assert main(["verify", "--fleet"]) == 0


def test_a_file_that_a_server_writes_is_left_to_it(
    served: Served, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ETT_DATABASE_URL", served.database_url)

    assert main(["recompute"]) == 1

    said = capsys.readouterr()
    assert said.out == ""
    assert "Another process is writing" in said.err
    assert "Stop the other process" in said.err


def test_a_number_of_processes_is_one_or_more(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["recompute", "--processes", "0"])

    assert "1 or more" in capsys.readouterr().err
