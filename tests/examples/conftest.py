"""A real server for the examples that need no Python."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from ett_service.storage.engine.migrate import migrate
from tests.builders.servers.ett import Server, serving

EXAMPLES = Path(__file__).parents[2] / "examples"


def pytest_itemcollected(item: pytest.Item) -> None:
    """Let one of several workers have all tests that share the server."""
    if isinstance(item, pytest.Function) and "shared" in item.fixturenames:
        item.add_marker(pytest.mark.xdist_group("examples"))


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Serve a SQLite file to all tests of examples."""
    folder = tmp_path_factory.mktemp("examples")
    url = f"sqlite:///{folder / 'ett.db'}"
    migrate(url)
    with serving(url, folder) as server:
        yield server


@pytest.fixture
def server(shared: Server) -> Server:
    """Return a running server, with a key of a new project."""
    return shared.project(uuid.uuid4().hex)
