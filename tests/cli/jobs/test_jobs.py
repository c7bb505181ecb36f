import json
import os
import re
from collections.abc import Callable
from typing import Any

import pytest

from ett_service.cli.main import main
from ett_service.cli.verb import now_us
from ett_service.core.intervals import rfc3339
from tests.builders import terminal
from tests.builders.servers.ett import Server
from tests.builders.servers.processes import ETT
from tests.builders.servers.waiting import wait_for
from tests.cli.conftest import story

pytestmark = pytest.mark.usefixtures("in_environment")

#: Without its facts: other tests list the jobs of that team.
EVENTS = [event for event in story() if event["type"] != "job"]


def test_jobs_are_listed_with_their_headline_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["jobs"]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split()[:3] == ["job", "state", "ETT%"]
    (row,) = (row.split() for row in rows if row.startswith("llm-7b"))
    assert row[1:] == [
        "finished", "50.00%", "9m", "20s", "1", "2026-03-01", "08:00:00", "2m", "00s", "8", "-",
        "0.6", "1m", "30s", "2026-03-01", "08:09:20",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("sort", "heading"),
    [("-lost_gpu_seconds", "lost"), ("-unsaved_training_seconds", "unsaved"), ("job", None)],
)
@pytest.mark.usefixtures("served")
def test_a_narrow_terminal_keeps_the_column_that_jobs_are_sorted_by(
    sort: str, heading: str | None
) -> None:
    shown = terminal.shown([ETT, "jobs", "--sort", sort], 60, {**os.environ, "NO_COLOR": "1"})
    table, _, left_out = shown.partition("(too narrow for:")
    assert left_out
    assert [each for each in ("lost", "unsaved") if each in table] == [*filter(None, [heading])]


def test_a_job_that_only_queued_has_no_ratio_of_its_empty_time(
    served: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    event = {"job": "only-queued", "type": "phase_started", "phase": "queued"}
    served.ask("POST", "/v1/events", {"events": [{**event, "at": rfc3339(now_us())}]})
    wait_for(lambda: served.knows("only-queued"))

    assert main(["jobs", "--q", "only-queued"]) == 0
    row = capsys.readouterr().out.splitlines()[1]
    assert row.split()[:5] == ["only-queued", "queued", "-", "-", "0"]
    assert main(["job", "only-queued"]) == 0
    _, head, row, *_ = capsys.readouterr().out.splitlines()
    assert head.split()[:2] == ["ETT%", "E2E"]
    assert row.split() == ["-", "-", "-", "0", "0", "-", "0.0s"]

    assert main(["jobs", "--q", "only-queued", "--json"]) == 0
    (job,) = json.loads(capsys.readouterr().out)
    assert (job["ett_ratio"], job["e2e_seconds"]) == (0, 0)


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


@pytest.fixture
def new_job(served: Server) -> Callable[[str], str]:
    """Return a function that sends a job of a name, and waits for its numbers."""

    def send(job: str) -> str:
        events = [{**event, "job": job} for event in EVENTS]
        served.ask("POST", "/v1/events", {"history": True, "events": events})
        wait_for(lambda: served.knows(job))
        return job

    return send


def first_attempt(served: Server, job: str) -> dict[str, Any]:
    attempt: dict[str, Any] = served.ask("GET", f"/v1/jobs/{job}")["attempts"][0]
    return attempt


def test_a_verdict_is_shown_beside_the_rules_and_taken_back(
    served: Server, new_job: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    job = new_job("judged")
    ruled = first_attempt(served, job)
    because = ("--why", "a switch was down")

    assert main(["jobs", "verdict", job, "0", "--cause", "network", *because]) == 0
    assert capsys.readouterr().out == "Attempt 0 of judged: infra: network.\n"
    wait_for(lambda: first_attempt(served, job)["verdict"] is not None)
    main(["job", job])
    rules = f"the rules: {ruled['origin']}: {ruled['cause']}"
    assert f"infra: network (verdict; {rules})" in capsys.readouterr().out

    assert main(["jobs", "verdict", job, "0", "--take-back"]) == 0
    wait_for(lambda: first_attempt(served, job) == ruled)
    capsys.readouterr()
    assert main(["jobs", "corrections", job]) == 0
    (row,) = capsys.readouterr().out.splitlines()[1:]
    assert re.match(r"verdict infra: network +-/0/0 +20\d\d-\S+ \S+ +.+ +20\d\d-", row)
    assert row.endswith("a switch was down")


def test_an_exclusion_is_shown_with_its_window_and_taken_back(
    new_job: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    job = new_job("excluded")
    window = ("--from", "2026-03-01T08:02:00Z", "--to", "2026-03-01T08:05:00Z")

    assert main(["jobs", "exclude", job, *window, "--why", "a drill"]) == 0
    assert capsys.readouterr().out == "excluded is excluded from the fleet's numbers.\n"
    main(["job", job])
    row = r"2026-03-01 08:02:00 +2026-03-01 08:05:00 +.+ +a drill\n"
    assert re.search(row, capsys.readouterr().out)

    several = ("--window", "/2026-03-01T08:03:00Z", "--window", "2026-03-01T08:09:00Z/")
    assert main(["jobs", "exclude", job, *several, "--why", "two drills", "--json"]) == 0
    exclusions = json.loads(capsys.readouterr().out)["exclusions"]
    assert [(exclusion["from"] or exclusion["to"])[14:16] for exclusion in exclusions] == [
        "03",
        "09",
    ]

    assert main(["jobs", "include", job]) == 0
    assert capsys.readouterr().out == "excluded counts again.\n"
    assert main(["jobs", "include", job]) == 1
    assert "No exclusion is in force." in capsys.readouterr().err
    assert main(["jobs", "corrections", job, "--json"]) == 0
    history = json.loads(capsys.readouterr().out)
    assert [entry["why"] for entry in history] == ["a drill", "two drills", "two drills"]
    assert all(entry["taken_back_at"] for entry in history)


def test_jobs_are_deleted_once_somebody_confirms_it(
    served: Server, new_job: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    doomed = [new_job("doomed-1"), new_job("doomed-2")]

    assert main(["jobs", "delete", *doomed, "--dry-run"]) == 0
    assert re.search(rf"doomed-1 +{len(EVENTS)} +2 +0\n", capsys.readouterr().out)
    assert all(served.knows(job) for job in doomed)

    assert main(["jobs", "delete", *doomed]) == 1
    refused = capsys.readouterr()
    assert refused.out == ""
    assert f"2 jobs with {2 * len(EVENTS)} events will be deleted for good" in refused.err
    assert all(served.knows(job) for job in doomed)

    assert main(["jobs", "delete", "doomed-1", "no such job", "--yes"]) == 1
    assert all(served.knows(job) for job in doomed)

    capsys.readouterr()
    assert main(["jobs", "delete", *doomed, "--yes", "--json"]) == 0
    assert [job["deleted"] for job in json.loads(capsys.readouterr().out)] == [True, True]
    assert not any(served.knows(job) for job in doomed)


def test_a_job_without_corrections_is_reported_as_such(
    new_job: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["jobs", "corrections", new_job("untouched")]) == 0
    assert capsys.readouterr().out == "The record of untouched has no corrections.\n"


def test_a_refusal_is_printed_in_one_line(
    new_job: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    job = new_job("refused")
    assert main(["jobs", "verdict", job, "1", "--cause", "data", "--why", "x"]) == 1
    assert "Attempt 1 did not fail: its outcome is completed." in capsys.readouterr().err
    assert main(["jobs", "verdict", job, "0", "--cause", "data"]) == 1
    assert "/why: missing_member." in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main(["jobs", "exclude", job, "--window", "2026-03-01T08:03:00Z", "--why", "x"])
    assert "FROM/TO" in capsys.readouterr().err
