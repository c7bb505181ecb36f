"""Answers about the fleet whose hours were pruned: by whole days as before, else a refusal."""

from typing import Any

from ett_service.core.intervals import DAY_US
from ett_service.storage.retention import Kept
from ett_service.worker.retention import Pruner
from tests.builders.databases.engines import ON_ONE_ENGINE
from tests.builders.jobs import failing_job
from tests.builders.servers.application import Service

DAYS: dict[str, Any] = {"from": "2026-02-01T00:00:00Z", "to": "2026-03-03T00:00:00Z"}
HOURS: dict[str, Any] = {"from": "2026-03-01T12:00:00Z", "to": "2026-03-01T13:00:00Z"}
BEFORE = {"base_from": "2026-02-01T00:00:00Z", "base_to": "2026-02-27T00:00:00Z"}
SCENARIO = "cut infra failures by 50%"
RUN = {"flops": 5.04e21, "accelerators": 64, "mfu": 0.42, "hardware": "A100", "measured": True}
QUESTIONS: dict[str, dict[str, Any]] = {
    "/v1/fleet/summary": {},
    "/v1/fleet/series": {"step": "1d"},
    "/v1/fleet/trend": {"step": "1w"},
    "/v1/fleet/explain": BEFORE,
    "/v1/fleet/checkpoint-advice": {},
    "/v1/fleet/projection": {},
    "/v1/estimate": RUN,
}
OF_JOBS: dict[str, dict[str, Any]] = {
    "/v1/fleet/jobs/top": {},
    "/v1/fleet/changes": {},
    "/v1/what-if": {"scenario": SCENARIO},
}
"""What is read of each job, whose hours are kept."""


def answers(service: Service, window: dict[str, Any]) -> dict[str, Any]:
    """Ask what can be asked of a window."""
    replies = {
        path: service.get(path, **window, **query) for path, query in (QUESTIONS | OF_JOBS).items()
    }
    for reply in replies.values():
        reply.pop("as_of", None)
    return replies


def prune(service: Service) -> None:
    pruner = Pruner(service.store, service.clock, Kept(None, 57 * DAY_US))
    while pruner.step():
        pass


def test_answers_by_day_stay_and_hours_are_refused_with_what_to_ask(service: Service) -> None:
    service.ingest(failing_job())
    service.clock.now_us += 99 * DAY_US
    before = answers(service, DAYS)
    of_jobs = {path: service.get(path, **HOURS, **query) for path, query in OF_JOBS.items()}
    assert before["/v1/fleet/summary"]["total"]["jobs"] == 1

    prune(service)

    assert answers(service, DAYS) == before
    for path, query in QUESTIONS.items():
        problem = service.get(path, 410, **HOURS, **query)
        assert problem["type"] == "urn:ett-service:problem:hours-pruned"
        assert problem["hourly_from"].endswith("T00:00:00.000000Z")
        assert (
            "Instead of 2026-03-01T12:00:00Z to 2026-03-01T13:00:00Z ask for "
            "2026-03-01T00:00:00Z to 2026-03-02T00:00:00Z" in problem["detail"]
        )
    for path, reply in of_jobs.items():
        after = service.get(path, **HOURS, **OF_JOBS[path])
        assert after | {"as_of": None} == reply | {"as_of": None}


@ON_ONE_ENGINE
def test_steps_of_an_hour_are_refused_before_the_first_byte(service: Service) -> None:
    service.ingest(failing_job())
    service.clock.now_us += 99 * DAY_US
    prune(service)
    for path, query in (
        ("/v1/fleet/series", {}),
        ("/v1/fleet/series", {"group_by": "team"}),
        ("/v1/fleet/series", {"format": "csv"}),
        ("/v1/fleet/series", {"format": "parquet"}),
        ("/v1/fleet/trend", {}),
    ):
        problem = service.get(path, 410, **DAYS, **query, step="1h")
        assert "steps of a day or a week" in problem["detail"]


@ON_ONE_ENGINE
def test_windows_up_to_now_are_answered_to_the_hour(service: Service) -> None:
    service.clock.now_us += 99 * DAY_US
    prune(service)
    for path in QUESTIONS.keys() - {"/v1/estimate"}:
        assert service.get(path)
    assert len(service.get("/v1/fleet/series", step="1h")["points"]) == 7 * 24
