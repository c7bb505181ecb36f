"""A real server on each engine, told of two jobs, and both ways to read it."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ett_service import frames
from ett_service.frames.http import HttpSource
from ett_service.frames.sql import SqlSource
from tests.scenarios.conftest import Server
from tests.stories import failing_job

BEGIN, END = "2026-03-01T00:00:00Z", "2026-03-03T00:00:00Z"


@pytest.fixture
def server(database_url: str, tmp_path: Path) -> Iterator[Server]:
    """Return a running server that knows two jobs of two teams."""
    made = Server(database_url, tmp_path)
    try:
        made.start()
        events = [*failing_job(), *failing_job("vision/1".replace("/", "-"), team="vision")]
        assert made.send(events, history=True).status == 200
        made.reaches("/v1/jobs", lambda page: len(page["jobs"]) == 2)
        yield made
    finally:
        made.stop()


@pytest.fixture
def over_http(server: Server) -> HttpSource:
    """Return the source that asks the server."""
    source = frames.connect(server.url, server.key)
    assert isinstance(source, HttpSource)
    return source


@pytest.fixture
def over_sql(server: Server, database_url: str) -> Iterator[SqlSource]:
    """Return the source that reads the views of the server's database."""
    del server
    source = frames.connect(database_url)
    assert isinstance(source, SqlSource)
    with closing(source):
        yield source
