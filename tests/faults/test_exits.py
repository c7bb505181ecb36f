"""Every way to leave, with a server that does not answer: soon, and with everything kept."""

import logging
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Timer

import pytest

from tests.builders.servers.waiting import PATIENCE_S
from tests.builders.trainers import environment, spooled

log = logging.getLogger(__name__)

UNRECORDED = """
import os, signal, sys, time
def leave():
    os.write(1, repr(time.monotonic()).encode())
"""
BEFORE = f"""{UNRECORDED}
import ett_service as ett
ett.init(torch=False)
for n in range(20):
    with ett.phase("evaluation"):
        pass
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

LONGEST_EXIT_S = 2.0  #: beyond what it takes without any recording
GIVEN_UP_S = 10.0  #: when a connection would be
GRACE_S = 10.0  #: between the signal of a scheduler and its SIGKILL


@pytest.fixture
def silent() -> Iterator[str]:
    """Return the address of a server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def delay(code: str, folder: Path, url: str, before: str = BEFORE) -> float:
    """Run a trainer, and return the seconds from when it leaves until it is gone."""
    done = subprocess.run(
        [sys.executable, "-c", before + code],
        env=environment(folder, url),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        timeout=PATIENCE_S,
        check=False,
    )
    return time.monotonic() - float(done.stdout)


@pytest.mark.parametrize(
    ("at_once", "tries", "longest"),
    [
        (len(WAYS), 1, GIVEN_UP_S),
        pytest.param(1, 3, LONGEST_EXIT_S, marks=pytest.mark.long, id="long"),
    ],
)
def test_every_exit_is_soon_and_keeps_what_the_server_did_not_take(
    tmp_path: Path, silent: str, at_once: int, tries: int, longest: float
) -> None:
    """The best of some tries counts: a busy machine is slow in some, a late exit in each."""
    took: dict[str, list[float]] = {way: [] for way in WAYS}
    bare = []
    for number in range(tries):
        folders = [tmp_path / f"{number}-{place}" for place in range(len(WAYS))]
        with ThreadPoolExecutor(at_once) as pool:
            delays = list(pool.map(delay, WAYS.values(), folders, [silent] * len(WAYS)))
        for way, folder, seconds in zip(WAYS, folders, delays, strict=True):
            took[way].append(seconds)
            _has_kept_everything(folder, way)
        bare.append(delay("leave()", tmp_path / "bare", silent, before=UNRECORDED))
    best = {way: min(each) - min(bare) for way, each in took.items()}
    log.warning("%s", {way: f"{seconds:.2f} s" for way, seconds in best.items()})
    assert max(best.values()) < longest


def _has_kept_everything(folder: Path, way: str) -> None:
    events = spooled(folder)
    assert sum(event.get("phase") == "evaluation" for event in events) == 40, way
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1)), way
    assert (events[-1]["type"] == "attempt_ended") is (way not in UNTOLD), way


def test_a_trainer_is_gone_with_all_it_has_to_say_before_a_scheduler_kills_it(
    tmp_path: Path, silent: str
) -> None:
    code = """
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
leave(); time.sleep(60)"""
    with subprocess.Popen(
        [sys.executable, "-c", BEFORE + code],
        env=environment(tmp_path, silent),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as trainer:
        assert trainer.stdout is not None
        assert trainer.stdout.read(1)
        trainer.terminate()
        killer = Timer(GRACE_S, trainer.kill)
        killer.start()
        code_of_exit = trainer.wait(PATIENCE_S)
        killer.cancel()
    assert code_of_exit == 0
    _has_kept_everything(tmp_path, "a scheduler's SIGTERM")
