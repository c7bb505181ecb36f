"""``ett run`` and ``ett sync`` as users type them."""

import json
import signal
import socket
import subprocess
import sys
import time
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from ett_service.client.launching.launcher import instants
from tests.builders.servers.waiting import PATIENCE_S
from tests.builders.servers.web import Reply, serving
from tests.builders.trainers import environment, run_ett, run_trainer, spooled


def endings(events: list[dict[str, object]]) -> list[tuple[object, object, object]]:
    return [
        (event["outcome"], event.get("exit_code"), event.get("signal"))
        for event in events
        if event["type"] == "attempt_ended"
    ]


@pytest.mark.parametrize(
    ("script", "code", "ending"),
    [
        ("exit 0", 0, ("completed", 0, None)),
        ("exit 3", 3, ("failed", 3, None)),
        ("kill -9 $$", 137, ("failed", None, 9)),
        ("kill -SEGV $$", 139, ("failed", None, 11)),
    ],
)
def test_the_exit_of_any_command_is_passed_on_and_recorded(
    tmp_path: Path, script: str, code: int, ending: tuple[object, object, object]
) -> None:
    with serving() as web:
        done = run_ett(environment(tmp_path, web.url), "run", "--", "sh", "-c", script)
        assert done.returncode == code
        assert endings(web.events) == [ending]
        assert all("cycle" not in event for event in web.events)


def test_a_trainer_and_its_launcher_speak_of_one_attempt(tmp_path: Path) -> None:
    trainer = "import ett_service as ett, os; ett.init(); os.kill(os.getpid(), 9)"
    with serving() as web:
        env = environment(tmp_path, web.url)
        run_ett(env, "run", "--", sys.executable, "-c", trainer)
        events = web.events
    assert {event["type"] for event in events} >= {"phase_started", "attempt_ended"}
    assert len({event["launch"] for event in events}) == 1
    assert len({event["producer"] for event in events}) == 2


@pytest.mark.parametrize(("code", "stages"), [(0, [None, "process_exit"]), (3, [])])
def test_how_long_the_processes_take_to_go_is_shutdown_if_they_end_well(
    tmp_path: Path, code: int, stages: list[str | None]
) -> None:
    trainer = f"""import atexit, sys, time
atexit.register(time.sleep, 0.3)
import ett_service as ett
ett.init()
sys.exit({code})
"""
    with serving() as web:
        env = environment(tmp_path, web.url)
        run_ett(env, "run", "--", sys.executable, "-c", trainer)
        going = [event for event in web.events if event.get("phase") == "shutdown"]
    assert [event.get("stage") for event in going] == stages
    for event in going:
        began = datetime.fromisoformat(event["start"])
        assert datetime.fromisoformat(event["at"]) - began > timedelta(seconds=0.3)


def test_a_job_named_only_by_its_code_is_still_recorded(tmp_path: Path) -> None:
    trainer = "import ett_service as ett, os; ett.init('inner'); os.kill(os.getpid(), 9)"
    with serving() as web:
        env = environment(tmp_path, web.url, ETT_JOB="")
        assert run_ett(env, "run", "--", sys.executable, "-c", trainer).returncode == 137
        assert {event["job"] for event in web.events} == {"inner"}
        assert endings(web.events) == [("failed", None, 9)]


@pytest.mark.parametrize("command", ["sh", sys.executable])
def test_an_allocation_is_reported_once_by_the_trainer_or_for_it(
    tmp_path: Path, command: str
) -> None:
    code = "import ett_service as ett; ett.init()" if command == sys.executable else "exit 0"
    began = str(int(time.time()) - 40)
    with serving() as web:
        env = environment(tmp_path, web.url, SLURM_JOB_ID="8041", SLURM_JOB_START_TIME=began)
        run_ett(env, "run", "--", command, "-c", code)
        (setup,) = (event for event in web.events if event.get("phase") == "hardware_setup")
        (launcher,) = {e["producer"] for e in web.events if e["type"] == "job_ended"}
    assert (setup["producer"] == launcher) is (command == "sh")


def test_machines_are_counted_for_a_command_that_records_nothing(tmp_path: Path) -> None:
    slurm = {"SLURM_JOB_ID": "8041", "SLURM_GPUS_ON_NODE": "8", "SLURM_JOB_NUM_NODES": "2"}
    with serving() as web:
        for rank in "01":
            env = environment(tmp_path, web.url, SLURM_PROCID=rank, **slurm)
            run_ett(env, "run", "--", "true")
        started = [event for event in web.events if event["type"] == "attempt_started"]
    assert [(e.get("gpus"), e.get("hosts")) for e in started] == [(16, 2), (None, None)]


def test_two_runs_are_two_launches_and_a_scheduler_names_its_own(tmp_path: Path) -> None:
    with serving() as web:
        for more in ({}, {}, {"SLURM_JOB_ID": "8041"}):
            run_ett(environment(tmp_path, web.url, **more), "run", "--", "true")
        launches = {str(event["launch"]) for event in web.events}
    assert len(launches) == 3
    assert "8041" in launches


def test_a_launcher_is_no_life_of_its_childs_rank(tmp_path: Path) -> None:
    with serving() as web:
        env = environment(tmp_path, web.url, SLURM_JOB_ID="8041", SLURM_PROCID="3")
        run_ett(env, "run", "--", "sh", "-c", "exit 3")
        ranks = {event["type"]: event.get("rank") for event in web.events}
    assert ranks == {"attempt_started": None, "attempt_ended": 3}


@pytest.mark.parametrize(
    ("options", "launch"),
    [
        (["--nnodes=2", "--rdzv-id=llm"], "llm"),
        (["--nnodes", "1:2", "--rdzv_id", "llm"], "llm"),
        (["--nnodes=2"], None),
    ],
)
def test_the_launchers_of_several_nodes_are_of_one_launch(
    tmp_path: Path, options: list[str], launch: str | None
) -> None:
    (tmp_path / "torchrun").write_text("#!/bin/sh\necho launch=$ETT_LAUNCH\n")
    (tmp_path / "torchrun").chmod(0o700)
    with serving() as web:
        env = environment(tmp_path, web.url)
        program = str(tmp_path / "torchrun")
        done = run_ett(env, "run", "--", program, *options, __file__)
        assert done.stdout == f"launch={launch or ''}\n"
        assert {event.get("launch") for event in web.events} == {launch}


def test_the_launchers_of_several_nodes_name_one_job(tmp_path: Path) -> None:
    (tmp_path / "torchrun").write_text("#!/bin/sh\necho $ETT_JOB\n")
    (tmp_path / "torchrun").chmod(0o700)
    with serving() as web:
        for options in (["--rdzv-id=llm", "--nnodes=2"], ["--standalone", "--rdzv-id=llm"]):
            env = environment(tmp_path / "spool", web.url, ETT_JOB="")
            run_ett(env, "run", "--", str(tmp_path / "torchrun"), *options, __file__)
        first, *_, last = [event["job"] for event in web.events]
    assert first == "llm"
    assert str(last).startswith("test_command-")


def test_the_launcher_of_one_node_names_a_launch_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "torchrun").write_text("#!/bin/sh\n")
    (tmp_path / "torchrun").chmod(0o700)
    with serving() as web:
        command = [str(tmp_path / "torchrun"), "--standalone", "--rdzv-id=llm", __file__]
        for _ in range(2):
            run_ett(environment(tmp_path, web.url), "run", "--", *command)
        assert len({event["launch"] for event in web.events} - {"llm"}) == 2


def test_signals_reach_the_child(tmp_path: Path) -> None:
    script = "trap 'exit 5' TERM; echo ready; while :; do sleep 0.05; done"
    start = "import sys; from ett_service.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-c", start, "run", "--", "sh", "-c", script]
    with subprocess.Popen(command, env=environment(tmp_path), stdout=subprocess.PIPE) as launcher:
        assert launcher.stdout is not None
        assert launcher.stdout.readline() == b"ready\n"
        launcher.send_signal(signal.SIGTERM)
        assert launcher.wait(PATIENCE_S) == 5
    assert endings(spooled(tmp_path)) == [("failed", None, 15)]


SCONTROL = """#!/bin/sh
echo "JobId=$4 JobState=$STATE SubmitTime=1700000000 StartTime=1700000060 PreemptTime=$PREEMPT X=y"
"""


@pytest.mark.parametrize(
    ("number", "code", "slurm", "ending"),
    [
        (signal.SIGTERM, 1, {}, ("failed", None, 15)),  # as torchrun ends then
        (signal.SIGTERM, 0, {}, ("cancelled", None, 15)),  # it saved, and left in order
        (signal.SIGINT, 1, {}, ("cancelled", None, 2)),
        (signal.SIGUSR1, 3, {}, ("failed", 3, None)),
        (signal.SIGTERM, 1, {"STATE": "CANCELLED"}, ("cancelled", None, 15)),
        (signal.SIGTERM, 1, {"STATE": "TIMEOUT"}, ("failed", None, 15)),
        (signal.SIGTERM, 1, {"STATE": "RUNNING", "PREEMPT": "17"}, ("preempted", None, 15)),
        (signal.SIGTERM, 1, {"STATE": "RUNNING"}, ("failed", None, 15)),
    ],
)
def test_what_is_told_to_stop_ends_with_that_as_its_evidence(
    tmp_path: Path,
    number: signal.Signals,
    code: int,
    slurm: dict[str, str],
    ending: tuple[object, object, object],
) -> None:
    scontrol = tmp_path / "bin" / "scontrol"
    scontrol.parent.mkdir()
    scontrol.write_text(SCONTROL)
    scontrol.chmod(0o700)
    script = f"trap 'exit {code}' TERM INT USR1; echo ready; while :; do sleep 0.05; done"
    start = "import sys; from ett_service.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-c", start, "run", "--", "sh", "-c", script]
    more = {"SLURM_JOB_ID": "8041", "PREEMPT": "None", **slurm} if slurm else {}
    env = environment(tmp_path / "spool", **more)
    env["PATH"] = f"{scontrol.parent}:{env['PATH']}"
    with subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as it:
        assert it.stdout is not None
        assert it.stdout.readline() == b"ready\n"
        it.send_signal(number)
        assert it.wait(PATIENCE_S) == code
    events = spooled(tmp_path / "spool")
    assert endings(events) == [ending]
    assert "job_ended" not in {event["type"] for event in events}
    (ended,) = [event for event in events if event["type"] == "attempt_ended"]
    told = number is not signal.SIGUSR1
    assert ("told to stop by SIG" in ended.get("message", "")) == told
    state = slurm.get("STATE", "RUNNING")
    state = "PREEMPTED" if "PREEMPT" in slurm else state
    assert ended.get("scheduler_state", "RUNNING") == state


def test_what_the_controller_knows_of_the_submission_is_asked_of_it_once(tmp_path: Path) -> None:
    scontrol = tmp_path / "scontrol"
    scontrol.write_text(SCONTROL)
    scontrol.chmod(0o700)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "SLURM_JOB_ID": "8041", "PREEMPT": "None"}
    submitted = {"ETT_SUBMITTED_AT": "1700000000"}
    allocated = {"ETT_ALLOCATED_AT": "1700000060"}
    assert instants(env) == submitted | allocated
    assert instants(env | {"SLURM_RESTART_COUNT": "1"}) == allocated
    assert instants(env | {"ETT_SUBMITTED_AT": "5"}) == allocated
    assert instants(env | {"SLURM_JOB_START_TIME": "5"}) == submitted
    assert instants(env | {"ETT_ALLOCATED_AT": "5"}) == submitted
    assert instants({"PATH": env["PATH"]}) == {}
    scontrol.write_text("#!/bin/sh\nsleep 60 & exit 1")
    assert instants(env) == {}
    scontrol.unlink()
    assert instants(env | {"PATH": str(tmp_path)}) == {}


@pytest.mark.parametrize("ignored", [signal.SIGHUP, signal.SIGINT])
def test_a_signal_that_was_ignored_before_stays_so_in_the_child(
    tmp_path: Path, ignored: signal.Signals
) -> None:
    trainer = f"import signal; print(signal.getsignal({int(ignored)}) is signal.SIG_IGN)"
    former = signal.signal(ignored, signal.SIG_IGN)
    try:
        done = run_ett(environment(tmp_path), "run", "--", sys.executable, "-c", trainer)
    finally:
        signal.signal(ignored, former)
    assert done.stdout == "True\n"


def test_the_child_owns_stdout_and_a_dead_server_changes_no_exit_code(tmp_path: Path) -> None:
    env = environment(tmp_path, "http://127.0.0.1:1")
    done = run_ett(env, "run", "--", "sh", "-c", "echo out; exit 0")
    assert (done.returncode, done.stdout) == (0, "out\n")
    assert "ett sync" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["run"], 2, ["no command", "ett run --"]),
        (["run", "--", "no-such-command"], 127, ["no-such-command", "Check"]),
        (["sync", "/no/such/directory", "--url", "http://x"], 2, ["not a directory", "Give"]),
        (["sync"], 2, ["no address", "ETT_URL"]),
    ],
)
def test_a_command_that_cannot_work_prints_why_and_what_to_try(
    tmp_path: Path, arguments: list[str], code: int, words: list[str]
) -> None:
    done = run_ett(environment(tmp_path), *arguments)
    assert done.returncode == code
    assert done.stdout == ""
    assert all(word in done.stderr for word in words), done.stderr


def test_sync_sends_every_dead_spool_and_counts_the_events(tmp_path: Path) -> None:
    for job in ("a", "b"):
        run_trainer(f"ett.init({job!r})\nett.end()", environment(tmp_path))
    count = len(spooled(tmp_path))
    with serving() as web:
        done = run_ett(environment(tmp_path, web.url), "sync", str(tmp_path), "--json")
        summary = json.loads(done.stdout)
        assert (done.returncode, done.stderr) == (0, "")
        assert (summary["accepted"], summary["spools"], summary["left"]) == (count, 2, 0)
        assert {event["job"] for event in web.events} == {"a", "b"}
        again = run_ett(environment(tmp_path, web.url), "sync")
    assert (again.returncode, again.stdout) == (0, "no events sent (no spools)\n")


def test_sync_leaves_the_spool_of_a_living_process_alone(tmp_path: Path) -> None:
    code = "import ett_service as ett, sys; ett.init(); print('ready', flush=True); input()"
    with (
        serving() as web,
        subprocess.Popen(
            [sys.executable, "-c", code],
            env=environment(tmp_path),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as living,
    ):
        assert living.stdout is not None
        living.stdout.readline()
        done = run_ett(environment(tmp_path, web.url), "sync", "--json")
        assert json.loads(done.stdout)["in_use"] == 1
        assert web.events == []
        living.communicate(b"\n")


@pytest.mark.parametrize(
    ("status", "code", "word"), [(403, 5, "ETT_API_KEY"), (503, 4, "ETT_URL"), (404, 4, "ETT_URL")]
)
def test_sync_prints_what_stopped_it(tmp_path: Path, status: int, code: int, word: str) -> None:
    run_trainer("ett.init()", environment(tmp_path))
    with serving(lambda _: Reply(status)) as web:
        done = run_ett(environment(tmp_path, web.url), "sync", "--wait", "0")
    assert done.returncode == code
    assert str(status) in done.stderr
    assert word in done.stderr
    assert spooled(tmp_path)


@pytest.mark.slow
def test_sync_gives_up_on_a_server_out_of_reach(tmp_path: Path) -> None:
    run_trainer("ett.init()", environment(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    done = run_ett(environment(tmp_path, url), "sync", "--wait", "6")
    assert done.returncode == 4
    assert "refused" in done.stderr
    assert "trying again in" in done.stderr
