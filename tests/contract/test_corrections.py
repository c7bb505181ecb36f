"""Markers, corrections and deletions of a running service, each answer held to its description."""

from typing import Any

import pytest

from tests.builders.jobs import failing_job
from tests.builders.servers.waiting import wait_for
from tests.contract.described import Json, Service, quoted

JOB = "Größe 7B (v2) ?#%"
MARKER: Json = {"at": "2026-03-01T08:00:00Z", "kind": "deploy", "title": "Trainer 4.2", "id": "a"}
VERDICT: Json = {"cause": "network", "why": "a switch was down"}
EXCLUSION: Json = {"why": "a drill", "from": "2026-03-01T12:10:00Z"}
OF_JOB = f"/v1/jobs/{quoted(JOB)}"


def test_markers_are_answered_as_declared(served: Service) -> None:
    for marker, status in (
        (MARKER, 201),
        (MARKER, 200),
        ({**MARKER, "title": "another"}, 409),
        ({**MARKER, "kind": "party"}, 422),
    ):
        assert served.ask("POST", "/v1/markers", json=marker).status_code == status
    listed = served.read("/v1/markers?kind=deploy&q=trainer&from=2026-01-01T00:00:00Z")
    assert [marker["id"] for marker in listed["markers"]] == ["a"]
    assert served.ask("GET", "/v1/markers?format=csv").status_code == 200
    assert served.ask("GET", "/v1/markers?label=x").status_code == 422
    for status in (204, 404):
        assert served.ask("DELETE", "/v1/markers/a").status_code == status


def test_corrections_and_the_deletion_of_a_job_are_answered_as_declared(served: Service) -> None:
    served.ingest(failing_job(JOB))
    wait_for(lambda: served.knows(JOB))
    verdict, exclusion = f"{OF_JOB}/attempts/0/verdict", f"{OF_JOB}/exclusion"

    requests: list[tuple[str, str, Any, int]] = [
        ("PUT", verdict, VERDICT, 200),
        ("PUT", verdict.replace("/0/", "/1/"), VERDICT, 409),
        ("PUT", verdict.replace("/0/", "/7/"), VERDICT, 404),
        ("PUT", verdict, {"cause": "ghosts"}, 422),
        ("PUT", exclusion, EXCLUSION, 200),
        ("PUT", exclusion, [], 422),
        ("GET", f"{OF_JOB}/corrections", None, 200),
        ("GET", f"{OF_JOB}/corrections?format=parquet", None, 200),
        ("DELETE", verdict, None, 204),
        ("DELETE", verdict, None, 404),
        ("DELETE", exclusion, None, 204),
        ("DELETE", exclusion, None, 404),
        ("DELETE", f"{OF_JOB}?dry_run=true", None, 200),
        ("DELETE", f"{OF_JOB}?dry_run=perhaps", None, 422),
        ("DELETE", OF_JOB, None, 200),
        ("DELETE", OF_JOB, None, 404),
        ("GET", f"{OF_JOB}/corrections", None, 404),
    ]
    for method, path, body, status in requests:
        sent = {} if body is None else {"json": body}
        assert served.ask(method, path, **sent).status_code == status, (method, path)


def test_a_verdict_and_an_exclusion_show_in_the_job_as_declared(served: Service) -> None:
    with served.project("corrected") as service:
        service.ingest(failing_job(JOB))
        wait_for(lambda: service.knows(JOB))
        service.ask("PUT", f"{OF_JOB}/attempts/0/verdict", json=VERDICT)
        service.ask("PUT", f"{OF_JOB}/exclusion", json=EXCLUSION)
        wait_for(lambda: service.read(OF_JOB)["attempts"][0]["verdict"] is not None)
        job = service.read(OF_JOB)
    assert job["attempts"][0]["cause"] == "network"
    assert [exclusion["why"] for exclusion in job["exclusions"]] == ["a drill"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/markers"),
        ("PUT", "/v1/jobs/a/exclusion"),
        ("PUT", "/v1/jobs/a/attempts/0/verdict"),
    ],
)
def test_each_refusal_of_a_body_is_declared(served: Service, method: str, path: str) -> None:
    served.refuses_bodies(method, path)
