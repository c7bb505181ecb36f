"""The audit log over HTTP: who did what, in pages, without secrets, for administrators alone."""

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from ett_service.api import deps
from ett_service.api.app import ROUTERS
from ett_service.api.record import audit
from tests.builders.clock import RECEIVED_AT, SECOND
from tests.builders.databases.engines import ON_ONE_ENGINE
from tests.builders.jobs import failing_job
from tests.builders.servers.application import Service

WHY = {"why": "a test"}
UNTIL = {"until": "2026-03-02T12:00:00Z", **WHY}
NEW = {"project": "research", "name": "cluster b", "scopes": ["read"]}
JOB = "/v1/jobs/llm-70b"

#: Their rows say who made them, and when.
RECORDED_ELSEWHERE = {"create_marker"}


def entries(service: Service, **query: Any) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = service.get("/v1/audit", **query)["entries"]
    return listed


def act(service: Service, method: str, path: str, body: object = None) -> Any:
    service.clock.now_us += SECOND
    answer = service.client.request(method, path, json=body)
    assert answer.is_success, answer.text
    return answer.json() if answer.content else None


def test_each_act_is_listed_with_its_target_the_latest_first(service: Service) -> None:
    service.ingest(failing_job())
    key = act(service, "POST", "/v1/keys", NEW)["prefix"]
    act(service, "POST", f"/v1/keys/{key}/rotate", {"overlap_seconds": 60})
    act(service, "DELETE", f"/v1/keys/{key}")
    mute = act(service, "POST", "/v1/regressions/mutes", UNTIL)["id"]
    act(service, "DELETE", f"/v1/regressions/mutes/{mute}")
    act(service, "PUT", f"{JOB}/attempts/0/verdict", {"cause": "network", **WHY})
    act(service, "DELETE", f"{JOB}/attempts/0/verdict")
    act(service, "PUT", f"{JOB}/exclusion", WHY)
    act(service, "DELETE", f"{JOB}/exclusion")
    act(service, "POST", "/v1/regressions/tuning/reset", {"metric": "phase_seconds", **WHY})
    act(service, "DELETE", JOB)

    assert [(each["action"], each["target"]) for each in reversed(entries(service))] == [
        ("key_created", key),
        ("key_rotated", key),
        ("key_revoked", key),
        ("mute_created", mute),
        ("mute_taken_back", mute),
        ("verdict_set", "llm-70b"),
        ("verdict_taken_back", "llm-70b"),
        ("exclusion_set", "llm-70b"),
        ("exclusion_taken_back", "llm-70b"),
        ("tuning_reset", "phase_seconds"),
        ("job_deleted", "llm-70b"),
    ]


@ON_ONE_ENGINE
def test_an_entry_says_by_whom_when_and_from_where_and_holds_no_secret(service: Service) -> None:
    key = service.client.headers["Authorization"].removeprefix("Bearer ")
    made = act(service, "POST", "/v1/keys", NEW)
    answer = service.client.get("/v1/audit")
    (entry,) = answer.json()["entries"]

    assert entry["details"] == {"name": "cluster b", "scopes": ["read"]}
    assert (entry["made_by"], entry["made_by_name"]) == (key[:12], "test")
    assert (entry["made_via"], entry["made_from"]) == ("api", "testclient")
    assert entry["at"] == "2026-03-01T13:00:01.000000Z"
    assert service.clock.now_us == RECEIVED_AT + SECOND
    assert made["key"] not in answer.text
    assert key not in answer.text


@ON_ONE_ENGINE
def test_what_was_refused_or_changed_nothing_leaves_no_entry(service: Service) -> None:
    for method, path, body in (
        ("POST", "/v1/keys", {**NEW, "scopes": ["root"]}),
        ("POST", "/v1/keys", {**NEW, "name": "a/b"}),
        ("POST", "/v1/keys/ett_00000000/rotate", {}),
        ("DELETE", "/v1/keys/ett_00000000", None),
        ("DELETE", "/v1/receivers/none", None),
        ("DELETE", f"{JOB}/exclusion", None),
        ("DELETE", JOB, None),
    ):
        assert service.client.request(method, path, json=body).status_code in (404, 422)

    assert entries(service) == []


@ON_ONE_ENGINE
def test_the_log_is_read_in_pages_by_filters_and_by_administrators(service: Service) -> None:
    for _ in range(3):
        act(service, "POST", "/v1/keys", NEW)
    first = service.get("/v1/audit", limit=2)
    second = service.get("/v1/audit", limit=2, cursor=first["next_cursor"])
    assert (len(first["entries"]), len(second["entries"])) == (2, 1)
    assert second["next_cursor"] is None
    assert entries(service, action="key_revoked") == []
    assert len(entries(service, action=["key_revoked", "key_created"], project="research")) == 3
    assert entries(service, to="2026-03-01T13:00:01Z") == []
    assert service.client.get("/v1/audit", params={"action": "x"}).status_code == 422
    assert service.client.get("/v1/audit", params={"format": "csv"}).text.count("key_created") == 3
    reader = {"Authorization": f"Bearer {service.key({'read', 'fleet', 'write'})}"}
    assert service.client.get("/v1/audit", headers=reader).status_code == 403


def calls(dependant: Dependant) -> Iterator[object]:
    yield dependant.call
    for each in dependant.dependencies:
        yield from calls(each)


def scopes(route: APIRoute) -> set[str]:
    return {
        scope
        for call in calls(route.dependant)
        if isinstance(call, deps._Writing)  # noqa: SLF001 - what routes ask for
        for scope in call._scopes  # noqa: SLF001 - likewise
    }


ADMINISTERING = [
    route
    for router in ROUTERS
    for route in router.routes
    if isinstance(route, APIRoute) and "admin" in scopes(route) and route.methods != {"GET"}
]


@pytest.mark.parametrize("route", ADMINISTERING, ids=lambda route: route.operation_id)
def test_a_route_that_administers_is_handed_what_records_it(route: APIRoute) -> None:
    recording = {audit._admin_acts, audit._correcting_acts}  # noqa: SLF001 - what hands it out
    has_record = not recording.isdisjoint(calls(route.dependant))
    assert has_record is (route.operation_id not in RECORDED_ELSEWHERE)


def test_there_are_such_routes() -> None:
    assert len(ADMINISTERING) > 15
