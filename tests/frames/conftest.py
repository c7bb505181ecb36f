"""A real server on each engine with two jobs, and both ways to read it."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial

import pytest

from ett_service import frames
from ett_service.core.intervals import DAY_US
from ett_service.core.regressions.finding import Metric, Subject, Verdict
from ett_service.frames.http import HttpSource
from ett_service.frames.sql import SqlSource
from ett_service.storage.engine.store import Store, open_store
from ett_service.storage.record.keys import create_project
from tests.builders.clock import NOON
from tests.builders.databases.engines import new_database
from tests.builders.jobs import failing_job
from tests.builders.regressions.stored import finding, fires, searched
from tests.builders.servers.ett import Server, serving

BEGIN, END = "2026-03-01T00:00:00Z", "2026-03-03T00:00:00Z"


@dataclass(frozen=True)
class Deployment:
    """A running server that knows two jobs of two teams, and one without accelerators."""

    server: Server
    database_url: str


def pytest_itemcollected(item: pytest.Item) -> None:
    """Let one of several workers have all tests that share the server."""
    if isinstance(item, pytest.Function) and "deployment" in item.fixturenames:
        item.add_marker(pytest.mark.xdist_group("frames"))


@pytest.fixture(scope="session", params=("sqlite", "postgresql"))
def deployment(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Deployment]:
    """Serve a database of its own, on each engine in turn."""
    folder = tmp_path_factory.mktemp("frames")
    with ExitStack() as stack:
        url = stack.enter_context(new_database(request, folder))
        with closing(open_store(url)) as store:
            _fill_findings(store)
        server = stack.enter_context(serving(url, folder, ETT_DETECTION='{"enabled": false}'))
        events = [*failing_job(), *failing_job("vision 1", team="vision", code_version="2")]
        unknown = [
            {name: value for name, value in event.items() if name != "gpus"}
            for event in failing_job("probe")
        ]
        assert server.send([*events, *unknown], history=True).status == 200
        marker = {"at": BEGIN, "kind": "deploy", "title": "trainer 4.2"}
        HttpSource(server.url, server.key).ask("/v1/markers", body=marker)
        server.reaches("/v1/jobs", lambda page: len(page["jobs"]) == 3)
        yield Deployment(server, url)


def _fill_findings(store: Store) -> None:
    """Let searches find three regressions: one is over, one lapsed, and one gets better."""
    project_id = store.write(partial(create_project, name="research", now_us=NOON))
    quiet, lapsed = replace(finding(), holds=False), finding(cohort=())
    fires(store, project_id, finding(), at_us=NOON - 4 * DAY_US)
    for days, last in ((3, quiet), (2, quiet), (1, lapsed)):
        searched(store, project_id, NOON - days * DAY_US, last)
    better = finding(Subject(Metric.ETT_RATIO), (), verdict=Verdict.IMPROVEMENT, gpu_hours=None)
    fires(store, project_id, better, at_us=NOON + DAY_US)


@pytest.fixture
def over_http(deployment: Deployment) -> HttpSource:
    """Return the source that asks the server."""
    source = frames.connect(deployment.server.url, deployment.server.key)
    assert isinstance(source, HttpSource)
    return source


@pytest.fixture
def over_sql(deployment: Deployment) -> Iterator[SqlSource]:
    """Return the source that reads the views of the server's database."""
    source = frames.connect(deployment.database_url)
    assert isinstance(source, SqlSource)
    with closing(source):
        yield source
