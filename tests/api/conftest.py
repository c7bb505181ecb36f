"""The application on a real store."""

from collections.abc import Iterator

import pytest

from ett_service.api.state import AppState
from ett_service.storage.engine.store import Store
from ett_service.worker.ledgers import Worker
from tests.builders.clock import RECEIVED_AT, Clock
from tests.builders.servers.application import LIMITS, Service, running


@pytest.fixture
def state(store: Store) -> AppState:
    clock = Clock(RECEIVED_AT)
    return AppState(store=store, now_us=clock, limits=LIMITS, worker=Worker(store, clock))


@pytest.fixture
def service(store: Store) -> Iterator[Service]:
    """Return the application on each engine in turn."""
    with running(store) as running_service:
        yield running_service
