"""Answers about a job whose record was pruned, and about the fleet that it is part of."""

from typing import Any

from ett_service.core.intervals import DAY_US
from ett_service.storage.retention import Kept
from ett_service.worker.retention import Pruner
from tests.builders.databases.engines import ON_ONE_ENGINE
from tests.builders.jobs import failing_job
from tests.builders.servers.application import Service

JOB = "/v1/jobs/llm-70b"
WINDOW: dict[str, Any] = {"from": "2026-01-01T00:00:00Z", "to": "2026-12-01T00:00:00Z"}
HALVES: dict[str, Any] = {
    "base_from": "2026-01-01T00:00:00Z",
    "base_to": "2026-03-01T00:00:00Z",
    "from": "2026-03-01T00:00:00Z",
    "to": "2026-12-01T00:00:00Z",
}


def pruned(service: Service) -> None:
    service.ingest(failing_job())
    service.ingest(failing_job("llm-7b", model="llm-7b"))
    service.clock.now_us += 99 * DAY_US
    pruner = Pruner(service.store, service.clock, Kept(60 * DAY_US, None))
    while pruner.step():
        pass


def fleet(service: Service) -> list[Any]:
    """Ask every question about the fleet."""
    answers = [
        service.get("/v1/fleet/summary", group_by="model", **WINDOW),
        service.get("/v1/fleet/series", step="1d", group_by="model", **WINDOW),
        service.get("/v1/fleet/trend", step="1d", **WINDOW),
        service.get("/v1/fleet/explain", group_by="model", **HALVES),
        service.get("/v1/fleet/checkpoint-advice", **WINDOW),
        service.get("/v1/jobs"),
    ]
    for answer in answers:
        answer.pop("as_of", None)
    return answers


def test_no_answer_about_the_fleet_differs(service: Service) -> None:
    service.ingest(failing_job())
    service.ingest(failing_job("llm-7b", model="llm-7b"))
    service.clock.now_us += 99 * DAY_US
    before, attempts = fleet(service), service.get(f"{JOB}/attempts")
    assert before[0]["groups"]

    pruned(service)

    assert fleet(service) == before
    assert service.get(f"{JOB}/attempts") == attempts


def test_a_pruned_job_says_when_and_what_is_made_of_its_record_is_gone(service: Service) -> None:
    service.ingest(failing_job())
    before = service.get(JOB)
    assert before["pruned_at"] is None

    pruned(service)

    answer = service.get(JOB)
    assert answer.pop("pruned_at").startswith("20")
    del before["pruned_at"]
    assert answer == before
    for path in (
        "ledger", "events", "stages", "ranks", "trace", "attempts/0", "compile-advice",
    ):  # fmt: skip
        problem = service.get(f"{JOB}/{path}", 410)
        assert problem["type"] == "urn:ett-service:problem:pruned"
        assert "were pruned on" in problem["detail"]


@ON_ONE_ENGINE
def test_a_pruned_job_refuses_late_events_and_corrections(service: Service) -> None:
    pruned(service)
    late = failing_job()[-2:]
    answer = service.send(late)
    assert answer.status_code == 422
    assert {error["code"] for error in answer.json()["errors"]} == {"too_old"}
    answer = service.client.put(f"{JOB}/exclusion", json={"why": "a drill"})
    assert answer.status_code == 410
    assert service.client.delete(JOB).status_code == 200
    service.ingest(failing_job())
    assert service.get(JOB)["pruned_at"] is None
