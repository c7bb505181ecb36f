"""The application on a real store."""

import pytest

from ett_service.api.state import AppState
from ett_service.storage.engine.store import Store
from tests.builders.clock import RECEIVED_AT, Clock
from tests.builders.servers.application import LIMITS, state_of


@pytest.fixture
def state(store: Store) -> AppState:
    return state_of(store, Clock(RECEIVED_AT), limits=LIMITS)
