"""A real service with its clocks 60 times faster, and requests to it."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from ett_service.client.sending.transport import request
from ett_service.storage.engine.migrate import migrate
from tests.builders.servers.ett import Server
from tests.builders.servers.programs import free_port
from tests.builders.servers.waiting import wait_for
from tests.live import page

QUICK = {
    "ETT_METRICS": '{"every_seconds": 0.5}',
    "ETT_LOST_AFTER_SECONDS": "15",
    "ETT_WORKER_POLL_SECONDS": "0.1",
}
"""An attempt is lost after 15 seconds, not minutes."""

_A_BATCH = 5000
_FOLDING_S = 900.0
"""Bounds a hang: two weeks of a fleet are folded in less, on a busy machine too."""


@contextmanager
def serving(folder: Path, **environment: str) -> Iterator[Server]:
    """Serve a new SQLite file, on a port that stays its own when it starts again."""
    database_url = f"sqlite:///{folder / 'ett.db'}"
    migrate(database_url)
    server = Server(database_url, folder, ETT_PORT=str(free_port()), **QUICK, **environment)
    server.start()
    try:
        yield server
    finally:
        server.stop()


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
    wait_for(lambda: server.get("/readyz")["waiting_jobs"] == 0, patience_s=_FOLDING_S)
    since = time.time()
    wait_for(lambda: page.read(server.url).get("ett_published_timestamp_seconds", 0) > since)


def shows(server: Server, beginning: str) -> None:
    """Wait until the page has a sample that begins so; sums over days come less often."""
    wait_for(lambda: any(series.startswith(beginning) for series in page.read(server.url)))
