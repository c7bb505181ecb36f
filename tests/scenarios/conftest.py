"""Real processes: a server on a free port, a worker beside it, and what they are told."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ett_service.client.transport import Response, request
from ett_service.storage.engine.store import open_store
from ett_service.storage.record.keys import SCOPES, create_key

PATIENCE_S = 60.0

ETT = str(Path(sys.executable).with_name("ett"))


class Server:
    """An ``ett serve`` of its own, on one database."""

    def __init__(self, database_url: str, folder: Path, **settings: str) -> None:
        self.folder = folder
        self.url = ""
        self.key = _key(database_url)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("ETT_")}
        self.environment = {**kept, "ETT_DATABASE_URL": database_url, "ETT_PORT": "0", **settings}
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start it, and wait until it serves."""
        log = self.folder / f"serve-{time.monotonic_ns()}.log"
        with log.open("w") as stderr:
            self._process = _run("serve", self.environment, self.folder, stderr)
        found = wait_for(lambda: re.search(r"Serving on (http://\S+)", log.read_text()))
        self.url = found[1]

    def kill(self) -> None:
        """End it as a power cut would."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(PATIENCE_S)

    def stop(self) -> None:
        """Ask it to end, unless it has."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            assert self._process.wait(PATIENCE_S) == 0

    def send(self, events: Sequence[dict[str, Any]], **batch: Any) -> Response:
        """Post one batch."""
        body = json.dumps({"events": list(events), **batch}).encode()
        headers = {"Content-Type": "application/json"}
        return request("POST", f"{self.url}/v1/events", self.key, body, headers, timeout=10)

    def get(self, path: str) -> Any:
        """Read an answer; None for a job that is not there yet."""
        answer = request("GET", self.url + path, self.key, timeout=10)
        if answer.status == 404:
            return None
        assert answer.status == 200, answer.body
        return json.loads(answer.body)

    def reaches(self, path: str, is_there: Callable[[Any], bool]) -> Any:
        """Wait until an answer is as it is to be."""

        def look() -> Any:
            answer = self.get(path)
            return answer if answer is not None and is_there(answer) else None

        return wait_for(look)


def wait_for(look: Callable[[], Any]) -> Any:
    """Look until there is something to see, and return it."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        if found := look():
            return found
        time.sleep(0.02)
    raise AssertionError("it did not come about in time")


def _key(database_url: str) -> str:
    store = open_store(database_url)
    try:
        return store.write(
            lambda conn: create_key(conn, project="research", name="test", scopes=SCOPES, now_us=0)
        )
    finally:
        store.close()


def _run(
    verb: str, environment: dict[str, str], folder: Path, stderr: Any
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [ETT, verb],
        cwd=folder,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=stderr,
        text=True,
    )


@pytest.fixture
def server(database_url: str, tmp_path: Path) -> Iterator[Server]:
    """Return a running server with its worker inside, on each engine in turn."""
    made = Server(database_url, tmp_path)
    with ExitStack() as stack:
        stack.callback(made.stop)
        made.start()
        yield made


@pytest.fixture
def server_and_worker(database_url: str, tmp_path: Path) -> Iterator[Server]:
    """Return a running server that computes nothing, with an ``ett worker`` beside it."""
    made = Server(database_url, tmp_path, ETT_EMBEDDED_WORKER="false")
    with (tmp_path / "worker.log").open("w") as stderr:
        worker = _run("worker", made.environment, tmp_path, stderr)
    with ExitStack() as stack:
        stack.callback(worker.wait, PATIENCE_S)
        stack.callback(worker.terminate)
        stack.callback(made.stop)
        made.start()
        yield made
