"""What the settings make of the application and its worker."""

import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from ett_service.app import application, worker
from ett_service.cli.verb import now_us
from ett_service.settings import Settings
from ett_service.storage.engine.store import Store
from ett_service.storage.schema import lease
from tests.builders.databases.engines import ON_ONE_ENGINE
from tests.builders.servers.waiting import wait_for
from tests.builders.servers.worker import running


def epoch(store: Store) -> int | None:
    """Return how many led so far."""
    with store.reading() as conn:
        return conn.execute(select(lease.c.epoch)).scalar_one_or_none()


@ON_ONE_ENGINE
def test_each_start_of_a_worker_leads_the_search(store: Store) -> None:
    for _ in range(2):
        before = epoch(store)
        with running(worker(_settings(store), store, now_us)):
            assert wait_for(partial(_is_another, store, before))
    assert epoch(store) == 2


@ON_ONE_ENGINE
@pytest.mark.parametrize("enabled", [True, False])
def test_a_worker_searches_unless_the_settings_say_otherwise(
    store: Store, *, enabled: bool
) -> None:
    with running(
        worker(_settings(store, detection={"enabled": enabled}), store, now_us)
    ) as working:
        assert working.alive
        if enabled:
            assert wait_for(lambda: epoch(store) is not None)
    assert (epoch(store) is not None) is enabled


def _settings(store: Store, **members: Any) -> Settings:
    return Settings(database_url=store.url, **members)


def _is_another(store: Store, than: int | None) -> bool:
    return epoch(store) != than


@pytest.mark.parametrize("embedded", [True, False])
def test_the_application_makes_its_file_and_has_a_worker_if_the_settings_ask_for_one(
    tmp_path: Path, *, embedded: bool
) -> None:
    url = f"sqlite:///{tmp_path / 'new.db'}"
    settings = Settings(database_url=url, embedded_worker=embedded, host="::1")
    with application(settings, now_us) as parts:
        assert (tmp_path / "new.db").exists()
        assert (parts.worker is not None and parts.worker.alive) is embedded
        assert parts.local_metrics
        assert not parts.open_metrics
        inner = parts.worker
    assert inner is None or not inner.alive


def test_it_needs_no_web_framework_to_put_a_worker_together() -> None:
    program = "import sys, ett_service.app; sys.exit('fastapi' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
