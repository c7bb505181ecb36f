"""Several processes serve one socket; one that is killed is replaced, and all end together."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ett_service.client.sending.transport import request
from ett_service.storage.engine.store import Store
from tests.builders.servers.ett import address, new_key
from tests.builders.servers.processes import Running, bare_environment, run
from tests.builders.servers.waiting import PATIENCE_S, wait_for

NUMBER = 2


def children(pid: int) -> set[int]:
    return set(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


@pytest.fixture
def served(store: Store, tmp_path: Path) -> Iterator[Running]:
    environment = {
        **bare_environment(),
        "ETT_DATABASE_URL": store.url,
        "ETT_EMBEDDED_WORKER": "false",
    }
    command = ("serve", "--port", "0", "--workers", str(NUMBER))
    process = Running(*command, folder=tmp_path, environment=environment)
    yield process
    assert process.stop() == 0
    assert wait_for(lambda: not Path(f"/proc/{process.pid}").exists())


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_processes_serve_one_address_and_a_killed_one_is_replaced(
    served: Running, store: Store
) -> None:
    url = address(served)
    key = new_key(store.url)
    before = wait_for(lambda: of if len(of := children(served.pid)) == NUMBER else None)
    assert request("GET", f"{url}/v1/jobs", key).status == 200

    os.kill(min(before), signal.SIGKILL)

    assert wait_for(lambda: len(children(served.pid) - before) == 1)
    assert request("GET", f"{url}/v1/jobs", key).status == 200
    assert len(re.findall("killed by signal 9", served.err)) == 1


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_processes_end_with_the_one_that_began_them(store: Store, tmp_path: Path) -> None:
    environment = {**bare_environment(), "ETT_DATABASE_URL": store.url}
    command = ("serve", "--port", "0", "--workers", str(NUMBER))
    process = Running(*command, folder=tmp_path, environment=environment)
    begun = wait_for(lambda: of if len(of := children(process.pid)) == NUMBER else None)
    request("GET", f"{address(process)}/healthz")
    process.kill()
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in begun))


SLOW_TO_BEGIN = """
import os, time
from ett_service.api import processes
os.register_at_fork(after_in_child=lambda: time.sleep(1))
processes.run(1, lambda: time.sleep(600))
"""


def test_a_process_that_has_just_begun_is_asked_to_end_as_well() -> None:
    with subprocess.Popen([sys.executable, "-c", SLOW_TO_BEGIN]) as first:
        wait_for(lambda: children(first.pid))
        first.send_signal(signal.SIGTERM)
        assert first.wait(PATIENCE_S) == 0


def test_a_sqlite_file_is_served_by_one_process(tmp_path: Path) -> None:
    done = run("serve", "--workers", "2", folder=tmp_path, environment=bare_environment())
    assert done.returncode == 1
    assert "One process writes a SQLite file" in done.stderr


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_one_that_fails_ends_all(store: Store, tmp_path: Path) -> None:
    environment = {**bare_environment(), "ETT_DATABASE_URL": store.url + "-gone"}
    began = time.monotonic()
    done = run("serve", "--port", "0", "--workers", "2", folder=tmp_path, environment=environment)
    assert done.returncode == 1
    assert time.monotonic() - began < 60
