"""Calls the application and records its answers, for the examples of its description.

Answers are real. Their lists are cut to two items, and random texts (keys, secrets) are replaced by
fixed ones.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from fractions import Fraction
from tempfile import TemporaryDirectory
from typing import Any

from fastapi.routing import APIRoute
from httpx2 import Response
from starlette.testclient import TestClient

from ett_service.api.access import UsageCounts
from ett_service.api.app import ROUTERS, create_app
from ett_service.api.state import AppState, Notifications
from ett_service.core.intervals import DAY_US
from ett_service.fleet.economy import Economy, Price, Target
from ett_service.ingest.wire import Limits
from ett_service.notifications.formats import FORMATS
from ett_service.notifications.notice import OF_SETTINGS, Receiver
from ett_service.notifications.routing import Directory
from ett_service.notifications.sender import Outcome, Sender
from ett_service.storage.engine.migrate import migrate
from ett_service.storage.engine.seal import Keyring
from ett_service.storage.engine.store import Store, open_store
from ett_service.storage.record.keys import SCOPES, create_key
from ett_service.worker.ledgers import Worker
from tests.builders.clock import NOON, SECOND, Clock

Example = dict[str, Any]
Recorded = dict[str, dict[str, Example]]
"""By noun, then by operation: the request's body and the answers, by status and media type."""

MOST_ITEMS = 2
MOST_LINES = 4
NOUNS = ("record", "jobs", "fleet", "regressions", "receivers", "metrics", "health")

JSON, CSV = "application/json", "text/csv"
ECONOMY = Economy(
    prices=(Price("h100", 0, Fraction(5, 2)), Price("a100", 0, Fraction(3, 2))),
    targets=(Target({}, 0.9),),
)


_ROUTES = [route for router in ROUTERS for route in router.routes if isinstance(route, APIRoute)]


def _noun_of(route: APIRoute) -> str:
    return route.endpoint.__module__.split(".")[2]


_NOUN_OF = {route.operation_id: _noun_of(route) for route in _ROUTES}


def questions_about(noun: str) -> list[tuple[str, str]]:
    """Return the operation and the path of each route of *noun* that reads."""
    return [
        (str(route.operation_id), route.path)
        for route in _ROUTES
        if _noun_of(route) == noun and "GET" in (route.methods or ())
    ]


class SteadySender(Sender):
    """Delivers to nobody, and always within 0.12 seconds."""

    def check(self, owner: int, url: str) -> None:
        """Accept every address."""

    def send(self, *_: object) -> Outcome:
        """Deliver nothing."""
        return Outcome(200, "ok", 120_000)


@dataclass
class Switch:
    """A worker that runs or does not, as the recording needs it."""

    alive: bool = True
    folds: bool = True

    def wake(self) -> None:
        """Do nothing: the recording runs the worker itself."""


@dataclass
class Recording:
    """Calls the application, and records its answers."""

    client: TestClient
    store: Store
    worker: Worker
    clock: Clock
    switch: Switch
    usage: UsageCounts
    recorded: Recorded = field(default_factory=lambda: {noun: {} for noun in NOUNS})
    shown: dict[str, str] = field(default_factory=dict)
    """What is shown in place of random texts."""

    def ask(
        self,
        operation: str,
        request: str,
        body: Mapping[str, Any] | None = None,
        *,
        accept: str = JSON,
        as_csv: bool = False,
    ) -> Any:
        """Record the answer to *request*, as ``GET /path``."""
        self.clock.now_us += SECOND
        method, path = request.split(" ", 1)
        answer = self.client.request(method, path, json=body, headers={"Accept": accept})
        example = self._example(operation)
        if body is not None:
            example.setdefault("request", {})[JSON] = body
        self._keep(example, answer, answer.headers["content-type"].partition(";")[0])
        if as_csv:
            query = "&" if "?" in path else "?"
            self._keep(example, self.client.get(f"{path}{query}format=csv"), CSV)
        return answer.json() if answer.headers["content-type"].endswith("json") else answer.text

    def show(self, actual: str, shown: str) -> None:
        """Show a fixed text in place of a random one."""
        self.shown[actual] = shown

    def count_usage(self) -> None:
        """Write what keys sent until now, as a server does every ten seconds."""
        self.usage.write(self.store, self.clock.now_us)

    def settle(self) -> None:
        """Fold what was sent."""
        while self.worker.run_once():
            pass

    def finished(self) -> Recorded:
        """Return what was recorded, with random texts replaced."""
        text = json.dumps(self.recorded)
        for actual in sorted(self.shown, key=len, reverse=True):
            text = text.replace(actual, self.shown[actual])
        finished: Recorded = json.loads(text)
        return finished

    def _example(self, operation: str) -> Example:
        return self.recorded[_NOUN_OF[operation]].setdefault(operation, {"answers": {}})

    def _keep(self, example: Example, answer: Response, media: str) -> None:
        assert answer.status_code < 400 or answer.status_code == 503, answer.text
        is_json = answer.headers["content-type"].startswith(JSON)
        excerpt = _shortened(answer.json()) if is_json else _first_lines(answer.text)
        example["answers"].setdefault(str(answer.status_code), {})[media] = excerpt


def _shortened(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _shortened(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_shortened(item) for item in value[:MOST_ITEMS]]
    return value


def _first_lines(text: str) -> str:
    lines = text.splitlines(keepends=True)
    start = next((i for i, line in enumerate(lines) if "ett_phase_seconds" in line), 0)
    return "".join(lines[start : start + MOST_LINES])


@contextmanager
def recording() -> Iterator[Recording]:
    """Serve an empty database to a recording."""
    with TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/ett.db"
        migrate(url)
        with closing(open_store(url)) as store:
            yield from _served(store)


def _served(store: Store) -> Iterator[Recording]:
    clock, switch = Clock(NOON + DAY_US), Switch()
    worker = Worker(store, clock)
    of_settings = Receiver(OF_SETTINGS, "fleet", "https://hooks.slack.com/x", FORMATS["slack"])
    notifications = Notifications(
        Directory([of_settings], Keyring("k" * 32)), SteadySender, "https://ett.example.com"
    )
    state = AppState(store, clock, Limits(), switch, economy=ECONOMY, notifications=notifications)
    key = store.write(
        lambda conn: create_key(
            conn, project="research", name="on call", scopes=SCOPES, now_us=NOON
        )
    )
    with TestClient(create_app(lambda: nullcontext(state))) as client:
        client.headers["Authorization"] = f"Bearer {key}"
        recorder = Recording(client, store, worker, clock, switch, client.app_state["usage"])
        recorder.show(key[:12], "ett_4Zk0Xw7b")
        yield recorder
