"""The application on a real store."""

import pytest

from ett_service.api.state import AppState
from ett_service.storage.engine.store import Store
from ett_service.worker.ledgers import Worker
from tests.builders.clock import RECEIVED_AT, Clock
from tests.builders.servers.application import LIMITS


@pytest.fixture
def state(store: Store) -> AppState:
    clock = Clock(RECEIVED_AT)
    return AppState(store=store, now_us=clock, limits=LIMITS, worker=Worker(store, clock))
