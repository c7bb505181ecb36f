"""Every way to leave, with a server that does not answer: soon, and with everything kept."""

import logging
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.builders.servers.waiting import PATIENCE_S
from tests.builders.trainers import environment, spooled

log = logging.getLogger(__name__)

BEFORE = """
import os, signal, sys, time
import ett_service as ett
ett.init(torch=False)
for n in range(20):
    with ett.phase("evaluation"):
        pass
def leave():
    os.write(1, repr(time.monotonic()).encode())
"""
WAYS = {
    "sys.exit": "leave(); sys.exit(3)",
    "exception": "leave(); raise RuntimeError",
    "end of the script": "leave()",
    "ett.end": "ett.end(); leave()",
    "SIGTERM": "leave(); os.kill(os.getpid(), signal.SIGTERM); time.sleep(60)",
    "SIGTERM, handled": """
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
leave(); os.kill(os.getpid(), signal.SIGTERM); time.sleep(60)""",
    "SIGINT, as of a notebook": "leave(); os.kill(os.getpid(), signal.SIGINT); time.sleep(60)",
    "os._exit": "leave(); os._exit(0)",
}
"""How a trainer may end; ``leave`` prints when."""

UNTOLD = ("os._exit", "SIGTERM")  #: nothing of Python runs any more

LONGEST_EXIT_S = 2.0
INTERPRETER_S = 0.5  #: what it takes to leave without any recording, at most
GIVEN_UP_S = 10.0  #: when a connection would be


@pytest.fixture
def silent() -> Iterator[str]:
    """Return the address of a server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def delay(code: str, folder: Path, url: str) -> float:
    """Run a trainer, and return the seconds from when it leaves until it is gone."""
    done = subprocess.run(
        [sys.executable, "-c", BEFORE + code],
        env=environment(folder, url),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        timeout=PATIENCE_S,
        check=False,
    )
    return time.monotonic() - float(done.stdout)


@pytest.mark.parametrize(
    ("at_once", "longest"),
    [
        (len(WAYS), GIVEN_UP_S),
        pytest.param(1, LONGEST_EXIT_S + INTERPRETER_S, marks=pytest.mark.long, id="long"),
    ],
)
def test_every_exit_is_soon_and_keeps_what_the_server_did_not_take(
    tmp_path: Path, silent: str, at_once: int, longest: float
) -> None:
    folders = [tmp_path / str(number) for number in range(len(WAYS))]
    with ThreadPoolExecutor(at_once) as pool:
        delays = list(pool.map(delay, WAYS.values(), folders, [silent] * len(WAYS)))
    log.warning("%s", dict(zip(WAYS, (f"{each:.2f} s" for each in delays), strict=True)))
    for way, folder in zip(WAYS, folders, strict=True):
        events = spooled(folder)
        assert sum(event.get("phase") == "evaluation" for event in events) == 40, way
        assert [event["seq"] for event in events] == list(range(1, len(events) + 1)), way
        assert (events[-1]["type"] == "attempt_ended") is (way not in UNTOLD), way
    assert max(delays) < longest
