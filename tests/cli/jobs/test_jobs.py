import json

import pytest

from ett_service.cli.main import main
from tests.cli.conftest import Served, eventually


@pytest.fixture(autouse=True)
def _server_in_the_environment(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ETT_URL", served.url)
    monkeypatch.setenv("ETT_API_KEY", served.key)


def test_jobs_are_listed_with_their_headline_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["jobs"]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split()[:3] == ["job", "state", "ETT%"]
    (row,) = (row.split() for row in rows if row.startswith("llm-7b"))
    assert row[1:] == [
        "finished", "50.00%", "0:09:20.0", "0:02:00.0", "1", "8", "2026-03-01", "08:00:00"
    ]  # fmt: skip


def test_filters_leave_jobs_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["jobs", "--team", "pretraining", "--json"]) == 0
    assert [job["job"] for job in json.loads(capsys.readouterr().out)] == ["llm-7b"]
    assert main(["jobs", "--team", "nobody", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_an_empty_list_says_how_to_begin(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["jobs", "--team", "nobody"]) == 0
    assert "ett run" in capsys.readouterr().out


def test_a_list_longer_than_a_page_is_read_to_its_end(
    served: Served, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ett_service.cli.jobs.jobs._PAGE", 2)
    at = "2026-02-01T00:00:00Z"
    begun = [{"job": f"many-{n}", "type": "attempt_started", "at": at} for n in range(5)]
    served.ask("POST", "/v1/events", {"history": True, "events": begun})
    eventually(lambda: all(served.knows(event["job"]) for event in begun))
    main(["jobs", "--q", "many-", "--sort", "job", "--json"])
    found = [job["job"] for job in json.loads(capsys.readouterr().out)]
    assert found == [f"many-{n}" for n in range(5)]
    main(["jobs", "--q", "many-", "--limit", "3", "--json"])
    assert len(json.loads(capsys.readouterr().out)) == 3
