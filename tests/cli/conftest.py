"""The command as its users meet it: a real process, beside a real server."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.builders.servers import processes
from tests.builders.servers.ett import Server, serving
from tests.builders.servers.processes import bare_environment
from tests.builders.servers.waiting import wait_for


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
    """Return a function that runs the command in the test's folder, in a process of its own."""

    def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return processes.run(*arguments, environment=bare_environment() | variables)

    return run


def pytest_itemcollected(item: pytest.Item) -> None:
    """Let one of several workers have all tests that share the server."""
    if (
        isinstance(item, pytest.Function)
        and "served" in item.fixturenames
        and not item.get_closest_marker("xdist_group")
    ):
        item.add_marker(pytest.mark.xdist_group("cli"))


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Serve a new SQLite file on a free port, with one job in it."""
    folder = tmp_path_factory.mktemp("served")
    with serving(f"sqlite:///{folder / 'ett.db'}", folder, key="") as server:
        server.ask("POST", "/v1/events", {"history": True, "events": story()})
        wait_for(lambda: server.knows("llm-7b"))
        yield server


@pytest.fixture
def in_environment(served: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have commands find the server in their environment."""
    monkeypatch.setenv("ETT_URL", served.url)
    monkeypatch.setenv("ETT_API_KEY", served.key)


def story() -> list[dict[str, Any]]:
    """Return a job that is killed once, restarts from a checkpoint and completes."""
    first: dict[str, Any] = {"attempt": 0}
    second: dict[str, Any] = {"attempt": 1}
    timeline: list[tuple[str, str, dict[str, Any]]] = [
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
            for at, kind, members in timeline
        ),
    ]
