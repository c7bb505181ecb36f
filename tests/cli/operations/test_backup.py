"""``ett backup`` on a database of its own."""

import json
from contextlib import closing
from pathlib import Path

import pytest

from ett_service.cli.main import main
from ett_service.storage.engine.store import open_for_reading, open_store
from ett_service.storage.record.events import store_epoch
from tests.builders.databases.engines import ON_ONE_ENGINE


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
