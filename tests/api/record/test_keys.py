"""Keys over HTTP, and what each scope may do."""

from typing import Any

import pytest
from httpx2 import Response

from ett_service.storage.record import keys
from tests.builders.clock import HOUR, SECOND
from tests.builders.databases.engines import ON_ONE_ENGINE
from tests.builders.jobs import failing_job
from tests.builders.servers.application import Service

READS = (
    "/v1/jobs",
    "/v1/jobs/llm-70b",
    "/v1/jobs/llm-70b/ledger",
    "/v1/jobs/llm-70b/events",
    "/v1/jobs/llm-70b/ranks",
    "/v1/jobs/llm-70b/stages",
    "/v1/jobs/llm-70b/trace",
    "/v1/jobs/llm-70b/corrections",
    "/v1/jobs/llm-70b/attempts",
    "/v1/jobs/llm-70b/productivity",
    "/v1/jobs/llm-70b/checkpoint-advice",
    "/v1/jobs/llm-70b/compile-advice",
    "/v1/jobs/llm-70b/checkpoints",
    "/v1/jobs/llm-70b/attempts/0",
    "/v1/fleet/jobs/top",
)
#: Answers that name no job.
OF_ALL_JOBS = (
    "/v1/fleet/summary",
    "/v1/fleet/series",
    "/v1/fleet/trend",
    "/v1/fleet/explain",
    "/v1/fleet/changes",
    "/v1/fleet/checkpoint-advice",
    "/v1/fleet/compile-advice",
    "/v1/fleet/projection",
    "/v1/estimate",
    "/v1/what-if",
)
OF_REGRESSIONS = ("", "/01JCXK7V4W", "/01JCXK7V4W/values", "/01JCXK7V4W/experiment", "/causes",
                  "/compare", "/power", "/tuning", "/mutes")  # fmt: skip
ACTS = ("triage", "acknowledge", "accept", "mute", "confirm")
OTLP = "POST /v1/traces"
MAY: dict[str, set[str]] = {
    **{f"GET {path}": {"read", "fleet"} for path in (*READS, *OF_ALL_JOBS)},
    "GET /v1/attempts/9f86d081884c7d65-1": {"read", "fleet"},
    "POST /v1/what-if": {"read", "fleet"},
    "POST /v1/events": {"write"},
    OTLP: {"write"},
    "POST /v1/jobs/llm-70b/trainer-status": {"write"},
    "GET /v1/markers": {"read", "fleet"},
    "POST /v1/markers": {"write", "admin"},
    "DELETE /v1/markers/deploy": {"write", "admin"},
    "PUT /v1/jobs/llm-70b/attempts/0/verdict": {"write", "admin"},
    "DELETE /v1/jobs/llm-70b/attempts/0/verdict": {"write", "admin"},
    "PUT /v1/jobs/llm-70b/exclusion": {"write", "admin"},
    "DELETE /v1/jobs/llm-70b/exclusion": {"write", "admin"},
    "DELETE /v1/jobs/llm-70b": {"admin"},
    "GET /v1/keys": {"read", "admin"},
    "POST /v1/keys": {"admin"},
    "DELETE /v1/keys/ett_00000000": {"admin"},
    "POST /v1/keys/ett_00000000/rotate": {"admin"},
    "GET /v1/key-usage": {"read", "admin"},
    "GET /v1/audit": {"admin"},
    **{f"GET /v1/regressions{path}": {"read", "fleet"} for path in OF_REGRESSIONS},
    **{f"POST /v1/regressions/01JCXK7V4W/{act}": {"admin"} for act in ACTS},
    "POST /v1/regressions/mutes": {"admin"},
    "POST /v1/regressions/tuning/reset": {"admin"},
    "DELETE /v1/regressions/mutes/01JCXK7V4W": {"admin"},
    "GET /v1/receivers": {"read", "admin"},
    "POST /v1/receivers": {"admin"},
    "DELETE /v1/receivers/oncall": {"admin"},
    "POST /v1/receivers/oncall/test": {"admin"},
    "POST /v1/receivers/oncall/rotate": {"admin"},
    "GET /v1/receivers/oncall/deliveries": {"read", "admin"},
    "POST /v1/receivers/oncall/replay": {"admin"},
    "GET /metrics": {"fleet"},
}
NAMES = {"job": "llm-70b", "prefix": "ett_00000000", "number": 0, "marker_id": "deploy",
         "attempt_id": "9f86d081884c7d65-1", "name": "oncall",
         "regression_id": "01JCXK7V4W", "mute_id": "01JCXK7V4W"}  # fmt: skip


def _request_with_key(service: Service, request: str, key: str | None) -> Response:
    method, path = request.split()
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    service.client.headers.pop("Authorization", None)
    return service.client.request(method, path, headers=headers, content=b"{}")


@ON_ONE_ENGINE
@pytest.mark.parametrize("request_line", MAY)
def test_each_route_asks_for_its_scope(service: Service, request_line: str) -> None:
    service.ingest(failing_job())
    for scope in keys.SCOPES:
        status = _request_with_key(service, request_line, service.key({scope})).status_code
        assert (status == 403) is (scope not in MAY[request_line]), scope


@ON_ONE_ENGINE
@pytest.mark.parametrize("request_line", MAY)
def test_a_route_without_a_good_key_is_401(service: Service, request_line: str) -> None:
    good = service.key()
    bad = ("", good[:-1], good + "0", good.swapcase(), "ett_" + "0" * 36, "x" * 5000)
    for key in (None, *bad):
        answer = _request_with_key(service, request_line, key)
        assert answer.status_code == 401, key
        assert answer.headers["www-authenticate"] == "Bearer"
        if request_line != OTLP:  # whose errors are those of another protocol
            assert answer.json()["type"] == "urn:ett-service:problem:unauthorized"


def test_only_health_and_the_pages_about_the_api_are_open(service: Service) -> None:
    routes = {
        f"{method.upper()} {path.format(**NAMES)}"
        for path, operations in service.get("/openapi.json")["paths"].items()
        for method in operations
    }
    assert routes - MAY.keys() == {"GET /healthz", "GET /readyz"}
    assert MAY.keys() <= routes


@ON_ONE_ENGINE
@pytest.mark.parametrize("header", ["Basic abc", "Bearer", "bearer", "Token x", "Bearer a b", "é"])
def test_an_authorization_that_is_no_bearer_key_is_401(service: Service, header: str) -> None:
    answer = service.client.get("/v1/jobs", headers={b"Authorization": header.encode()})
    assert answer.status_code == 401


@ON_ONE_ENGINE
@pytest.mark.parametrize("path", READS)
def test_another_projects_job_looks_like_a_missing_one(service: Service, path: str) -> None:
    service.ingest(failing_job())
    other = {"Authorization": f"Bearer {service.key({'read', 'write'}, project='other')}"}
    foreign = service.client.get(path, headers=other)
    missing = service.client.get(path.replace("llm-70b", "nothing"), headers=other)
    assert foreign.status_code == missing.status_code
    assert _without_id(foreign.json()) == _without_id(missing.json())
    assert "llm-70b" not in foreign.text


def test_a_foreign_project_looks_like_a_missing_one(service: Service) -> None:
    service.key(project="other")
    reader = {"Authorization": f"Bearer {service.key({'read'})}"}
    answers = [
        service.client.get("/v1/jobs", params={"project": name}, headers=reader)
        for name in ("other", "nothing")
    ]
    assert [answer.status_code for answer in answers] == [404, 404]
    assert _without_id(answers[0].json()) == _without_id(answers[1].json())


@ON_ONE_ENGINE
@pytest.mark.parametrize("path", READS)
def test_the_scope_fleet_reads_across_projects(service: Service, path: str) -> None:
    service.ingest(failing_job())
    fleet = {"Authorization": f"Bearer {service.key({'fleet'}, project='other')}"}
    answer = service.client.get(path, params={"project": "research"}, headers=fleet)
    assert answer.status_code == 200
    assert "llm-70b" in answer.text


def test_a_made_key_works_until_it_is_revoked(service: Service) -> None:
    body = {"project": "new", "name": "cluster b", "scopes": ["read"]}
    created = service.client.post("/v1/keys", json=body)
    assert created.status_code == 201
    key = created.json()["key"]
    headers = {"Authorization": f"Bearer {key}"}
    assert service.client.get("/v1/jobs", headers=headers).status_code == 200
    assert service.client.delete(f"/v1/keys/{key[:12]}").status_code == 204
    assert service.client.get("/v1/jobs", headers=headers).status_code == 401
    assert service.client.delete(f"/v1/keys/{key[:12]}").status_code == 404


def test_a_list_of_keys_holds_no_secret_and_a_reader_sees_its_own_project(
    service: Service,
) -> None:
    key = service.key({"read"})
    service.key({"read"}, project="other")
    everything = service.client.get("/v1/keys")
    own = service.client.get("/v1/keys", headers={"Authorization": f"Bearer {key}"})
    assert {key["project"] for key in everything.json()["keys"]} == {"research", "other"}
    assert {key["project"] for key in own.json()["keys"]} == {"research"}
    assert key not in everything.text
    assert key[:12] in own.text


@ON_ONE_ENGINE
@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b'{"project": "p", "name": "n", "scopes": ["read"]} x', 400),
        (b'{"project": "\\ud800", "name": "n", "scopes": ["read"]}', 400),
        (b"\xff", 400),
        (b"[" * 2000, 400),
        (b"null", 422),
        (b"{}", 422),
        (b'{"project": "p", "name": "n", "scopes": []}', 422),
        (b'{"project": "p", "name": "n", "scopes": ["root"]}', 422),
        (b'{"project": "p", "name": "n", "scopes": ["read"], "more": 1}', 422),
        (b'{"project": 1, "name": "n", "scopes": ["read"]}', 422),
        (b'{"project": "", "name": "n", "scopes": ["read"]}', 422),
        (b'{"project": "a\\u0000b", "name": "n", "scopes": ["read"]}', 422),
        (b'{"project": "%s", "name": "n", "scopes": ["read"]}' % (b"x" * 101), 422),
        (b'{"project": "%s"}' % (b"x" * 20_000), 413),
    ],
)
def test_a_key_that_cannot_be_made_is_refused(service: Service, body: bytes, status: int) -> None:
    answer = service.client.post(
        "/v1/keys", content=body, headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"


def _without_id(problem: Any) -> Any:
    return {name: value for name, value in problem.items() if name != "instance"}


def test_a_key_opens_nothing_from_the_instant_on_at_which_it_expires(service: Service) -> None:
    body = {"project": "research", "name": "for an hour", "scopes": ["read"]}
    made = service.client.post("/v1/keys", json={**body, "expires_at": "2026-03-01T14:00:00Z"})
    assert made.status_code == 201, made.text
    assert made.json()["expires_at"] == "2026-03-01T14:00:00.000000Z"
    bearer = {"Authorization": f"Bearer {made.json()['key']}"}
    assert service.client.get("/v1/jobs", headers=bearer).status_code == 200
    service.clock.now_us += HOUR
    assert service.client.get("/v1/jobs", headers=bearer).status_code == 401


@pytest.mark.parametrize("instant", ["2026-03-01T12:59:59Z", "soon", 5, []])
def test_a_key_expires_at_an_instant_to_come(service: Service, instant: object) -> None:
    body = {"project": "research", "name": "x", "scopes": ["read"], "expires_at": instant}
    assert service.client.post("/v1/keys", json=body).status_code == 422


def test_a_rotated_key_works_beside_its_successor_until_the_overlap_is_over(
    service: Service,
) -> None:
    body = {"project": "research", "name": "cluster b", "scopes": ["read", "fleet"]}
    old = service.client.post("/v1/keys", json=body).json()
    service.clock.now_us += HOUR
    rotated = service.client.post(f"/v1/keys/{old['prefix']}/rotate", json={"overlap_seconds": 60})
    assert rotated.status_code == 201, rotated.text
    new = rotated.json()
    assert {name: new[name] for name in body} == {**body, "scopes": ["fleet", "read"]}
    assert new["expires_at"] is None

    def statuses() -> list[int]:
        bearers = [{"Authorization": f"Bearer {each['key']}"} for each in (old, new)]
        return [service.client.get("/v1/jobs", headers=each).status_code for each in bearers]

    assert statuses() == [200, 200]
    service.clock.now_us += 60 * SECOND
    assert statuses() == [401, 200]
    listed = {key["prefix"]: key for key in service.get("/v1/keys")["keys"]}
    assert listed[old["prefix"]]["replaced_by"] == new["prefix"]
    again = service.client.post(f"/v1/keys/{old['prefix']}/rotate", json={})
    assert again.status_code == 404


@ON_ONE_ENGINE
def test_a_key_is_rotated_once_and_only_while_it_stands(service: Service) -> None:
    old = service.key({"read"})[:12]
    rotate = f"/v1/keys/{old}/rotate"
    for overlap in (-1, False, "60", 60.0):
        assert service.client.post(rotate, json={"overlap_seconds": overlap}).status_code == 422
    assert service.client.post(rotate, json={}).status_code == 201
    assert service.client.post(rotate, json={}).status_code == 409
    assert service.client.delete(f"/v1/keys/{old}").status_code == 204
    assert service.client.post(rotate, json={}).status_code == 404
