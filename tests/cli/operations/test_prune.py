"""``ett prune`` on a store of its own."""

import json
from contextlib import closing
from typing import Any

import pytest

from ett_service.cli.main import main
from ett_service.core.intervals import DAY_US
from ett_service.storage.engine.store import open_store
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.storage.record.keys import create_project
from tests.builders.clock import RECEIVED_AT
from tests.builders.databases.engines import ON_ONE_ENGINE
from tests.storage.test_retention import closed_job, fold


@pytest.fixture
def _store(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ETT_DATABASE_URL", database_url)
    monkeypatch.setattr(
        "ett_service.cli.operations.prune.now_us", lambda: RECEIVED_AT + 99 * DAY_US
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

    done = answer(capsys, "prune", "--days", "60")

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
    assert main(["prune"]) == 0
    assert capsys.readouterr().out.startswith("2 jobs closed for 60 days pruned")
