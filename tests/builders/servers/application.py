"""The application in this process, with a clock and a worker that the test moves by hand."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from fastapi import FastAPI
from httpx2 import Response
from starlette.testclient import TestClient

from ett_service.api.access import UsageCounts
from ett_service.api.app import create_app
from ett_service.api.state import AppState
from ett_service.app import app_state, worker
from ett_service.ingest.wire import Limits
from ett_service.settings import Settings
from ett_service.storage.engine.store import Store
from ett_service.storage.record.keys import SCOPES, create_key
from ett_service.worker.ledgers import Worker
from tests.builders.clock import RECEIVED_AT, Clock


@dataclass
class Service:
    """The application with the helpers of a test."""

    client: TestClient
    store: Store
    worker: Worker
    clock: Clock
    usage: UsageCounts

    def key(self, scopes: Collection[str] = SCOPES, project: str = "research") -> str:
        """Make a key."""
        return self.store.write(
            lambda conn: create_key(
                conn, project=project, name="test", scopes=scopes, now_us=self.clock.now_us
            )
        )

    def send(self, events: Sequence[dict[str, Any]], **batch: Any) -> Response:
        """Post one batch."""
        return self.client.post("/v1/events", json={"events": list(events), **batch})

    def ingest(self, events: Sequence[dict[str, Any]], **batch: Any) -> None:
        """Post one batch of good events, and let the worker do what there is to do."""
        answer = self.send(events, **batch)
        assert answer.status_code == 200, answer.text
        assert answer.json()["rejected"] == 0, answer.text
        self.settle()

    def settle(self) -> None:
        """Let the worker do what there is to do."""
        while self.worker.run_once():
            pass

    def get(self, path: str, status: int = 200, **query: Any) -> Any:
        """Read an answer, which must have this *status*."""
        answer = self.client.get(path, params=query)
        assert answer.status_code == status, answer.text
        return answer.json()


LIMITS = Limits(max_body_bytes=200_000, max_inflated_bytes=400_000, max_batch_events=200)

_opened: list[AppState] = []


def state_of(store: Store, now_us: Callable[[], int], **parts: Any) -> AppState:
    """Put together what ``ett serve`` stands on without settings, but for some *parts*.

    Its worker is not started. ``/metrics`` needs a key even from this machine.
    """
    settings = Settings(database_url=store.url)
    state = app_state(settings, store, now_us, worker(settings, store, now_us))
    return replace(state, **{"local_metrics": False} | parts)


@contextmanager
def running(store: Store, **parts: Any) -> Iterator[Service]:
    """Run the application with these *parts* of its own; its client has a key of every scope."""
    clock = Clock(RECEIVED_AT)
    state = state_of(store, clock, **{"limits": LIMITS} | parts)
    assert isinstance(state.worker, Worker)
    _opened.append(state)
    with TestClient(_app()) as client:
        service = Service(client, store, state.worker, clock, client.app_state["usage"])
        client.headers["Authorization"] = f"Bearer {service.key()}"
        yield service
    _opened.remove(state)


@cache
def _app() -> FastAPI:
    """Make the application once; it opens the state of one test after the other."""
    return create_app(lambda: nullcontext(_opened[-1]))
