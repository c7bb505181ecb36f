"""What the settings have a worker do beside folding."""

from functools import partial
from typing import Any

import pytest
from sqlalchemy import select

from ett_service.cli.working import worker
from ett_service.settings import Settings
from ett_service.storage.engine.store import Store
from ett_service.storage.schema import lease
from tests.engines import ON_ONE_ENGINE
from tests.worker.rig import eventually, running


def epoch(store: Store) -> int | None:
    """Return how many led so far."""
    with store.reading() as conn:
        return conn.execute(select(lease.c.epoch)).scalar_one_or_none()


@ON_ONE_ENGINE
def test_each_start_of_a_worker_leads_the_search(store: Store) -> None:
    for _ in range(2):
        before = epoch(store)
        with running(worker(_settings(store), store)):
            assert eventually(partial(_is_another, store, before))
    assert epoch(store) == 2


@ON_ONE_ENGINE
@pytest.mark.parametrize("enabled", [True, False])
def test_a_worker_searches_unless_the_settings_say_otherwise(
    store: Store, *, enabled: bool
) -> None:
    with running(worker(_settings(store, detection={"enabled": enabled}), store)) as working:
        assert working.alive
        if enabled:
            assert eventually(lambda: epoch(store) is not None)
    assert (epoch(store) is not None) is enabled


def _settings(store: Store, **said: Any) -> Settings:
    return Settings(database_url=store.url, **said)


def _is_another(store: Store, than: int | None) -> bool:
    return epoch(store) != than
