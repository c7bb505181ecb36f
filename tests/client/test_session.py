"""Whole lives of trainers: how they begin, fork, break and end."""

import signal
import time
from pathlib import Path

import pytest

from ett_service.client.exits import UNSAID
from tests.builders.servers.web import serving
from tests.builders.trainers import environment, run_trainer, spooled

LIFE = """
ett.init("llm", gpus=8, team="a", labels={"branch": "main"})
with ett.phase("launcher_init"):
    ett.restored(5)
with ett.train_loop():
    for n in range(6, 12):
        ett.step(n)
        if n == 10:
            with ett.checkpoint(n):
                pass
"""


def ending(code: str, spool: Path, **env: str) -> dict[str, object]:
    """Run a trainer and return its one ``attempt_ended``."""
    run_trainer(code, environment(spool, **env))
    (ended,) = [event for event in spooled(spool) if event["type"] == "attempt_ended"]
    return {
        name: ended[name]
        for name in ("outcome", "reason", "exception", "message", "exit_code", "signal")
        if name in ended
    }


def test_a_life_in_good_order_reaches_the_server_whole(tmp_path: Path) -> None:
    with serving() as web:
        done = run_trainer(LIFE + "ett.end()", environment(tmp_path, web.url))
        events = sorted(web.events, key=lambda event: int(event["mono_us"]))

    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == f"ett: llm: {len(events)} events sent to {web.url}; more: ett job llm\n"
    stages = [event.get("stage") for event in events if event["type"] == "span"]
    assert stages == ["interpreter", "imports"]
    edges = [event for event in events if event["type"] != "span"]
    assert [(event["type"], event.get("phase", event.get("step"))) for event in edges] == [
        ("attempt_started", None),
        ("phase_started", "launcher_init"),
        ("job", None),
        ("checkpoint_restored", 5),
        ("phase_ended", "launcher_init"),
        ("phase_started", "train_loop"),
        ("progress", 6),
        ("progress", 10),
        ("phase_started", "checkpoint_blocking"),
        ("phase_ended", "checkpoint_blocking"),
        ("checkpoint_saved", 10),
        ("progress", 11),
        ("phase_ended", "train_loop"),
        ("attempt_ended", None),
    ]
    facts = next(event for event in events if event["type"] == "job")
    assert (facts["gpus"], facts["team"], facts["labels"]) == (8, "a", {"branch": "main"})
    assert {event["job"] for event in events} == {"llm"}
    assert sorted(event["seq"] for event in events) == list(range(1, 17))
    assert len({event["launch"] for event in events}) == 1
    assert list(tmp_path.rglob("*.jsonl")) == []


def test_two_lives_of_a_script_are_two_launches(tmp_path: Path) -> None:
    for _ in range(2):
        run_trainer("ett.init()", environment(tmp_path))
    assert len({event["launch"] for event in spooled(tmp_path)}) == 2


def test_the_attempt_begins_with_its_process(tmp_path: Path) -> None:
    run_trainer("import time; time.sleep(0.3); ett.init(gpus=1)", environment(tmp_path))
    events = {event["type"]: event for event in spooled(tmp_path)}
    assert events["job"]["mono_us"] - events["attempt_started"]["mono_us"] > 250_000


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("ett.end('preempted', reason='spot')", {"outcome": "preempted", "reason": "spot"}),
        ("pass", {"outcome": "completed", "reason": UNSAID}),
        ("import sys; sys.exit()", {"outcome": "completed", "reason": UNSAID}),
        ("import sys; sys.exit(3)", {"outcome": "failed", "exit_code": 3}),
        (
            "import sys; sys.exit('no data')",
            {"outcome": "failed", "exit_code": 1, "message": "no data"},
        ),
        (
            "raise ValueError('bad batch')",
            {"outcome": "failed", "exception": "ValueError", "message": "bad batch"},
        ),
        (
            "import json; json.loads('{')",
            {
                "outcome": "failed",
                "exception": "json.decoder.JSONDecodeError",
                "message": "Expecting property name enclosed in double quotes: "
                "line 1 column 2 (char 1)",
            },
        ),
        ("raise KeyboardInterrupt", {"outcome": "cancelled", "reason": "KeyboardInterrupt"}),
        (
            "import threading; t = threading.Thread(target=exit, args=(4,)); t.start(); t.join()",
            {"outcome": "completed", "reason": UNSAID},
        ),
    ],
)
def test_each_way_to_end_is_recorded_as_what_it_is(
    tmp_path: Path, code: str, expected: dict[str, object]
) -> None:
    assert ending("ett.init()\n" + code, tmp_path) == expected


def test_hooks_that_were_there_still_run_and_the_exit_code_stays(tmp_path: Path) -> None:
    code = """
import sys
sys.excepthook = lambda *_: print("mine")
ett.init()
raise ValueError
"""
    done = run_trainer(code, environment(tmp_path))
    assert (done.returncode, done.stdout) == (1, "mine\n")


@pytest.mark.parametrize("launched", [{}, {"ETT_LAUNCHER": "1"}], ids=["alone", "launched"])
def test_ctrl_c_ends_the_process_by_its_signal(tmp_path: Path, launched: dict[str, str]) -> None:
    code = "import os, signal; ett.init(); os.kill(os.getpid(), signal.SIGINT)"
    with serving() as web:
        env = environment(tmp_path, web.url, **launched)
        assert run_trainer(code, env).returncode == -signal.SIGINT


def test_an_end_may_say_that_no_attempt_will_follow(tmp_path: Path) -> None:
    run_trainer("ett.init()\nett.end('failed', final=True)", environment(tmp_path))
    assert [event["type"] for event in spooled(tmp_path)][-2:] == ["attempt_ended", "job_ended"]


@pytest.mark.parametrize(
    "env",
    [
        {"ETT_DISABLED": "1"},
        {"ETT_SPOOL": ""},
        {"ETT_JOB": ""},
    ],
)
def test_a_life_that_nobody_wants_recorded_leaves_nothing(
    tmp_path: Path, env: dict[str, str]
) -> None:
    code = LIFE.replace('"llm"', "None") + "ett.end(); print(ett.flush())"
    done = run_trainer(code, environment(tmp_path, **env))
    assert (done.returncode, done.stdout) == (0, "False\n")
    assert list(tmp_path.iterdir()) == []


def test_a_silent_fork_sends_nothing(tmp_path: Path) -> None:
    code = LIFE + "pid = os.fork()\nif pid == 0: os._exit(0)\nos.waitpid(pid, 0)\nett.end()"
    with serving() as web:
        run_trainer("import os\n" + code, environment(tmp_path, web.url))
        assert len({event["producer"] for event in web.events}) == 1


def test_a_fork_that_speaks_is_a_producer_of_its_own_and_ends_no_attempt(tmp_path: Path) -> None:
    code = """
import os, sys, threading
ett.init()
with ett.phase("evaluation"):
    pids = []
    for _ in range(4):
        pid = os.fork()
        if pid == 0:
            ett.step(7)
            with ett.phase("stalled"):
                pass
            sys.exit(0)
        pids.append(pid)
    codes = [os.waitpid(pid, 0)[1] for pid in pids]
ett.end()
print(codes)
"""
    with serving() as web:
        done = run_trainer(code, environment(tmp_path, web.url))
        events = web.events

    assert done.stdout == "[0, 0, 0, 0]\n"
    assert len(done.stderr.splitlines()) == 1  # of the parent
    parent = next(event["producer"] for event in events if event["type"] == "attempt_started")
    children = [event for event in events if event["producer"] != parent]
    assert len({event["producer"] for event in children}) == 4
    assert sorted({event["type"] for event in children}) == [
        "phase_ended",
        "phase_started",
        "progress",
    ]
    assert sum(event["type"] == "attempt_ended" for event in events) == 1
    assert len({event["id"] for event in events}) == len(events)


def test_a_fork_with_its_own_recording_records_its_own_end(tmp_path: Path) -> None:
    code = """
import os, sys
ett.init()
pid = os.fork()
if pid == 0:
    ett.init(job="child")
    sys.exit(3)
os.waitpid(pid, 0)
ett.end()
"""
    run_trainer(code, environment(tmp_path))
    ended = [event for event in spooled(tmp_path) if event["type"] == "attempt_ended"]
    assert {(event["job"], event["outcome"]) for event in ended} == {
        ("child", "failed"),
        ("j", "completed"),
    }


@pytest.mark.parametrize("launched", [{}, {"ETT_LAUNCH": "8041", "RANK": "1"}])
def test_a_fork_that_begins_what_its_parent_records_joins_it(
    tmp_path: Path, launched: dict[str, str]
) -> None:
    code = """
import os, sys
ett.init()
pid = os.fork()
if pid == 0:
    ett.init("j", team="a")
    with ett.phase("evaluation"):
        pass
    sys.exit(3)
os.waitpid(pid, 0)
ett.end()
"""
    run_trainer(code, environment(tmp_path, **launched))
    events = spooled(tmp_path)
    (started,) = [event for event in events if event["type"] == "attempt_started"]
    (ended,) = [event for event in events if event["type"] == "attempt_ended"]
    assert ended["outcome"] == "completed"
    child = [event for event in events if event["producer"] != started["producer"]]
    facts = [] if launched else ["job"]  # only the process that leads tells them
    assert [event["type"] for event in child] == [*facts, "phase_started", "phase_ended"]
    assert len({(event["launch"], event.get("rank"), event.get("cycle")) for event in events}) == 1


@pytest.mark.parametrize(
    ("before", "inside"),
    [
        ("ett.end()", ""),
        ("", "os.environ['RANK'] = '3'"),
        ("", "os.environ['ETT_CYCLE'] = '1'"),
    ],
    ids=["ended", "another rank", "another cycle"],
)
def test_a_fork_that_is_something_else_begins_a_life_of_its_own(
    tmp_path: Path, before: str, inside: str
) -> None:
    code = f"""
import os, sys
ett.init()
{before}
if os.fork() == 0:
    {inside or "pass"}
    ett.init()
    sys.exit(0)
os.wait()
ett.end()
"""
    run_trainer(code, environment(tmp_path, ETT_LAUNCH="8041"))
    events = spooled(tmp_path)
    assert [event["type"] for event in events].count("attempt_started") == 2
    assert [event["type"] for event in events].count("attempt_ended") == 2


def test_workers_of_multiprocessing_are_silent(tmp_path: Path) -> None:
    code = """
import multiprocessing
ett.init()
with multiprocessing.get_context("fork").Pool(2) as pool:
    print(pool.map(abs, [-1, -2]))
"""
    with serving() as web:
        done = run_trainer(code, environment(tmp_path, web.url))
        assert done.stdout == "[1, 2]\n"
        assert len({event["producer"] for event in web.events}) == 1


def test_an_exit_waits_two_seconds_for_a_dead_server_and_keeps_everything(tmp_path: Path) -> None:
    code = LIFE + "import time; began = time.monotonic()\n"
    code += "import atexit; atexit._run_exitfuncs(); print(time.monotonic() - began)"
    # An address that swallows packets: connections to it neither open nor fail.
    done = run_trainer(code, environment(tmp_path, "http://192.0.2.1:9"))
    assert float(done.stdout) < 10  # what it waits for one connection otherwise
    assert [event["type"] for event in spooled(tmp_path)][-1] == "attempt_ended"


def test_a_disk_that_fills_up_is_no_concern_of_the_trainer(tmp_path: Path) -> None:
    code = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))
ett.init()
for n in range(50):
    with ett.phase("evaluation"):
        pass
print(ett.flush(20))
"""
    with serving() as web:
        done = run_trainer(code, environment(tmp_path, web.url))
        sent = [event for event in web.events if event["type"].startswith("phase_")]
    assert (done.returncode, done.stdout) == (0, "True\n")
    cannot, _ = done.stderr.splitlines()  # and what was sent at the end
    assert "events cannot be written" in cannot
    assert len(sent) == 102  # launcher_init is among them


def test_a_fact_that_does_not_fit_costs_itself_only(tmp_path: Path) -> None:
    done = run_trainer("ett.init(labels={'x': object(), 'y': 'z'})", environment(tmp_path))
    assert done.returncode == 0
    facts, *rest = spooled(tmp_path)
    assert facts["labels"] == {"y": "z"}
    assert rest[0]["type"] == "attempt_started"


def test_a_system_that_gives_no_thread_costs_the_sending_only(tmp_path: Path) -> None:
    code = """
import resource
resource.setrlimit(resource.RLIMIT_AS, (1 << 33, 1 << 33))
import threading
threading.stack_size(1 << 34)
ett.init()
with ett.phase("evaluation"):
    pass
print(ett.flush(1))
"""
    done = run_trainer(code, environment(tmp_path, "http://127.0.0.1:1"))
    assert (done.returncode, done.stdout) == (0, "False\n")
    assert "attempt_ended" in [event["type"] for event in spooled(tmp_path)]


def test_a_second_init_adds_facts_and_begins_nothing(tmp_path: Path) -> None:
    run_trainer("ett.init()\nett.init(team='b')", environment(tmp_path))
    types = [event["type"] for event in spooled(tmp_path)]
    assert types.count("attempt_started") == 1
    assert types.count("job") == 1


def test_after_an_end_another_life_may_begin(tmp_path: Path) -> None:
    run_trainer("ett.init()\nett.end()\nett.init()", environment(tmp_path))
    events = spooled(tmp_path)
    assert len({event["producer"] for event in events}) == 2
    assert len({event["launch"] for event in events}) == 2


def test_each_life_of_one_process_in_one_launch_is_a_cycle(tmp_path: Path) -> None:
    slurm = {"SLURM_JOB_ID": "8041", "SLURM_JOB_START_TIME": str(int(time.time()) - 40)}
    run_trainer("ett.init()\nett.end('failed')\nett.init()", environment(tmp_path, **slurm))
    events = spooled(tmp_path)
    starts = [event for event in events if event["type"] == "attempt_started"]
    ends = [event for event in events if event["type"] == "attempt_ended"]
    assert sorted(event.get("cycle", 0) for event in starts) == [0, 1]
    assert {(event.get("cycle", 0), event["outcome"]) for event in ends} == {
        (0, "failed"),
        (1, "completed"),
    }
    assert sum(event.get("phase") == "hardware_setup" for event in events) == 1


def test_another_job_of_one_process_counts_its_own_cycles(tmp_path: Path) -> None:
    code = "ett.init('a')\nett.end()\nett.init('b')"
    run_trainer(code, environment(tmp_path, SLURM_JOB_ID="8041"))
    assert {event.get("cycle", 0) for event in spooled(tmp_path)} == {0}


def test_a_fact_that_no_job_has_is_left_out_with_a_warning(tmp_path: Path) -> None:
    done = run_trainer("ett.init(team='a', colour='red')", environment(tmp_path))
    assert "colour" in done.stderr
    (facts,) = [event for event in spooled(tmp_path) if event["type"] == "job"]
    assert "colour" not in facts
