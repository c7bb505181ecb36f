"""Deleting a job over HTTP."""

import logging

import pytest

from ett_service.aggregation.verify import verify
from tests.builders.databases.engines import ON_ONE_ENGINE
from tests.builders.jobs import failing_job
from tests.builders.servers.application import Service

JOB = "/v1/jobs/llm-70b"


def test_a_deleted_job_is_gone_and_comes_again_anew(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    events = failing_job()
    service.ingest(events)
    service.ingest(failing_job("llm-7b"))
    before = service.get(JOB)

    with caplog.at_level(logging.INFO):
        answer = service.client.delete(JOB)

    assert answer.status_code == 200
    assert answer.json() == {
        "job": "llm-70b",
        "deleted": True,
        "events": len(events),
        "attempts": 2,
        "corrections": 0,
    }
    (record,) = [each for each in caplog.records if getattr(each, "event", "") == "admin_act"]
    assert record.__dict__["action"] == "job_deleted"
    for path in ("", "/ledger", "/events", "/stages", "/trace", "/corrections"):
        service.get(JOB + path, 404)
    assert [job["job"] for job in service.get("/v1/jobs")["jobs"]] == ["llm-7b"]
    assert service.client.delete(JOB).status_code == 404

    service.clock.now_us += 1
    service.ingest(events)
    assert service.get(JOB) == before
    assert all(not verdict.differences for verdict in verify(service.store))


@ON_ONE_ENGINE
def test_a_dry_run_lists_what_would_be_deleted_and_keeps_it(service: Service) -> None:
    service.ingest(failing_job())
    answer = service.client.delete(JOB, params={"dry_run": True})
    assert (answer.json()["deleted"], answer.json()["attempts"]) == (False, 2)
    service.get(JOB)
    assert service.client.delete("/v1/jobs/nothing", params={"dry_run": 1}).status_code == 404
    assert service.client.delete(JOB, params={"dry_run": "perhaps"}).status_code == 422
    assert service.client.delete(JOB, params={"dryrun": "1"}).status_code == 422
    service.get(JOB)


@ON_ONE_ENGINE
def test_only_an_administrator_deletes_and_names_another_project(service: Service) -> None:
    service.ingest(failing_job())
    for scope, project, status in (
        ("write", "research", 403),
        ("admin", "operators", 404),
        ("admin", "research", 200),
    ):
        key = {"Authorization": f"Bearer {service.key({scope}, project=project)}"}
        assert service.client.delete(JOB, headers=key).status_code == status
    service.clock.now_us += 1
    service.ingest(failing_job())
    admin = {"Authorization": f"Bearer {service.key({'admin'}, project='operators')}"}
    answer = service.client.delete(JOB, params={"project": "research"}, headers=admin)
    assert answer.status_code == 200
