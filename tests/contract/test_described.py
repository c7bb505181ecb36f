"""Every answer is one that the published description allows."""

import gzip
import json
import re
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from ett_service.ingest.refusals import Code
from tests.builders.jobs import failing_job
from tests.builders.servers.waiting import wait_for
from tests.contract.described import Json, Service, quoted

JOB = "Größe 7B (v2) ?#%"
JSON = {"Content-Type": "application/json"}
GZIP = {**JSON, "Content-Encoding": "gzip"}
NDJSON = {"Content-Type": "application/x-ndjson"}
AT = "2026-03-01T12:00:00Z"
BEAT: Json = {"type": "heartbeat", "job": JOB, "at": AT}


@pytest.fixture(scope="module")
def service(served: Service) -> Iterator[Service]:
    """Return the service with a job in a project of its own."""
    with served.project("described") as service:
        # In a cluster of its own: of those that fall into one bucket the latest is the exemplar.
        service.ingest(failing_job(JOB, cluster="described", labels={"a": "b"}))
        wait_for(lambda: service.knows(JOB))
        yield service


@pytest.mark.parametrize(
    "path",
    [
        "/v1/jobs",
        "/v1/jobs?sort=-ett_ratio&limit=1&state=finished&q=7b&from=2026-01-01T00:00:00Z",
        "/v1/jobs/{job}",
        "/v1/jobs/{job}/ledger",
        "/v1/jobs/{job}/events",
        "/v1/jobs/{job}/events?limit=2",
        "/v1/jobs/{job}/stages",
        "/v1/jobs/{job}/trace",
        "/healthz",
        "/readyz",
    ],
)
def test_each_answer_has_the_members_that_are_declared(service: Service, path: str) -> None:
    assert service.ask("GET", path.format(job=quoted(JOB))).status_code == 200


def test_an_attempt_that_an_exemplar_names_is_answered_as_declared(
    service: Service, served: Service
) -> None:
    openmetrics = {
        "Accept": "application/openmetrics-text",
        "Authorization": f"Bearer {served.key}",
    }

    def of_this_project() -> list[str]:
        page = served.ask("GET", "/metrics", headers=openmetrics).text
        paths = [
            f"/v1/attempts/{attempt_id}" for attempt_id in re.findall(r'attempt_id="([^"]+)"', page)
        ]
        return [path for path in paths if service.ask("GET", path).status_code == 200]

    wait_for(lambda: bool(of_this_project()))
    address = of_this_project()[0]
    assert service.read(address)["job"] == JOB
    assert service.ask("GET", "/v1/attempts/0-0").status_code == 404
    assert service.ask("GET", f"{address}?unheard=of").status_code == 422
    assert service.ask("GET", address, headers={"Authorization": ""}).status_code == 401


def test_keys_are_answered_as_declared(served: Service) -> None:
    body = {"project": "keys", "name": "one", "scopes": ["read"]}
    created = served.ask("POST", "/v1/keys", json=body)
    assert created.status_code == 201
    assert served.ask("GET", "/v1/keys").status_code == 200
    prefix = created.json()["prefix"]
    assert served.ask("DELETE", f"/v1/keys/{prefix}").status_code == 204
    assert served.ask("GET", "/metrics").status_code == 200
    for request, status in (
        ({"content": b"{", "headers": JSON}, 400),
        ({"json": {"project": "a"}}, 422),
        ({"content": b"{}", "headers": {"Content-Type": "text/plain"}}, 415),
        ({"content": b" " * 100_000, "headers": JSON}, 413),
    ):
        options: dict[str, Any] = dict(request)
        assert served.ask("POST", "/v1/keys", **options).status_code == status
    assert served.ask("DELETE", "/v1/keys/ett_nothing0").status_code == 404


@pytest.mark.parametrize("path", ["", "/{job}", "/{job}/ledger", "/{job}/events", "/{job}/stages",
                                  "/{job}/trace"])  # fmt: skip
def test_each_refusal_to_read_is_declared(service: Service, served: Service, path: str) -> None:
    address = "/v1/jobs" + path
    present, missing = (address.format(job=quoted(job)) for job in (JOB, "no such job"))

    assert service.ask("GET", present, headers={"Authorization": ""}).status_code == 401
    assert service.ask("GET", f"{present}?unheard=of").status_code == 422
    assert service.ask("GET", f"{present}?project=another").status_code == 404
    if path:
        assert service.ask("GET", missing).status_code == 404
        foreign, none = (served.ask("GET", url) for url in (present, missing))
        assert same_but_for_the_request(foreign) == same_but_for_the_request(none)


def same_but_for_the_request(answer: httpx2.Response) -> Json:
    """Return a problem without the id of its request."""
    problem: Json = answer.json()
    return {name: value for name, value in problem.items() if name != "instance"}


@pytest.mark.parametrize(
    ("content", "headers", "status", "kind"),
    [
        (b"", JSON, 400, "malformed-json"),
        (b'{"events": [', JSON, 400, "malformed-json"),
        (b'{"events": [{"a": NaN}]}', JSON, 400, "malformed-json"),
        (b"\xff\xfe", JSON, 400, "bad-encoding"),
        (b"not gzip", GZIP, 400, "bad-encoding"),
        (gzip.compress(b"{}", mtime=0)[:-1], GZIP, 400, "bad-encoding"),
        (b"not zstd", {**JSON, "Content-Encoding": "zstd"}, 400, "bad-encoding"),
        (b"{}", {**JSON, "Content-Encoding": "br"}, 415, "unsupported-media"),
        (b"{}", {"Content-Type": "text/plain"}, 415, "unsupported-media"),
        (b"{}", {}, 415, "unsupported-media"),
        (b" " * (9 << 20), JSON, 413, "too-large"),
        (gzip.compress(b" " * (65 << 20), mtime=0), GZIP, 413, "too-large"),
        (b'{"events": [' + b"{}," * 10_000 + b"{}]}", JSON, 413, "too-large"),
        (b"{}", JSON, 422, "validation-failed"),
        (b"[]", JSON, 422, "validation-failed"),
        (b'{"events": [], "extra": 1}', JSON, 422, "validation-failed"),
        (b'{"events": [{}]}', JSON, 422, "validation-failed"),
        (b'{"events": [], "sent_at": "yesterday"}', JSON, 422, "validation-failed"),
    ],
)
def test_each_refusal_of_a_body_is_declared(
    service: Service, content: bytes, headers: dict[str, str], status: int, kind: str
) -> None:
    answer = service.ask("POST", "/v1/events", content=content, headers=headers)

    assert (answer.status_code, answer.json()["type"].rpartition(":")[2]) == (status, kind)
    assert answer.headers["content-type"] == "application/problem+json"


def test_a_key_without_the_scope_is_forbidden_as_declared(served: Service) -> None:
    for scope, method, path in (
        ("write", "GET", "/v1/jobs"),
        ("read", "POST", "/v1/events"),
        ("read", "POST", "/v1/keys"),
        ("write", "GET", "/v1/keys"),
        ("read", "DELETE", "/v1/keys/ett_nothing0"),
    ):
        body = {"project": "scopes", "name": scope, "scopes": [scope]}
        key = served.ask("POST", "/v1/keys", json=body).json()["key"]
        headers = {"Authorization": f"Bearer {key}"}
        answer = served.ask(method, path, headers=headers)
        assert answer.status_code == 403, (scope, method, path)


REFUSED: dict[str, Json] = {
    "wrong_type": {"attempt": "0"},
    "unknown_type": {"type": "nothing"},
    "unknown_phase": {"type": "phase_started", "phase": "lunch"},
    "unknown_value": {"type": "attempt_ended", "outcome": "lost"},
    "unknown_member": {"stepp": 1},
    "missing_member": {"type": "progress"},
    "out_of_range": {"mono_us": 2**53},
    "bad_length": {"launch": "x" * 101},
    "bad_text": {"host": "a\u0007b"},
    "bad_id": {"id": "not an id"},
    "bad_job": {"job": "a/b"},
    "bad_timestamp": {"at": "yesterday"},
    "timestamp_without_offset": {"at": "2026-03-01T12:00:00"},
    "timestamp_out_of_range": {"at": "2126-03-01T12:00:00Z"},
    "too_large": {"attributes": {"a": "x" * (17 << 10)}},
    "too_deep": {"attributes": {"a": [[[[[[[[[1]]]]]]]]]}},
    "conflict": {"id": "e-1", "rank": 7},
    "other_cluster": {"launch": "8041", "attributes": {"slurm.cluster.name": "beta"}},
}


def test_every_code_of_the_closed_list_is_answered_and_described(service: Service) -> None:
    of_alpha = {"launch": "8041", "attributes": {"slurm.cluster.name": "alpha"}}
    service.ingest([{**BEAT, "id": "e-1"}, {**BEAT, **of_alpha}])
    page = json.dumps(service.described.page)

    pruned = "too_old"  # it needs a job that was pruned: see the tests of retention
    assert {*REFUSED, "malformed_json", pruned} == {code.value for code in Code}
    for code, members in REFUSED.items():
        answer = service.ask("POST", "/v1/events", json={"events": [{**BEAT, **members}]})
        (error,) = answer.json()["errors"]
        assert (answer.status_code, error["code"]) == (422, code)
        assert re.search(rf"\b{code}\b", page), f"{code} is not described"
    answer = service.ask("POST", "/v1/events", content=json.dumps(BEAT) + "\n{\n", headers=NDJSON)
    assert [error["code"] for error in answer.json()["errors"]] == ["malformed_json"]
