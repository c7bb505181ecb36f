"""Events sent and published, and the page of metrics read back."""

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest

from ett_service.ingest.accept import accept
from ett_service.ingest.decode import decode
from ett_service.ingest.wire import Limits
from ett_service.metrics.families import TextFormat
from ett_service.metrics.page import FleetPart
from ett_service.storage.engine.store import Store
from ett_service.worker.ledgers import Worker
from ett_service.worker.metrics import MetricsThread
from tests.builders.clock import RECEIVED_AT
from tests.builders.metrics import Page, parsed

Ingest = Callable[..., None]
Scrape = Callable[[], Page]

_JSON = {"content-type": "application/json"}


@pytest.fixture
def ingest(store: Store, project_id: int) -> Ingest:
    """Return a function that takes wire events in, and publishes what the ledgers then say."""

    def publish(
        events: Sequence[dict[str, Any]], *, now_us: int = RECEIVED_AT, history: bool = False
    ) -> None:
        body = json.dumps({"events": events, "history": history}).encode()
        batch = decode(body, _JSON, now_us=now_us, limits=Limits())
        assert batch.refusals == ()
        store.write(partial(accept, batch=batch, project_id=project_id, now_us=now_us))
        worker = Worker(store, lambda: now_us)
        while worker.run_once():
            pass
        MetricsThread(store, lambda: now_us).publish()

    return publish


@pytest.fixture
def scrape(store: Store) -> Scrape:
    """Return a function that reads the fleet's part: samples by name and labels."""
    part = FleetPart(store.reading)

    def read() -> Page:
        _, text, left_out = part.read(TextFormat.PLAIN)
        assert left_out == 0
        return parsed(text.decode())

    return read
