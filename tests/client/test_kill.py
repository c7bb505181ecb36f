"""A trainer killed at any instant: what its calls had returned for is never lost."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.builders.servers.web import Web, serving
from tests.builders.trainers import environment, run_ett

KILLS = 8

WRITER = """
import os
import ett_service as ett
ett.init()
os.write(1, b"ready\\n")
n = 0
while True:
    n += 1
    with ett.phase("evaluation"):
        pass
    with ett.checkpoint(n):
        pass
    os.write(1, b"%d\\n" % n)
"""


def killed_after(seconds: float, env: dict[str, str], web: Web | None = None) -> int:
    """Kill a writer, once *web* has events of it, and return the last round that was over."""
    with subprocess.Popen(
        [sys.executable, "-c", WRITER], env=env, stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"ready\n"
        os.set_blocking(writer.stdout.fileno(), False)
        printed = b""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline or (web is not None and not web.received):
            printed += writer.stdout.read() or b""
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        os.set_blocking(writer.stdout.fileno(), True)
        printed += writer.stdout.read()
    return int((printed.splitlines() or [b"0"])[-1])


def test_every_edge_whose_call_had_returned_reaches_the_server(tmp_path: Path) -> None:
    seed = random.randrange(1 << 30)
    draw = random.Random(seed)
    for kill in range(KILLS):
        spool = tmp_path / str(kill)
        rounds = killed_after(draw.uniform(0.0, 0.15), environment(spool))
        with serving() as web:
            done = run_ett(environment(spool, web.url), "sync")
            events = web.events

        assert done.returncode == 0, (seed, done.stderr)
        saved = {event["step"] for event in events if event["type"] == "checkpoint_saved"}
        assert saved >= set(range(1, rounds + 1)), seed
        edges = sum(event["type"] == "phase_ended" for event in events)
        assert edges >= 2 * rounds, seed
        assert sorted(event["seq"] for event in events) == list(range(1, len(events) + 1)), seed


def test_a_killed_sender_leaves_nothing_unsent_for_the_next_process(tmp_path: Path) -> None:
    with serving() as web:
        rounds = killed_after(0.3, environment(tmp_path, web.url), web)
        sent_by_itself = len(web.events)
        assert run_ett(environment(tmp_path, web.url), "sync").returncode == 0
        saved = {event["step"] for event in web.events if event["type"] == "checkpoint_saved"}

    assert sent_by_itself > 0
    assert saved >= set(range(1, rounds + 1))
    assert list(tmp_path.rglob("0*.jsonl")) == []
