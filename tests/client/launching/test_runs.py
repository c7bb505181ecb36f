"""What ``ett run`` says of a job's runs: their name, their end, and that one is begun again."""

import json
import os
import re
import sys
from pathlib import Path

import pytest

from ett_service.client.identity import Identity
from ett_service.client.launching.runs import (
    ends_the_job,
    fresh_name,
    is_recorded_as,
    lacks_its_program,
)
from ett_service.client.sending.spool import job_directory
from tests.builders.servers.web import Received, Reply, accepting, serving
from tests.builders.trainers import environment, run_ett, run_trainer

HERE = Path(__file__).parent
_TORCHRUN = str(Path(sys.executable).with_name("torchrun"))
TORCHRUN = ("torchrun", "--nproc-per-node", "2")


@pytest.mark.parametrize(
    ("env", "command", "ends"),
    [
        ({}, ("python", "train.py"), True),
        ({"SLURM_PROCID": "0"}, ("python", "train.py"), True),
        ({"SLURM_PROCID": "1"}, ("python", "train.py"), False),
        ({}, (*TORCHRUN, "train.py"), True),
        ({}, (*TORCHRUN, "--nnodes", "1", "train.py"), True),
        ({}, (*TORCHRUN, "--nnodes=2", "train.py"), False),
        ({}, (*TORCHRUN, "--nnodes=1:2", "train.py"), False),
        ({}, (*TORCHRUN, "--nnodes=2", "--node-rank=0", "train.py"), True),
        ({}, (*TORCHRUN, "--nnodes=2", "--node_rank", "1", "train.py"), False),
        ({"SLURM_NODEID": "0"}, (*TORCHRUN, "--nnodes=2", "train.py"), True),
        ({"SLURM_NODEID": "1"}, (*TORCHRUN, "--nnodes=2", "train.py"), False),
        ({"GROUP_RANK": "1"}, (*TORCHRUN, "--nnodes=2", "train.py"), False),
        ({"PET_NNODES": "2"}, (*TORCHRUN, "train.py"), False),
        ({"PET_NNODES": "2", "PET_NODE_RANK": "0"}, (*TORCHRUN, "train.py"), True),
    ],
)
def test_one_launcher_of_a_launch_ends_the_job(
    env: dict[str, str], command: tuple[str, ...], ends: bool
) -> None:
    assert ends_the_job(Identity("j"), env, command) is ends


def test_a_launcher_of_another_rank_ends_no_job() -> None:
    assert not ends_the_job(Identity("j", rank=3), {}, ("python", "train.py"))


@pytest.mark.parametrize(
    ("command", "script"),
    [
        (("python3.11", "-u", "src/pre train.py", "--lr", "1"), "pre-train"),
        ((*TORCHRUN, "train.py"), "train"),
        (("./run.sh",), "run"),
        (("sh", "-c", "exit 0"), "exit-0"),
        (("///",), "job"),
    ],
)
def test_a_fresh_name_has_the_script_and_the_time(command: tuple[str, ...], script: str) -> None:
    assert fresh_name(command, 1_740_816_000, "0123abcd") == f"{script}-20250301-080000-abcd"


def test_what_was_recorded_under_another_name_is_not_recorded_again(tmp_path: Path) -> None:
    assert is_recorded_as("fresh", tmp_path / "none", 100)
    for job in ("old", "own"):
        job_directory(tmp_path, job).mkdir()
    os.utime(job_directory(tmp_path, "own"), (50, 50))
    os.utime(job_directory(tmp_path, "old"), (50, 50))
    assert is_recorded_as("fresh", tmp_path, 100)
    os.utime(job_directory(tmp_path, "own"), (200, 200))
    assert not is_recorded_as("fresh", tmp_path, 100)
    assert is_recorded_as("own", tmp_path, 100)


def ended_jobs(events: list[dict[str, object]]) -> list[tuple[object, object]]:
    return [(event["job"], event["outcome"]) for event in events if event["type"] == "job_ended"]


@pytest.mark.parametrize(
    ("options", "script", "ended"),
    [
        ((), "exit 0", [("j", "completed")]),
        ((), "exit 3", []),
        (("--more-follows",), "exit 0", []),
    ],
)
def test_a_command_that_ends_well_ends_the_job_unless_more_follows(
    tmp_path: Path, options: tuple[str, ...], script: str, ended: list[tuple[object, object]]
) -> None:
    with serving() as web:
        env = environment(tmp_path, web.url, ETT_JOB="j")
        run_ett(env, "run", *options, "--", "sh", "-c", script)
        assert ended_jobs(web.events) == ended


def test_a_command_without_a_name_is_recorded_under_a_fresh_one(tmp_path: Path) -> None:
    with serving() as web:
        env = environment(tmp_path, web.url, ETT_JOB="")
        first = run_ett(env, "run", "--", "sh", "-c", "exit 0")
        run_ett(env, "run", "--", "sh", "-c", "exit 0")
        ended = ended_jobs(web.events)
        started = [event for event in web.events if event["type"] == "attempt_started"]
    assert len({job for job, _ in ended}) == len(started) == 2
    assert re.search(r"recorded as job exit-0-\d{8}-\d{6}-\w{4}; --job names it", first.stderr)


def test_a_name_that_no_job_can_have_is_refused_in_a_line_and_replaced(tmp_path: Path) -> None:
    with serving() as web:
        env = environment(tmp_path, web.url, ETT_JOB="")
        done = run_ett(env, "run", "--job", "a/b", "--", "sh", "-c", "exit 3")
        jobs = {event["job"] for event in web.events}
    assert done.returncode == 3
    assert "ett: 'a/b' cannot name a job: a job's name has up to 200" in done.stderr
    assert len(jobs) == 1
    assert f"recorded as job {jobs.pop()}; --job names it" in done.stderr


def test_a_trainer_without_a_name_is_of_the_fresh_job(tmp_path: Path) -> None:
    trainer = "import ett_service as ett; ett.init(); ett.end()"
    with serving() as web:
        env = environment(tmp_path, web.url, ETT_JOB="")
        run_ett(env, "run", "--", sys.executable, "-c", trainer)
        events = web.events
    assert len({event["job"] for event in events}) == 1
    assert len({event["producer"] for event in events}) == 2


def test_a_trainer_that_names_its_job_leaves_no_second_one(tmp_path: Path) -> None:
    trainer = "import ett_service as ett; ett.init('inner'); ett.end()"
    with serving() as web:
        env = environment(tmp_path, web.url, ETT_JOB="")
        done = run_ett(env, "run", "--", sys.executable, "-c", trainer)
        assert {event["job"] for event in web.events} == {"inner"}
        assert ended_jobs(web.events) == [("inner", "completed")]
        words = f"ett: inner: {len(web.events)} events sent to {web.url}; more: ett job inner\n"
    assert done.stderr == words


def test_the_name_that_was_given_at_launch_wins_over_the_one_in_the_script(tmp_path: Path) -> None:
    trainer = "import ett_service as ett; ett.init('inner'); ett.end()"
    with serving() as web:
        env = environment(tmp_path, web.url, ETT_JOB="")
        done = run_ett(env, "run", "--job", "outer", "--", sys.executable, "-c", trainer)
        assert {event["job"] for event in web.events} == {"outer"}
    assert "recorded as job outer, which `ett run` was given, not as inner" in done.stderr


@pytest.mark.parametrize("command", ["no-such-command", "/"])
def test_a_command_that_cannot_run_leaves_no_job(tmp_path: Path, command: str) -> None:
    with serving() as web:
        done = run_ett(environment(tmp_path, web.url), "run", "--job", "j", "--", command)
        assert web.events == []
    assert done.returncode == 127
    assert list(tmp_path.rglob("*.jsonl")) == []


@pytest.mark.parametrize(
    ("command", "lacks"),
    [
        (("python", "no.py"), True),
        (("/x/bin/python3.11", "-u", "-W", "ignore", "no.py", "--lr", "1"), True),
        ((*TORCHRUN, "no.py"), True),
        (("python", __file__, "no.py"), False),
        (("python", "-c", "pass", "no.py"), False),
        ((*TORCHRUN, "--no-python", "no.py"), False),
        (("python", "-m", "torch.distributed.run", "--nnodes", "1", "no.py"), True),
        (("python",), False),
        (("env", "A=1", "python3", "no.py"), True),
        (("env", "--chdir=/", "python3", "no.py"), False),
        (("nohup", "nice", "-n", "5", "python3", "no.py"), True),
        (("srun", "-n", "2", "python", "no.py"), True),
        (("srun", "--container-image=x", "python", "no.py"), False),
        (("docker", "run", "image", "python", "no.py"), False),
        (("accelerate", "launch", "--num_processes", "2", "no.py"), True),
        ((sys.executable, "-m", "json.tool", "no.py"), False),
        ((sys.executable, "-W", "ignore", "-m", "json.no_such_tool"), True),
        (("env", f"PYTHONPATH={HERE}", sys.executable, "-m", "test_runs"), False),
        (("env", f"PYTHONPATH={HERE}", sys.executable, "-m", "no_such_module"), True),
        (("srun", sys.executable, "-m", "no_such_module"), False),
        (("srun", "./missing.sh"), True),
        (("srun", "-n", "2", "--gpus=8", "-N2", "./missing.sh", "--lr", "1"), True),
        (("srun", "-l", "./missing.sh"), False),  # for all we know, the value of -l
        (("srun", "-D", "/bin", "./missing.sh"), False),
        (("srun", "/bin/no_such_program"), False),
        (("srun", "missing.sh"), False),  # on the PATH of the nodes
        (("srun", "bash", "./missing.sh"), False),
    ],
)
def test_a_program_that_is_not_there_is_told_from_other_arguments(
    command: tuple[str, ...], *, lacks: bool
) -> None:
    assert lacks_its_program(command, os.environ) is lacks


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ((sys.executable, "no.py"), 2),
        ((sys.executable, "-m", "no_such_module"), 1),
        (("env", sys.executable, "no.py"), 2),
        (("env", "no-such-command"), 127),
        (("bash", "no.sh"), 127),
        (("sh", "-c", "no-such-command --lr 1"), 127),
        (("sh", "-c", "/"), 126),
        ((_TORCHRUN, "no.py"), 1),
        ((_TORCHRUN, "-m", "no_such_module"), 1),
    ],
)
@pytest.mark.parametrize("job", ["", "named"])
def test_a_program_that_is_not_there_leaves_no_job(
    tmp_path: Path, command: tuple[str, ...], code: int, job: str
) -> None:
    if command[0] == _TORCHRUN and (job or not Path(_TORCHRUN).exists()):
        pytest.skip("once is enough, where torch is installed")
    with serving() as web:
        done = run_ett(environment(tmp_path, web.url, ETT_JOB=job), "run", "--", *command)
        assert web.events == []
    assert done.returncode == code
    assert list(tmp_path.rglob("*.jsonl")) == []


@pytest.mark.parametrize(
    "code", ["raise ValueError", "import no_such_module", "import sys; sys.exit(2)"]
)
def test_a_program_that_fails_at_once_is_recorded(tmp_path: Path, code: str) -> None:
    script = tmp_path / "train.py"
    script.write_text(code)
    with serving() as web:
        env = environment(tmp_path / "spool", web.url, ETT_JOB="j")
        done = run_ett(env, "run", "--", sys.executable, str(script))
        assert [e["outcome"] for e in web.events if e["type"] == "attempt_ended"] == ["failed"]
    assert done.returncode in (1, 2)


def test_a_shell_that_ends_so_after_its_trainer_began_is_recorded(tmp_path: Path) -> None:
    trainer = f"{sys.executable} -c 'import ett_service as ett; ett.init(); ett.end()'"
    with serving() as web:
        env = environment(tmp_path, web.url, ETT_JOB="j")
        run_ett(env, "run", "--", "sh", "-c", f"{trainer}; no-such-command")
        ended = [e for e in web.events if e["type"] == "attempt_ended"]
    assert ("failed", 127) in [(event["outcome"], event.get("exit_code")) for event in ended]


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        ("completed", "this launch begins another run of it"),
        (None, "but nobody ended it: the time since then is restart wait"),
    ],
)
@pytest.mark.parametrize("is_launched", [True, False], ids=["ett run", "alone"])
def test_a_launch_under_the_name_of_a_finished_job_says_so_in_one_line(
    tmp_path: Path, outcome: str | None, words: str, *, is_launched: bool
) -> None:
    def answer(received: Received) -> Reply:
        reply = accepting(received)
        if received.method == "GET":
            return Reply(403)  # the key may only write
        knowing = json.loads(reply.body) | {"finished": {"j": outcome}}
        return Reply(body=json.dumps(knowing).encode())

    trainer = "import ett_service as ett; ett.init(job='j'); ett.flush(10)"
    with serving(answer) as web:
        env = environment(tmp_path, web.url, ETT_JOB="j")
        if is_launched:
            done = run_ett(env, "run", "--", sys.executable, "-c", trainer)
        else:
            done = run_trainer(trainer, env)
    assert done.returncode == 0
    assert [line for line in done.stderr.splitlines() if words in line] == [
        done.stderr.splitlines()[0]
    ]


def test_a_launcher_is_silent_on_what_its_own_trainer_has_finished(tmp_path: Path) -> None:
    asked: list[str] = []

    def answer(received: Received) -> Reply:
        asked.append(received.path)
        before = {"finished": {"j": "completed"}} if len(asked) > 1 else {}
        reply = accepting(received)
        return Reply(body=json.dumps(json.loads(reply.body) | before).encode())

    trainer = "import ett_service as ett; ett.init(job='j'); ett.flush(10); ett.end(final=True)"
    with serving(answer) as web:
        env = environment(tmp_path, web.url, ETT_JOB="j")
        done = run_ett(env, "run", "--", sys.executable, "-c", trainer)
    assert len(asked) > 1
    assert "was finished" not in done.stderr
