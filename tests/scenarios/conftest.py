"""Real processes: a server on a free port, a worker beside it, and what is sent to them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders.servers.ett import Server, serving
from tests.builders.servers.processes import Running
from tests.builders.servers.shared import server, shared

__all__ = ["server", "shared"]


@pytest.fixture
def own_server(database_url: str, tmp_path: Path) -> Iterator[Server]:
    """Return a running server that nobody else uses, on each engine in turn."""
    with serving(database_url, tmp_path) as server:
        yield server


@pytest.fixture
def server_and_worker(database_url: str, tmp_path: Path) -> Iterator[Server]:
    """Return a running server that computes nothing, with an ``ett worker`` beside it."""
    with serving(database_url, tmp_path, ETT_EMBEDDED_WORKER="false") as server:
        worker = Running("worker", folder=tmp_path, environment=server.environment)
        yield server
        assert worker.stop() == 0
