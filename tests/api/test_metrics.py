"""Who may scrape, and that what is scraped can be read."""

from contextlib import nullcontext
from dataclasses import replace

from starlette.testclient import TestClient

from ett_service.api.app import create_app
from ett_service.api.parts import Parts
from tests.api.conftest import Service
from tests.engines import ON_ONE_ENGINE
from tests.exposition.conftest import labelled, parsed
from tests.stories import failing_job


def test_the_page_shows_ledgers_and_what_came_in(service: Service) -> None:
    service.told(failing_job())
    answer = service.client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    page = parsed(answer.text)
    assert sum(page["ett_phase_seconds_total"].values()) == 62 * 60
    assert page["ett_ingest_events_total"][labelled(source="events")] == 23


def test_imported_events_are_counted_apart_and_move_no_other_counter(service: Service) -> None:
    service.told(failing_job(), history=True)
    page = parsed(service.client.get("/metrics").text)
    assert page["ett_ingest_events_total"][labelled(source="import")] == 23
    assert not any(page.get("ett_phase_seconds_total", {}).values())


@ON_ONE_ENGINE
def test_on_loopback_the_page_is_open_and_nothing_else(parts: Parts) -> None:
    opened = replace(parts, open_metrics=True)
    with TestClient(create_app(lambda: nullcontext(opened))) as client:
        assert client.get("/metrics").status_code == 200
        assert client.get("/v1/jobs").status_code == 401


@ON_ONE_ENGINE
def test_elsewhere_the_page_needs_a_key(parts: Parts) -> None:
    with TestClient(create_app(lambda: nullcontext(parts))) as client:
        assert client.get("/metrics").status_code == 401
