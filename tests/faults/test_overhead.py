"""What a call costs while the server is down or slow."""

import json
import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from tests.builders.servers.programs import free_port
from tests.builders.trainers import environment, run_trainer

log = logging.getLogger(__name__)

TRAINER = """
import json, os, sys, time
ett.init(torch=False)
emits, taken, bare, busy = int(sys.argv[1]), [], [], 0
read, cpu = time.perf_counter_ns, time.thread_time_ns
line = b"x" * 300
file = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
for first in range(0, emits, 100):
    busy -= cpu()
    for n in range(first, first + 100):
        began = read()
        if n % 100:
            ett.step(n)
        else:
            with ett.phase("evaluation"):
                pass
        taken.append(read() - began)
    busy += cpu()
    for n in range(100):
        began = read()
        if n % 100 == 0:
            os.write(file, line)
            os.write(file, line)
        while read() - began < 5_000:
            pass
        bare.append(read() - began)
taken.sort()
bare.sort()
print(json.dumps({"p50_us": taken[emits // 2] / 1e3, "p999_us": taken[emits * 999 // 1000] / 1e3,
    "worst_us": taken[-1] / 1e3, "worst_us_of_bare_work": bare[-1] / 1e3,
    "share_of_a_step_of_10_ms": busy / emits / 1e7}))
"""
"""Every hundredth step has an evaluation. After a hundred calls comes as much bare work,
5 us and two writes for an evaluation, which waits as often for whom the system lets run."""


@contextmanager
def down() -> Iterator[str]:
    """Give the address of a server that is away."""
    yield f"http://127.0.0.1:{free_port()}"


@contextmanager
def slow() -> Iterator[str]:
    """Give the address of a server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.parametrize("server", [down, slow])
@pytest.mark.parametrize("emits", [20_000, pytest.param(1_000_000, marks=pytest.mark.long)])
def test_no_call_waits_for_a_server(
    tmp_path: Path, server: Callable[[], AbstractContextManager[str]], emits: int
) -> None:
    with server() as url:
        file = str(tmp_path / "bare")
        done = run_trainer(TRAINER, environment(tmp_path, url), str(emits), file)
    assert done.returncode == 0, done.stderr
    costs = json.loads(done.stdout)
    log.warning("%d calls: %s", emits, costs)
    # Orders of magnitude below what any exchange would take. Where the machine is busy, some bare
    # work waits as long as the system lets others run: of a thousand calls at most one may.
    # The share of a step is of processor time: who else is busy is not in it.
    assert costs["p50_us"] <= 20
    assert costs["p999_us"] <= max(5000, 2 * costs["worst_us_of_bare_work"])
    assert costs["share_of_a_step_of_10_ms"] <= 0.001
