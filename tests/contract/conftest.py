"""A real server, and a client of it that holds every answer to the published description."""

import os
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from ett_service.storage.engine.migrate import migrate
from ett_service.storage.engine.store import open_store
from ett_service.storage.record.keys import create_project
from tests.builders.clock import NOON
from tests.builders.regressions.stored import finding, fires
from tests.builders.servers.ett import serving
from tests.contract.described import Described, Service

SEARCHED = "searched"
"""The project that has a regression."""

CORPUS = Path(os.environ.get("ETT_CORPUS", Path(__file__).parents[2] / "../shared/corpus"))


def pytest_itemcollected(item: pytest.Item) -> None:
    """Let one of several workers have all tests that share the server."""
    if isinstance(item, pytest.Function) and "served" in item.fixturenames:
        item.add_marker(pytest.mark.xdist_group("contract"))


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Serve a new SQLite file on a free port; the key may do everything."""
    folder = tmp_path_factory.mktemp("contract")
    url = f"sqlite:///{folder / 'ett.db'}"
    _search(url)
    settings = {"ETT_DETECTION": '{"enabled": false}'}
    with (
        serving(url, folder, key="", **settings) as server,
        Service(server.url, server.key, Described.by(server.url)) as service,
    ):
        yield service


def _search(url: str) -> None:
    """Store what a search found in a project of its own."""
    migrate(url)
    with closing(open_store(url)) as store:
        project_id = store.write(partial(create_project, name=SEARCHED, now_us=NOON))
        fires(store, project_id, finding())


@pytest.fixture(scope="session")
def corpus() -> Path:
    """Return the folder of logs and timelines that are kept outside the project."""
    if not CORPUS.is_dir():
        pytest.skip(f"the corpus is not there: {CORPUS} (set ETT_CORPUS)")
    return CORPUS
