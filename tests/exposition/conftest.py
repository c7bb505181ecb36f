"""Ledgers of told jobs, and the page of metrics read back."""

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from ett_service.exposition.collector import LedgerCollector
from ett_service.ingest.accept import accept
from ett_service.ingest.decode import decode
from ett_service.ingest.limits import Limits
from ett_service.storage.engine import Store
from ett_service.worker.loop import Worker
from tests.builders import RECEIVED_AT

Tell = Callable[..., None]
Labels = tuple[tuple[str, str], ...]
Page = dict[str, dict[Labels, float]]

_JSON = {"content-type": "application/json"}


@pytest.fixture
def tell(store: Store, project_id: int) -> Tell:
    """Return a function that takes wire events in and brings the ledgers up to them."""

    def told(
        events: Sequence[dict[str, Any]], *, now_us: int = RECEIVED_AT, history: bool = False
    ) -> None:
        body = json.dumps({"events": events, "history": history}).encode()
        batch = decode(body, _JSON, now_us=now_us, limits=Limits())
        assert batch.refusals == ()
        store.write(partial(accept, batch=batch, project_id=project_id, now_us=now_us))
        worker = Worker(store, lambda: now_us)
        while worker.pass_over():
            pass

    return told


@pytest.fixture
def scrape(store: Store) -> Callable[[], Page]:
    """Return a function that reads the page: samples by name and labels."""
    registry = CollectorRegistry()
    registry.register(LedgerCollector(store.reading, "1.2.3"))
    return lambda: parsed(generate_latest(registry).decode())


def parsed(page: str) -> Page:
    """Parse a page of metrics, each of whose samples comes once."""
    found: Page = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            samples = found.setdefault(sample.name, {})
            labels = tuple(sorted(sample.labels.items()))
            assert labels not in samples
            samples[labels] = sample.value
    return found


def labelled(**labels: str) -> Labels:
    """Build the labels of a sample."""
    return tuple(sorted(labels.items()))
