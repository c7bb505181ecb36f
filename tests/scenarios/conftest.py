"""Real processes: a server on a free port, a worker beside it, and what is sent to them."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from ett_service.storage.engine.migrate import migrate
from tests.builders.servers.ett import Server, serving
from tests.builders.servers.processes import Running


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Serve a SQLite file to all tests that need no server of their own."""
    folder = tmp_path_factory.mktemp("shared")
    url = f"sqlite:///{folder / 'ett.db'}"
    migrate(url)
    with serving(url, folder) as server:
        yield server


@pytest.fixture
def server(shared: Server) -> Server:
    """Return a running server with its worker inside, and a key of a new project."""
    return shared.project(uuid.uuid4().hex)


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
