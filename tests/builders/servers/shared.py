"""Fixtures of a server that many tests share, each with a project of its own."""

import uuid
from collections.abc import Iterator

import pytest

from ett_service.storage.engine.migrate import migrate
from tests.builders.servers.ett import Server, serving


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
