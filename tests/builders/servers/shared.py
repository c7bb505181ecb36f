"""Fixtures of a server that many tests share, each with a project of its own."""

import uuid
from collections.abc import Iterator

import pytest

from tests.builders.servers.ett import Server, serving_new


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Serve a SQLite file to all tests that need no server of their own."""
    with serving_new(tmp_path_factory.mktemp("shared")) as server:
        yield server


@pytest.fixture
def server(shared: Server) -> Server:
    """Return a running server with its worker inside, and a key of a new project."""
    return shared.project(uuid.uuid4().hex)
