"""The headers of every answer, and the log line of every request."""

import json
import logging

import pytest

from ett_service.logs import JsonLines, WithoutSecrets
from tests.builders.databases.engines import ON_ONE_ENGINE
from tests.builders.servers.application import Service

pytestmark = ON_ONE_ENGINE

PATHS = ["/healthz", "/v1/jobs", "/nowhere", "/v1/jobs?limit=x", "/metrics", "/docs"]


@pytest.mark.parametrize("path", PATHS)
def test_every_answer_carries_its_request_id(service: Service, path: str) -> None:
    answer = service.client.get(path, headers={"X-Request-Id": "build-17.a"})
    assert answer.headers["x-request-id"] == "build-17.a"
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("sent", ["", "two words", "x" * 65, "<b>", "a\tb", "é"])
def test_a_request_id_that_is_no_plain_word_is_replaced(service: Service, sent: str) -> None:
    headers = {b"X-Request-Id": sent.encode()}
    answer = service.client.get("/nowhere", headers=headers)
    request_id = answer.headers["x-request-id"]
    assert len(request_id) == 32
    assert answer.json()["instance"] == f"urn:req:{request_id}"


def test_each_request_leaves_one_line_that_names_the_route_and_not_the_key(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    key = service.key({"read"})
    with caplog.at_level(logging.INFO, "ett_service.api.access"):
        service.client.get(
            "/v1/jobs/secret-job",
            headers={"Authorization": f"Bearer {key}", "X-Request-Id": "r-1"},
        )
    (record,) = caplog.records
    WithoutSecrets().filter(record)
    line = json.loads(JsonLines().format(record))
    assert line.pop("seconds") >= 0
    assert {name: line[name] for name in ("event", "request_id", "method", "route", "status")} == {
        "event": "request",
        "request_id": "r-1",
        "method": "GET",
        "route": "/v1/jobs/{job}",
        "status": 404,
    }
    assert line["key"] == key[:12]
    assert key not in json.dumps(line)
    assert "secret-job" not in json.dumps(line)


def test_a_request_that_no_route_takes_leaves_a_line_too(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "ett_service.api.access"):
        service.client.get("/a%0Ab")
    (record,) = caplog.records
    assert "\n" not in record.getMessage()
    assert record.__dict__["status"] == 404
