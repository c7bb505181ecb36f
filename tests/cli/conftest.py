"""The command as its users meet it: a real process, beside a real server."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest

from ett_service.client.transport import request

ETT = str(Path(sys.executable).with_name("ett"))
SERVING = re.compile(r"Serving on (http://[^\s\"]+)")


def bare_environment() -> dict[str, str]:
    """Return the environment without any variable of ours."""
    return {name: value for name, value in os.environ.items() if not name.startswith("ETT_")}


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each test in an empty folder, with no setting and no spool from outside."""
    monkeypatch.chdir(tmp_path)
    for name in os.environ:
        if name.startswith("ETT_") and name != "ETT_TEST_DATABASE_URL":
            monkeypatch.delenv(name)
    monkeypatch.setenv("ETT_SPOOL", str(tmp_path / "spool"))


class Ett(Protocol):
    """Runs the command ``ett`` with these arguments and variables."""

    def __call__(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]: ...


@pytest.fixture
def ett() -> Ett:
    """Return a function that runs the real command in the test's folder."""

    def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [ETT, *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            env=bare_environment() | variables,
        )

    return run


@dataclass(frozen=True)
class Served:
    """A running server, the database that it holds, and a key for everything."""

    url: str
    key: str
    database_url: str

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """Send one request with the key and return the answer, which must be a success."""
        sent = None if body is None else json.dumps(body).encode()
        answer = request(
            method, self.url + path, self.key, sent, {"Content-Type": "application/json"}
        )
        assert answer.status < 300, answer.body
        return json.loads(answer.body) if answer.body else None

    def knows(self, job: str) -> bool:
        """Tell whether the numbers of *job* can be read."""
        return job in {found["job"] for found in self.ask("GET", "/v1/jobs")["jobs"]}


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Serve a new SQLite file on a free port, with one job in it."""
    folder = tmp_path_factory.mktemp("served")
    database_url = f"sqlite:///{folder / 'ett.db'}"
    log = (folder / "log").open("w+")
    process = subprocess.Popen(
        [ETT, "serve", "--port", "0"],
        cwd=folder,
        env=bare_environment() | {"ETT_DATABASE_URL": database_url},
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
    )
    try:
        assert process.stdout is not None
        key = process.stdout.readline().strip()
        served = Served(address((folder / "log").read_text().splitlines()), key, database_url)
        served.ask("POST", "/v1/events", {"history": True, "events": story()})
        eventually(lambda: served.knows("llm-7b"))
        yield served
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
        log.close()


def address(log: Iterable[str]) -> str:
    """Return where the server says that it serves, as soon as it says so."""
    lines = []
    for line in log:
        if found := SERVING.search(line):
            return found.group(1)
        lines.append(line)
    pytest.fail("the server did not start:\n" + "".join(lines))


def eventually(happened: Callable[[], bool]) -> None:
    """Wait until *happened* returns true, 20 s at most."""
    deadline = time.monotonic() + 20
    while not happened():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


def story() -> list[dict[str, Any]]:
    """Tell of a job that is killed once, restarts from a checkpoint and completes."""
    first: dict[str, Any] = {"attempt": 0}
    second: dict[str, Any] = {"attempt": 1}
    told: list[tuple[str, str, dict[str, Any]]] = [
        ("00:00.000001", "attempt_started", {**first, "gpus": 8}),
        ("00:10", "phase_started", {**first, "phase": "launcher_init"}),
        ("01:00", "phase_started", {**first, "phase": "pt2_compile"}),
        ("02:00", "phase_started", {**first, "phase": "train_loop"}),
        ("02:00", "phase_ended", {**first, "phase": "pt2_compile"}),
        ("03:00", "progress", {**first, "step": 60}),
        ("03:00", "checkpoint_saved", {**first, "step": 60}),
        ("04:00", "progress", {**first, "step": 120}),
        ("04:30", "attempt_ended", {**first, "outcome": "failed", "exit_code": 137, "signal": 9}),
        ("05:00", "attempt_started", {**second, "gpus": 8}),
        ("05:10", "phase_started", {**second, "phase": "launcher_init"}),
        ("05:40", "checkpoint_restored", {**second, "step": 60}),
        ("06:00", "phase_started", {**second, "phase": "train_loop"}),
        ("07:00", "progress", {**second, "step": 120}),
        ("09:00.5", "progress", {**second, "step": 240}),
        ("09:10", "phase_ended", {**second, "phase": "train_loop"}),
        ("09:20", "attempt_ended", {**second, "outcome": "completed"}),
    ]
    facts = {"job": "llm-7b", "type": "job", "at": "2026-03-01T08:00:00Z", "team": "pretraining"}
    return [
        {**facts, "model": "llm", "gpus": 8},
        *(
            {"job": "llm-7b", "type": kind, "at": f"2026-03-01T08:{at}Z", **members}
            for at, kind, members in told
        ),
    ]
