"""Two replicas on one PostgreSQL report the same of the fleet."""

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack

import pytest

from ett_service.storage.engine.migrate import migrate
from tests.builders.databases.engines import new_postgresql
from tests.builders.jobs import failing_job
from tests.builders.servers.ett import Server
from tests.builders.servers.processes import Running
from tests.live import page
from tests.live.serving import QUICK, send, settled

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("replicas"), pytest.mark.timeout(1800)]

COMPARED = 20
ROUNDS = 1_000
"""Only bound a hang: on a busy machine numbers are published between most looks."""


@pytest.fixture(scope="module")
def replicas(
    postgres_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Server, Server]]:
    """Return two servers that compute nothing, with an ``ett worker`` beside them."""
    folder = tmp_path_factory.mktemp("replicas")
    with ExitStack() as stack:
        database_url = stack.enter_context(new_postgresql(postgres_url))
        migrate(database_url)
        pair = [
            Server(database_url, folder, ETT_EMBEDDED_WORKER="false", **QUICK) for _ in range(2)
        ]
        worker = Running("worker", folder=folder, environment=pair[0].environment)
        stack.callback(worker.stop)
        for server in pair:
            stack.callback(server.stop)
            server.start()
        yield pair[0], pair[1]


def _fleets(server: Server) -> Mapping[str, float]:
    return page.of(page.read(server.url), page.shared_samples())


def test_two_replicas_answer_the_same_about_the_fleet_while_it_moves(
    replicas: tuple[Server, Server],
) -> None:
    first, second = replicas
    settled(first)
    compared, revisions = 0, set[float]()
    for number in range(ROUNDS):
        if compared >= COMPARED and len(revisions) >= 3:
            break
        send(replicas[number % 2], failing_job(f"job-{number}", model=f"model-{number % 5}"))
        before, other, after = _fleets(first), _fleets(second), _fleets(first)
        revisions.add(after["ett_published_timestamp_seconds"])
        if before == after:
            assert other == after
            compared += 1
        time.sleep(0.05)
    assert compared >= COMPARED
    assert len(revisions) >= 3
    settled(first)
    assert _fleets(first) == _fleets(second)
    assert len(_fleets(first)) > 500
