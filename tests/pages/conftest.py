"""A small fleet with its pages on a port, read by all tests of pages, and a browser."""

import shutil
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from ett_service.storage.record.keys import create_project
from tests.builders.clock import instant as us_of
from tests.builders.regressions.stored import finding, fires
from tests.builders.servers.site import PROJECT, Site, served_from
from tests.builders.servers.visit import Visit
from tests.golden.fleet import MARKER, NOW, history, instant, recent

HACK = "\"'><script>document.title='hacked'</script><img src=x onerror=\"document.title='hacked'\">"
HOSTILE = "a ..%2F?#&+" + HACK.replace("/", "")
GRAFANA = "https://grafana.example/team"
_DAYS = 15
_RECEIVER: dict[str, object] = {
    "name": "hostile",
    "format": "generic",
    "url": "https://93.184.215.14/x",
    "where": {"model": HACK[:90]},
}
_EXCLUDED = {
    "from": instant(NOW).replace("06:00", "03:10"),
    "to": instant(NOW).replace("06:00", "03:11"),
}
_MUTE: dict[str, object] = {
    "cohort": {"model": HACK[:90]},
    "until": "2026-04-01T00:00:00Z",
    "why": HACK,
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let one process run those in a browser and one the others: each fills its fleet once."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            is_in_browser = "chromium" in getattr(item, "fixturenames", ())
            item.add_marker(pytest.mark.xdist_group("browser" if is_in_browser else "pages"))


def hostile_events() -> list[dict[str, object]]:
    """Return a job that carries markup in every text that an event may carry."""
    at = instant(NOW).replace("06:00", "03:00")
    end = instant(NOW).replace("06:00", "05:00")
    place = {"job": HOSTILE, "launch": HACK[:90], "attempt": 0}
    facts = ("name", "team", "model", "cluster", "hardware", "kind", "owner", "image")
    texts = dict.fromkeys((*facts, "code_version"), HACK)
    died = {
        "message": HACK,
        "exception": HACK[:90],
        "reason": HACK,
        "scheduler_state": HACK[:90],
        "preempted_by": HOSTILE,
        "exit_code": 1,
    }
    inner = {"stage": HACK[:90], "producer": HACK[:90]}
    return [
        {"type": "job", "job": HOSTILE, "at": at, **texts, "labels": {HACK[:90]: HACK}, "gpus": 8},
        {"type": "attempt_started", "at": at, "gpus": 8, "host": HACK, "reason": HACK, **place},
        {"type": "phase_started", "at": at, "phase": "launcher_init", **inner, **place},
        {"type": "phase_started", "at": at, "phase": "train_loop", **place},
        {"type": "progress", "at": end, "step": 9, "attributes": {HACK[:90]: HACK}, **place},
        {"type": "attempt_ended", "at": end, "outcome": "failed", **died, **place},
    ]


def people(site: Site) -> None:
    """Let people write markup into every text that they may write."""
    job = f"/v1/jobs/{quote(HOSTILE, safe='')}"
    sent: tuple[tuple[str, str, dict[str, object]], ...] = (
        ("POST", "/v1/markers", {**MARKER, "title": HACK, "labels": {HACK[:60]: HACK[:60]}}),
        ("PUT", f"{job}/attempts/0/verdict", {"origin": "user", "cause": "oom", "why": HACK}),
        ("PUT", f"{job}/exclusion", {**_EXCLUDED, "why": HACK}),
        ("POST", "/v1/receivers", _RECEIVER),
        ("POST", "/v1/regressions/mutes", _MUTE),
        (
            "POST",
            "/v1/keys",
            {"project": PROJECT, "name": HACK[:90].replace("/", ""), "scopes": ["read"]},
        ),
    )
    client = site.api()
    for method, path, body in sent:
        answer = client.request(method, path, json=body)
        assert answer.status_code < 300, (path, answer.text)
    while site.worker.run_once():
        pass


def ago(minutes: int) -> str:
    """Return the instant so long before the site's clock."""
    return instant(NOW - timedelta(minutes=minutes))


def running(job: str, phase: str, minutes_ago: int) -> list[dict[str, object]]:
    """Return the events of a job that runs, and began a phase so long ago."""
    at = instant(NOW - timedelta(hours=3))
    place = {"job": job, "attempt": 0}
    begun = {"type": "phase_started", "phase": phase}
    return [
        {"type": "attempt_started", "gpus": 8, "at": at, **place},
        {**begun, "phase": "launcher_init", "at": at, **place},
        {**begun, "at": instant(NOW - timedelta(minutes=minutes_ago)), **place},
    ]


@pytest.fixture(scope="session")
def site(_migrated_sqlite: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Return the site of a fleet of two models and of jobs of the last hours."""
    now_us = us_of(instant(NOW))
    with served_from(
        _migrated_sqlite, tmp_path_factory.mktemp("pages"), now_us, f"{GRAFANA}/"
    ) as running:
        store = running.state.store
        names = tuple(f"llm-slow-{days:02}" for days in range(1, _DAYS))
        running.ingest([event for event in history() if event["job"].startswith(names)] + recent())
        running.ingest(hostile_events())
        project_id = store.write(lambda conn: create_project(conn, PROJECT, now_us))
        fires(store, project_id, finding(), at_us=now_us)
        people(running)
        yield running


@pytest.fixture(scope="session")
def empty_site(_migrated_sqlite: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Return a site without data."""
    folder = tmp_path_factory.mktemp("empty-pages")
    with served_from(_migrated_sqlite, folder, us_of(instant(NOW))) as running:
        yield running


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """Return one browser for the tests of a module: asyncio runs no loop while it is open."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("needs Debian's chromium")
    with playwright.sync_playwright() as engine:
        browser = engine.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def visit(chromium: Any, site: Site) -> Iterator[Visit]:
    """Return a window that is signed in."""
    window = Visit(chromium, site)
    window.enter()
    yield window
    window.context.close()
    # The page of an address where nothing is has the status of it, which browsers tell.
    assert [fault for fault in window.faults if "404" not in fault] == []
