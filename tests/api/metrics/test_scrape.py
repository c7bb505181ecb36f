"""Who may scrape, and that what is scraped can be read."""

import logging
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from importlib.metadata import version

import pytest
from starlette.testclient import TestClient

from ett_service.api.app import create_app
from ett_service.api.state import AppState
from ett_service.ingest.refusals import Code
from ett_service.metrics.families import TextFormat
from ett_service.storage.record.keys import create_key, revoke_key
from ett_service.storage.schema import published
from ett_service.worker.metrics import MetricsThread
from tests.api.test_health import OutOfReach
from tests.builders.databases.engines import ON_ONE_ENGINE
from tests.builders.jobs import failing_job, wire_event
from tests.builders.metrics import Page, labelled, parsed
from tests.builders.servers.application import Service, state_of


def _published(service: Service) -> None:
    MetricsThread(service.store, service.clock).publish()


def _page(service: Service, form: TextFormat = TextFormat.PLAIN) -> Page:
    answer = service.client.get("/metrics", headers={"Accept": form.value})
    assert answer.headers["content-type"] == form.value
    return parsed(answer.text, form)


@pytest.mark.parametrize("form", TextFormat)
def test_the_page_shows_the_fleet_and_what_came_in(service: Service, form: TextFormat) -> None:
    service.ingest(failing_job())
    _published(service)
    page = _page(service, form)
    assert sum(page["ett_phase_seconds_total"].values()) == 62 * 60
    assert page["ett_ingest_events_total"][labelled(source="events")] == 23
    assert page["ett_build_info"] == {labelled(version=version("ett-service")): 1}
    assert page["ett_collector_duration_seconds"][()] > 0
    assert page["ett_collector_errors_total"][()] == 0


def test_imported_events_are_counted_apart_and_move_no_other_counter(service: Service) -> None:
    service.ingest(failing_job(), history=True)
    _published(service)
    page = _page(service)
    assert page["ett_ingest_events_total"][labelled(source="import")] == 23
    assert page["ett_ingest_event_lag_seconds_count"][()] == 0
    assert not any(page.get("ett_phase_seconds_total", {}).values())


@ON_ONE_ENGINE
def test_refused_and_duplicate_events_are_counted_as_such(service: Service) -> None:
    good, bad = wire_event("heartbeat", 1), {**wire_event("heartbeat", 2), "job": ""}
    service.send([good, bad])
    service.send([good])
    page = _page(service)
    assert page["ett_ingest_events_total"][labelled(source="events")] == 1
    assert page["ett_ingest_events_duplicate_total"][()] == 1
    refused = page["ett_ingest_events_rejected_total"]
    assert refused[labelled(code="bad_job")] == 1
    assert {dict(labels)["code"] for labels in refused} == set(Code)


@ON_ONE_ENGINE
def test_requests_are_counted_by_the_template_of_their_route(service: Service) -> None:
    for path in ("/v1/jobs/a", "/v1/jobs/b", "/v1/nowhere", "/a%0Ab"):
        service.client.get(path)
    service.client.request("BREW", "/v1/jobs")
    requests = _page(service)["ett_http_requests_total"]
    counted = {tuple(dict(labels).values()): value for labels, value in requests.items()}
    assert counted == {
        ("GET", "/v1/jobs/{job}", "404"): 2,
        ("GET", "unmatched", "404"): 2,
        ("other", "/v1/jobs", "405"): 1,
    }


@ON_ONE_ENGINE
def test_without_the_database_the_process_is_still_watched(
    state: AppState, caplog: pytest.LogCaptureFixture
) -> None:
    store = OutOfReach(state.store)
    without = replace(state, store=store, open_metrics=True)
    with TestClient(create_app(lambda: nullcontext(without))) as client:
        store.reachable = False
        with caplog.at_level(logging.CRITICAL):
            pages = [parsed(client.get("/metrics").text) for _ in range(2)]
        store.reachable = True
        pages.append(parsed(client.get("/metrics").text))
    assert [page["ett_collector_errors_total"][()] for page in pages] == [1, 2, 2]
    assert pages[0]["ett_build_info"][labelled(version=version("ett-service"))] == 1
    assert "ett_jobs_waiting" not in pages[0]


@ON_ONE_ENGINE
def test_damage_in_what_was_published_costs_the_fleets_part_alone(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    _published(service)
    damage = published.update().values(body='{"x": [NaN]}', revision=published.c.revision + 1)
    service.store.write(lambda conn: conn.execute(damage))
    with caplog.at_level(logging.CRITICAL):
        page = _page(service)
    assert page["ett_collector_errors_total"][()] == 1
    assert page["ett_build_info"] == {labelled(version=version("ett-service")): 1}
    assert "ett_jobs_waiting" not in page


@ON_ONE_ENGINE
@pytest.mark.parametrize("shown", [True, False])
def test_histograms_of_cohorts_are_there_as_the_settings_say(service: Service, shown: bool) -> None:
    service.ingest(failing_job())
    _published(service)
    chosen = state_of(service.store, service.clock, open_metrics=True, cohort_histograms=shown)
    with TestClient(create_app(lambda: nullcontext(chosen))) as client:
        page = parsed(client.get("/metrics").text)
    assert ("ett_time_to_start_seconds_count" in page) is shown
    assert "ett_phase_duration_seconds_count" in page


@ON_ONE_ENGINE
def test_without_the_database_a_key_that_scraped_before_still_does(
    state: AppState, caplog: pytest.LogCaptureFixture
) -> None:
    keys = {
        name: state.store.write(
            partial(create_key, project="p", name=name, scopes={scope}, now_us=0)
        )
        for name, scope in (("scraper", "fleet"), ("another", "fleet"), ("reader", "read"))
    }
    store = OutOfReach(state.store)
    with TestClient(create_app(lambda: nullcontext(replace(state, store=store)))) as client:

        def scrape(name: str) -> int:
            headers = {"Authorization": f"Bearer {keys[name]}"}
            return client.get("/metrics", headers=headers).status_code

        assert [scrape("scraper"), scrape("reader")] == [200, 403]
        store.reachable = False
        with caplog.at_level(logging.CRITICAL):
            assert [scrape(name) for name in keys] == [200, 503, 503]
        store.reachable = True
        prefix = keys["scraper"][:12]
        state.store.write(lambda conn: revoke_key(conn, prefix, now_us=1))
        assert scrape("scraper") == 401
        store.reachable = False
        assert scrape("scraper") == 503


@ON_ONE_ENGINE
def test_on_loopback_the_page_is_open_and_nothing_else(state: AppState) -> None:
    opened = replace(state, open_metrics=True)
    with TestClient(create_app(lambda: nullcontext(opened))) as client:
        assert client.get("/metrics").status_code == 200
        assert client.get("/v1/jobs").status_code == 401


@ON_ONE_ENGINE
def test_elsewhere_the_page_needs_a_key(state: AppState) -> None:
    with TestClient(create_app(lambda: nullcontext(state))) as client:
        assert client.get("/metrics").status_code == 401


@pytest.mark.parametrize(
    ("client", "headers", "status"),
    [
        ("127.0.0.1", {}, 200),
        ("::1", {"Host": "localhost:8080"}, 200),
        ("127.0.0.1", {"X-Forwarded-For": "192.0.2.7"}, 401),
        ("127.0.0.1", {"Forwarded": "for=192.0.2.7"}, 401),
        ("127.0.0.1", {"X-Forwarded-Proto": "https"}, 401),
        ("127.0.0.1", {"Host": "ett.example"}, 401),
        ("192.0.2.7", {}, 401),
    ],
)
def test_on_loopback_only_this_machine_itself_needs_no_key(
    state: AppState, client: str, headers: dict[str, str], status: int
) -> None:
    local = replace(state, local_metrics=True)
    served = create_app(lambda: nullcontext(local))
    with TestClient(served, base_url="http://127.0.0.1:8080", client=(client, 5)) as browser:
        assert browser.get("/metrics", headers=headers).status_code == status
