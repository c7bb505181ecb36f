"""A fleet that lives 60 times faster, scraped by a real Prometheus."""

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pytest

from ett_service.client.transport import request
from ett_service.core.instant import rfc3339
from ett_service.core.interval import SECOND_US
from ett_service.demo.generator import Fleet, generate
from ett_service.storage.migrate import migrate
from tests.live import page
from tests.live.compressed import Clock, Player, Told, instant, tape
from tests.live.programs import eventually, free_port
from tests.live.prometheus import Prometheus
from tests.scenarios.conftest import Server

LIVE_S = 40
FLEET_SEED = 16
FLEET_ENDS = "2026-03-04T14:20:00Z"

QUICK = {
    "ETT_METRICS": '{"every_seconds": 0.5}',
    "ETT_LOST_AFTER_SECONDS": "15",
    "ETT_WORKER_POLL_SECONDS": "0.1",
}
"""A clock 60 times faster: an attempt is lost after 15 seconds, not minutes."""

_A_BATCH = 5000


@dataclass
class Live:
    """The fleet that is told: what was before *began_us* at once, then all as it happens."""

    server: Server
    prometheus: Prometheus
    tape: list[Told]
    began_us: int
    ended_us: int

    def running(self) -> Iterator[dict[str, Any]]:
        """Return an end of each attempt that runs at the end."""
        latest = {one.event["job"]: one.event for one in self.tape if one.due_us <= self.ended_us}
        for last in latest.values():
            if last["type"] == "heartbeat":
                ending = {"type": "attempt_ended", "outcome": "completed"}
                yield {**last, **ending, "at": rfc3339(self.ended_us)}


def send(server: Server, events: list[Any], **batch: Any) -> None:
    """Post events, all of which must be taken."""
    rest = iter(events)
    while part := list(islice(rest, _A_BATCH)):
        answer = server.send(part, **batch)
        assert answer.status == 200, answer.body[:500]
        assert json.loads(answer.body)["rejected"] == 0, answer.body[:500]


def ask(server: Server, method: str, path: str, body: object = None) -> Any:
    """Send one request, which must succeed, and return the answer."""
    sent = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    answer = request(method, server.url + path, server.key, sent, headers)
    assert answer.status < 300, answer.body
    return json.loads(answer.body) if answer.body else None


def settled(server: Server) -> None:
    """Wait until all that came in is in the numbers, and these are published."""
    eventually(lambda: server.get("/readyz")["waiting_jobs"] == 0)
    since = time.time()
    eventually(lambda: page.one(page.read(server.url), "ett_published_timestamp_seconds") > since)


@pytest.fixture(scope="session")
def fleet() -> Fleet:
    """Return three days of the demo's fleet, always the same."""
    return generate(seed=FLEET_SEED, days=3, end_us=instant(FLEET_ENDS))


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Serve a new SQLite file, on a port that stays its own when it starts again."""
    folder = tmp_path_factory.mktemp("served")
    database_url = f"sqlite:///{folder / 'ett.db'}"
    migrate(database_url)
    server = Server(database_url, folder, ETT_PORT=str(free_port()), **QUICK)
    with ExitStack() as stack:
        stack.callback(server.stop)
        server.start()
        yield server


@pytest.fixture(scope="session")
def live(served: Server, fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """Tell the fleet's last minutes as they happen, to their end, while it is scraped."""
    began_us = time.time_ns() // 1000
    ended_us = began_us + LIVE_S * SECOND_US
    fleet_began_us = instant(FLEET_ENDS) - 60 * LIVE_S * SECOND_US
    told = tape(fleet, Clock(fleet_began_us, began_us), ended_us)
    send(served, [one.event for one in told if one.due_us <= began_us])
    settled(served)
    prometheus = Prometheus(
        tmp_path_factory.mktemp("prometheus"), targets=[served.url.removeprefix("http://")]
    )
    player = Player(
        [one for one in told if one.due_us > began_us], lambda events: send(served, events)
    )
    with ExitStack() as stack:
        stack.callback(prometheus.stop)
        prometheus.start()
        stack.callback(player.stop)
        player.start()
        player.finish()
        yield Live(served, prometheus, told, began_us, ended_us)
