"""``ett watch``, as people call it."""

import json
import signal
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ett_service.cli.main import main
from tests.builders.servers.accounting import Accounting, accounting
from tests.builders.servers.ett import Server
from tests.builders.servers.processes import Running, bare_environment
from tests.builders.servers.waiting import wait_for
from tests.builders.servers.web import Received, Reply, accepting, serving

RUNNING = {"State": "RUNNING", "End": "Unknown"}


def just_now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S")


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Accounting:
    return accounting(tmp_path, monkeypatch)


def test_one_look_sends_what_slurm_knows_as_news(
    slurm: Accounting, capsys: pytest.CaptureFixture[str]
) -> None:
    slurm.holds(RUNNING)
    with serving() as web:
        code = main(["watch", "slurm", "--once", "--url", web.url, "--key", "ett_k", "--json"])
        got, *_ = web.received
    printed = capsys.readouterr()
    assert code == 0
    assert got.batch["history"] is False
    assert {event["job"] for event in got.batch["events"]} == {"llm"}
    report = json.loads(printed.out)
    assert (report["jobs"], report["news"], report["events"]) == (1, 1, len(web.events))
    assert printed.err.startswith("ett: watching Slurm: 1 jobs, 1 new or changed, ")


def test_one_look_in_vain_is_a_failure_and_says_why(
    slurm: Accounting, capsys: pytest.CaptureFixture[str]
) -> None:
    slurm.holds(RUNNING)
    assert main(["watch", "slurm", "--once", "--url", "http://127.0.0.1:9"]) == 1
    assert "http://127.0.0.1:9: the server cannot be reached" in capsys.readouterr().err
    slurm.holds(trouble="sacct: error: no database")
    with serving() as web:
        assert main(["watch", "slurm", "--once", "--url", web.url]) == 1
        assert web.received == []
    assert "sacct failed: sacct: error: no database; nothing is lost" in capsys.readouterr().err


def test_a_key_that_may_not_write_ends_it(
    slurm: Accounting, capsys: pytest.CaptureFixture[str]
) -> None:
    slurm.holds(RUNNING)
    forbidden = Reply(403, b'{"title": "Forbidden", "detail": "no"}')
    with serving(lambda _: forbidden) as web:
        assert main(["watch", "slurm", "--once", "--url", web.url]) == 5
    assert "Forbidden" in capsys.readouterr().err


def test_a_refused_event_is_named_and_does_not_hold_up_the_rest(
    slurm: Accounting, capsys: pytest.CaptureFixture[str]
) -> None:
    slurm.holds({"Start": "2996-03-01T12:00:00", **RUNNING}, {"JobID": "9", **RUNNING})
    with serving() as web:
        assert main(["watch", "slurm", "--once", "--url", web.url]) == 0
        assert {event["launch"] for event in web.events} == {"9"}
    assert "ett: refused: sacct:2: timestamp_out_of_range" in capsys.readouterr().err


def test_it_survives_outages_sends_the_end_and_stops_on_sigterm(slurm: Accounting) -> None:
    slurm.holds(RUNNING)
    is_down = True

    def answer(received: Received) -> Reply:
        return Reply(500) if is_down else accepting(received)

    with serving(answer) as web:
        options = ("--every", "0.1s", "--since", "1000d", "--url", web.url)
        watcher = Running("watch", "slurm", *options, environment=bare_environment())
        try:
            wait_for(lambda: len(web.received) > 1)
            is_down = False
            wait_for(lambda: "llm" in {event["job"] for event in web.events})
            slurm.holds(trouble="sacct: error: away")
            wait_for(lambda: "sacct failed: sacct: error: away" in watcher.err)
            slurm.holds({"State": "FAILED", "ExitCode": "1:0", "End": just_now()})
            wait_for(lambda: any(event["type"] == "attempt_ended" for event in web.events))
            watcher.send_signal(signal.SIGTERM)
            assert watcher.wait() == 0
        finally:
            watcher.kill()
    assert watcher.err.count("status 500") == watcher.err.count("away; nothing is lost") == 1


def test_what_is_sent_by_two_watchers_is_the_same(slurm: Accounting) -> None:
    slurm.holds(RUNNING | {"Start": "2026-03-01T12:00:00"})
    bodies = []
    for _ in range(2):
        with serving() as web:
            main(["watch", "slurm", "--once", "--url", web.url])
            bodies.append({event["id"] for event in web.events if event["type"] != "heartbeat"})
    assert bodies[0] == bodies[1] != set()


@pytest.mark.parametrize("template", ["{host}", "{name", "{0}"])
def test_a_template_with_another_field_is_refused(
    template: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["watch", "slurm", "--name", template])
    assert "has fields other than {name} {id} {cluster}" in capsys.readouterr().err


@pytest.mark.usefixtures("in_environment")
def test_a_launch_of_another_cluster_stays_refused_as_it_goes_on(
    slurm: Accounting, served: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its end alone, which is all that is news at the second look, is not taken for the other's."""
    job = {"JobName": "two-clusters", **RUNNING}
    ended = {**job, "State": "COMPLETED", "End": just_now()}
    slurm.holds(job)
    assert main(["watch", "slurm", "--once", "--since", "9999d"]) == 0
    slurm.holds({**job, "Cluster": "beta"})
    watcher = Running(
        "watch", "slurm", "--every", "0.1s", "--since", "9999d",
        environment=bare_environment() | {"ETT_URL": served.url, "ETT_API_KEY": served.key},
    )  # fmt: skip
    try:
        wait_for(lambda: "launch 8041 of job two-clusters is recorded of another" in watcher.err)
        slurm.holds({**ended, "Cluster": "beta"}, {**ended, "JobID": "9", "JobName": "after"})
        wait_for(lambda: served.knows("after"))
    finally:
        watcher.kill()
    types = {event["type"] for event in served.get("/v1/jobs/two-clusters/events")["events"]}
    assert types == {"job", "phase_started", "phase_ended", "span", "attempt_started", "heartbeat"}
    assert capsys.readouterr().err.count("refused") == 0


@pytest.mark.usefixtures("in_environment")
def test_a_job_that_its_trainer_reports_under_its_id_is_named_until_both_agree(
    slurm: Accounting, served: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    started = {"type": "attempt_started", "launch": "77", "at": "2026-03-01T12:00:00Z"}
    served.send([{**started, "job": "slurm-77"}])
    wait_for(lambda: served.knows("slurm-77"))
    slurm.holds({"JobID": "77", "JobName": "train", **RUNNING}, {"JobID": "78", **RUNNING})
    once = ["watch", "slurm", "--once", "--since", "9999d"]
    assert main(once) == 0
    why = "slurm-77, as its trainer calls it, and train are one job told twice: give trainers"
    assert f"ett: {why} ETT_JOB=$SLURM_JOB_NAME, or" in capsys.readouterr().err
    assert main([*once, "--name", "slurm-{id}"]) == 0
    assert "twice" not in capsys.readouterr().err
