import shutil
import socket
import subprocess
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.builders.kubernetes import at
from tests.builders.servers.ett import Server
from tests.builders.servers.processes import bare_environment, run
from tests.builders.servers.waiting import wait_for
from tests.examples.slurm import Hooks, beginning, end


@pytest.fixture
def hooks(server: Server, tmp_path: Path) -> Hooks:
    """Install the scripts for the server."""
    return Hooks.install(tmp_path / "ett", server.url, server.key)


def _attempts(server: Server, job: str, count: int) -> list[dict[str, Any]]:
    answer = server.reaches(
        f"/v1/jobs/{job}",
        lambda job: len(job["attempts"]) == count and job["attempts"][-1]["outcome"] != "running",
    )
    attempts: list[dict[str, Any]] = answer["attempts"]
    return attempts


def _life(hooks: Hooks, job: int, state: str, exit_code: str = "0:0", restarts: int = 0) -> None:
    hooks.run("prolog.sh", beginning(job, restarts=restarts))
    hooks.run("epilog.sh", end(job, state, exit_code))


def test_each_state_of_slurm_has_its_outcome(server: Server, hooks: Hooks) -> None:
    ends = {
        "COMPLETED": ("0:0", "completed", None),
        "FAILED": ("3:0", "failed", "unknown"),
        "NODE_FAIL": ("0:0", "failed", "infra"),
        "OUT_OF_MEMORY": ("0:125", "failed", "user"),
        "PREEMPTED": ("0:0", "preempted", "preemption"),
        "CANCELLED": ("0:15", "cancelled", None),
        "REQUEUED": ("0:0", "cancelled", None),
    }
    for number, (state, (exit_code, _, _)) in enumerate(ends.items(), 1):
        hooks.run("prolog.sh", beginning(number, state))
        hooks.run("epilog.sh", end(number, state, exit_code))
    for state, (exit_code, outcome, origin) in ends.items():
        (attempt,) = _attempts(server, state, 1)
        assert (attempt["outcome"], attempt["origin"]) == (outcome, origin), state
        events = server.get(f"/v1/jobs/{state}/events")["events"]
        ended = [event for event in events if event["type"] == "attempt_ended"]
        code, signal = map(int, exit_code.split(":"))
        assert [event["exit_code"] for event in ended] == [code]
        assert [event.get("signal", 0) for event in ended] == [signal]
        over = [event["type"] for event in events if event["type"] == "job_ended"]
        assert len(over) == (state == "COMPLETED"), state


def test_a_job_that_is_preempted_and_fails_has_an_attempt_for_each(
    server: Server, hooks: Hooks
) -> None:
    hooks.run("prolog.sh", beginning(80))
    # Slurm counts the restart before it tells of the end, and its requeue is a submission.
    hooks.run("epilog.sh", {**end(80, "PREEMPTED", waited=90), "SLURM_JOB_RESTART_COUNT": 1})
    _life(hooks, 80, "FAILED", "0:9", restarts=1)
    _life(hooks, 81, "COMPLETED")
    attempts = _attempts(server, "llm", 3)
    facts = [(each["launch"], each["attempt"], each["outcome"], each["gpus"]) for each in attempts]
    assert facts == [
        ("80", 0, "preempted", 16),
        ("80", 1, "failed", 16),
        ("81", 0, "completed", 16),
    ]
    job = server.get("/v1/jobs/llm")
    assert (job["state"], job["failures"], job["infra_failures"]) == ("finished", 2, 1)
    assert (job["owner"], job["cluster"], job["team"]) == ("ada", "tiny", None)
    assert 88 < job["queue_wait_seconds"] <= 90
    hooks.delivered()
    assert list((hooks.spool / "refused").iterdir()) == []


@pytest.mark.parametrize("why", ["STATEREASONPREV", "ORIG_DEPENDENCY"])
def test_waiting_for_another_job_is_no_queueing(server: Server, hooks: Hooks, why: str) -> None:
    hooks.run("prolog.sh", beginning(85))
    hooks.run("epilog.sh", {**end(85, "FAILED", waited=90), why: "Dependency"})
    _attempts(server, "llm", 1)
    assert server.get("/v1/jobs/llm")["queue_wait_seconds"] == 0
    assert _waited(server) == [
        ("Dependency" if why == "STATEREASONPREV" else "deferred", 90),
        ("", 0),
    ]


def _waited(server: Server) -> list[tuple[str, int]]:
    """The stages and seconds of what it waited."""
    events = server.get("/v1/jobs/llm/events")["events"]
    spans = [each for each in events if each.get("phase") == "queued"]
    return sorted(
        ((each.get("stage", ""), round(at(each["at"]) - at(each["start"]))) for each in spans),
        reverse=True,
    )


@pytest.mark.parametrize("is_the_next_life", [False, True])
def test_waiting_for_nodes_after_another_job_is_queueing(
    server: Server, hooks: Hooks, tmp_path: Path, is_the_next_life: bool
) -> None:
    """Slurm knows since when, unless it holds the next life of the job already."""
    ended = end(85, "FAILED", waited=90) | {"ORIG_DEPENDENCY": "afterany:84"}
    begun = int(str(ended["START"]))
    submitted = begun - 90 + is_the_next_life
    times = [datetime.fromtimestamp(each).isoformat() for each in (submitted, begun - 30)]  # noqa: DTZ006 -- as Slurm prints it
    line = "JobId={} JobName=a Restarts=0 SubmitTime={} EligibleTime={} AccrueTime=Unknown"
    lines = [line.format(number, *times) for number in (84, 85)]
    (program := tmp_path / "scontrol").write_text(
        "#!/bin/sh\ncat << END\n" + "\n".join(lines) + "\nEND\n"
    )
    program.chmod(0o755)
    hooks.run("prolog.sh", beginning(85))
    hooks.run("epilog.sh", {**ended, "PATH": f"{tmp_path}:/usr/bin:/bin"})
    _attempts(server, "llm", 1)
    assert server.get("/v1/jobs/llm")["queue_wait_seconds"] == (0 if is_the_next_life else 30)
    assert _waited(server) == (
        [("deferred", 90), ("", 0)] if is_the_next_life else [("deferred", 60), ("", 30)]
    )


def test_components_of_a_heterogeneous_job_are_one_attempt(server: Server, hooks: Hooks) -> None:
    for component in (0, 1):
        place = {"SLURM_HET_JOB_ID": 86, "SLURM_HET_JOB_OFFSET": component}
        hooks.run("prolog.sh", beginning(86 + component) | place)
    for component in (1, 0):
        hooks.run("epilog.sh", end(86 + component, "COMPLETED"))
    (attempt,) = _attempts(server, "llm", 1)
    assert (attempt["launch"], attempt["gpus"]) == ("86", None)


def test_ett_run_would_have_sent_the_same(server: Server, hooks: Hooks, tmp_path: Path) -> None:
    _life(hooks, 90, "FAILED", "3:0", restarts=2)
    environment = {
        **bare_environment(),
        "ETT_URL": server.url,
        "ETT_API_KEY": server.key,
        "ETT_SPOOL": str(tmp_path / "client"),
        "SLURM_JOB_ID": "90",
        "SLURM_RESTART_COUNT": "2",
    }
    command = ("run", "--job", "by-client", "--", "sh", "-c", "exit 3")
    assert run(*command, environment=environment).returncode == 3
    (ours,), (theirs,) = (_attempts(server, job, 1) for job in ("llm", "by-client"))
    members = ("number", "launch", "attempt", "cycle", "outcome", "origin", "cause")
    assert [ours[member] for member in members] == [theirs[member] for member in members]
    states = [server.get(f"/v1/jobs/{job}")["state"] for job in ("llm", "by-client")]
    assert states == ["interrupted", "interrupted"]


def test_an_outage_loses_nothing_and_a_retry_counts_nothing_twice(
    server: Server, hooks: Hooks, tmp_path: Path
) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        hooks.point_at(f"http://127.0.0.1:{nobody.getsockname()[1]}", server.key)
        _life(hooks, 7, "FAILED", "1:0")
        _life(hooks, 7, "COMPLETED", restarts=1)
        hooks.run("deliver.sh")
        assert len(hooks.unsent) == 4
    shutil.copytree(hooks.spool / "unsent", tmp_path / "again")
    hooks.point_at(server.url, server.key)
    hooks.run("deliver.sh")
    assert hooks.unsent == []
    whole = _attempts(server, "llm", 2)
    shutil.copytree(tmp_path / "again", hooks.spool / "unsent", dirs_exist_ok=True)
    hooks.run("deliver.sh")
    assert hooks.unsent == []
    assert list((hooks.spool / "refused").iterdir()) == []
    assert _attempts(server, "llm", 2) == whole
    assert [attempt["outcome"] for attempt in whole] == ["failed", "completed"]


def test_a_server_that_hangs_holds_nobody_up_and_no_process_shows_the_key(
    server: Server, hooks: Hooks
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        hooks.point_at(f"http://127.0.0.1:{listener.getsockname()[1]}", server.key)
        hooks.run("prolog.sh", beginning(5))
        connection, _ = listener.accept()
        with connection:
            assert server.key.encode() in connection.recv(65536)
            posting = wait_for(lambda: _command_lines(str(hooks.spool)))
            assert not any(server.key in line for line in _command_lines(""))
            assert any("curl" in line for line in posting)
        assert hooks.curl.stat().st_mode & 0o777 == 0o600
    assert len(hooks.unsent) == 1


def _command_lines(holding: str) -> list[str]:
    lines = subprocess.run(
        ["ps", "-ww", "-eo", "args"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return [line for line in lines if holding in line]


def test_what_the_service_refuses_is_kept_and_holds_nothing_up(
    server: Server, hooks: Hooks
) -> None:
    (hooks.spool / "unsent").mkdir(parents=True)
    (hooks.spool / "unsent" / "0.json").write_text("{")
    _life(hooks, 6, "COMPLETED")
    _attempts(server, "llm", 1)
    hooks.delivered()
    assert [path.name for path in sorted((hooks.spool / "refused").iterdir())] == [
        "0.json",
        "0.json.answer",
    ]


def test_a_wrong_key_keeps_what_it_could_not_send(server: Server, hooks: Hooks) -> None:
    hooks.point_at(server.url, "ett_wrong")
    hooks.run("prolog.sh", beginning(6))
    hooks.run("deliver.sh")
    assert len(hooks.unsent) == 1


def test_a_name_is_what_the_settings_make_of_it(server: Server, hooks: Hooks) -> None:
    hooks.run("prolog.sh", beginning(3, 'a"b/c\\é', SLURM_ARRAY_TASK_ID=7))
    hooks.run("epilog.sh", end(3, "COMPLETED"))
    (attempt,) = _attempts(server, "a_b_c___-7", 1)
    assert attempt["launch"] == "3"
    hooks.delivered()
    with (hooks.folder / "settings.sh").open("a") as settings:
        settings.write("job_of() { :; }\n")
    hooks.run("prolog.sh", beginning(4))
    hooks.run("epilog.sh", end(4, "COMPLETED"))
    assert hooks.unsent == []
    assert not (hooks.spool / "running" / "4").exists()


def test_a_part_of_a_chain_does_not_end_its_job(server: Server, hooks: Hooks) -> None:
    hooks.run("prolog.sh", beginning(3, "llm-part1"))
    hooks.run("epilog.sh", end(3, "COMPLETED"))
    _attempts(server, "llm-part1", 1)
    types = {event["type"] for event in server.get("/v1/jobs/llm-part1/events")["events"]}
    assert "job_ended" not in types


@pytest.mark.parametrize("fault", ["no settings", "broken settings", "no spool", "no environment"])
def test_whatever_is_wrong_the_job_goes_on(hooks: Hooks, fault: str) -> None:
    settings = hooks.folder / "settings.sh"
    match fault:
        case "no settings":
            settings.unlink()
        case "broken settings":
            settings.write_text("if\n")
        case "no spool":
            hooks.spool.write_text("")
        case _:
            pass
    given = (beginning(1), end(1, "FAILED", "1:0")) if fault != "no environment" else ({}, {})
    for script, environment in zip(("prolog.sh", "epilog.sh"), given, strict=True):
        done = subprocess.run(
            [hooks.folder / script],
            env={name: str(value) for name, value in environment.items()},
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, script
