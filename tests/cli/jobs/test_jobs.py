import json

import pytest

from ett_service.cli.main import main
from tests.builders.servers.ett import Server
from tests.builders.servers.waiting import wait_for

pytestmark = pytest.mark.usefixtures("in_environment")


def test_jobs_are_listed_with_their_headline_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["jobs"]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split()[:3] == ["job", "state", "ETT%"]
    (row,) = (row.split() for row in rows if row.startswith("llm-7b"))
    assert row[1:] == [
        "finished", "50.00%", "0:09:20.0", "1", "2026-03-01", "08:00:00", "0:02:00.0", "8", "-",
        "0.6",
    ]  # fmt: skip


def test_filters_leave_jobs_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["jobs", "--team", "pretraining", "--json"]) == 0
    assert [job["job"] for job in json.loads(capsys.readouterr().out)] == ["llm-7b"]
    for nobodys in (["--team", "nobody"], ["--cause", "silent_corruption"]):
        assert main(["jobs", *nobodys, "--json"]) == 0
        assert json.loads(capsys.readouterr().out) == []


def test_an_empty_list_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["jobs", "--team", "nobody"]) == 0
    assert "No job meets these conditions." in capsys.readouterr().out


def test_a_list_longer_than_a_page_is_read_to_its_end(
    served: Server, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ett_service.cli.remote._PAGE", 2)
    at = "2026-02-01T00:00:00Z"
    begun = [{"job": f"many-{n}", "type": "attempt_started", "at": at} for n in range(5)]
    served.ask("POST", "/v1/events", {"history": True, "events": begun})
    wait_for(lambda: all(served.knows(event["job"]) for event in begun))
    main(["jobs", "--q", "many-", "--sort", "job", "--json"])
    names = [job["job"] for job in json.loads(capsys.readouterr().out)]
    assert names == [f"many-{n}" for n in range(5)]
    main(["jobs", "--q", "many-", "--limit", "3", "--json"])
    assert len(json.loads(capsys.readouterr().out)) == 3
