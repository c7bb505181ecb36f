"""A trainer killed while it sends: what its calls had returned for is never lost."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.builders.servers.web import Web, serving
from tests.builders.trainers import environment, run_ett

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


def killed_after(seconds: float, env: dict[str, str], web: Web) -> int:
    """Kill a writer, once *web* has events of it, and return the last round that was over."""
    with subprocess.Popen(
        [sys.executable, "-c", WRITER], env=env, stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"ready\n"
        os.set_blocking(writer.stdout.fileno(), False)
        printed = b""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline or not web.received:
            printed += writer.stdout.read() or b""
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        os.set_blocking(writer.stdout.fileno(), True)
        printed += writer.stdout.read()
    return int((printed.splitlines() or [b"0"])[-1])


def test_a_killed_sender_leaves_nothing_unsent_for_the_next_process(tmp_path: Path) -> None:
    with serving() as web:
        rounds = killed_after(0.3, environment(tmp_path, web.url), web)
        sent_by_itself = len(web.events)
        assert run_ett(environment(tmp_path, web.url), "sync").returncode == 0
        saved = {event["step"] for event in web.events if event["type"] == "checkpoint_saved"}

    assert sent_by_itself > 0
    assert saved >= set(range(1, rounds + 1))
    assert list(tmp_path.rglob("0*.jsonl")) == []
