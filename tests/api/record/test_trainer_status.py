"""The status endpoint of Kubeflow's trainer."""

from typing import Any

import pytest

from ett_service.core.intervals import rfc3339
from tests.builders.clock import NOON, SECOND
from tests.builders.databases.engines import ON_ONE_ENGINE
from tests.builders.servers.application import Service

PATH = "/v1/jobs/sft/trainer-status"


def status(at: float, percent: int, **metrics: object) -> dict[str, Any]:
    """What the callback posts: all figures as text."""
    return {
        "trainerStatus": {
            "lastUpdatedTime": rfc3339(NOON + int(at * SECOND)),
            "progressPercentage": percent,
            "estimatedRemainingSeconds": 5,
            "metrics": [{"name": name, "value": str(value)} for name, value in metrics.items()],
        }
    }


BEGIN = status(0, 0, total_steps=100)
STEPS = [status(10 * n, n * 10, current_step=n * 10, loss=0.5) for n in range(1, 10)]
END = status(100, 100, train_loss=0.4)


def post(service: Service, *statuses: dict[str, Any], **query: Any) -> list[dict[str, int]]:
    answers = [service.client.post(PATH, json=each, params=query) for each in statuses]
    assert [each.status_code for each in answers] == [200] * len(answers), answers[0].text
    service.settle()
    return [each.json() for each in answers]


def seconds(service: Service) -> dict[str, float]:
    categories = service.get("/v1/jobs/sft")["categories"]
    return {name: value for name, value in categories.items() if value}


def test_a_job_needs_no_more_than_its_status(service: Service) -> None:
    post(service, BEGIN, *STEPS, END, launch="uid-1")
    job = service.get("/v1/jobs/sft")
    assert (job["state"], job["ett_ratio"], job["e2e_seconds"]) == ("finished", 1.0, 100.0)
    (attempt,) = job["attempts"]
    assert (attempt["launch"], attempt["outcome"], attempt["last_step"]) == (
        "uid-1", "completed", 90,
    )  # fmt: skip


def test_a_status_that_comes_twice_counts_once(service: Service) -> None:
    post(service, BEGIN, *STEPS, END)
    before = service.get("/v1/jobs/sft/events")
    again = post(service, BEGIN, STEPS[3], END)
    assert [each["accepted"] for each in again] == [0, 0, 0]
    assert service.get("/v1/jobs/sft/events") == before


@ON_ONE_ENGINE
def test_a_begin_that_never_arrived_is_made_up_for_by_the_first_step(service: Service) -> None:
    post(service, *STEPS, END)
    assert seconds(service) == {"effective_training": 90.0}


def test_each_begin_is_a_life_and_what_it_repeats_is_repeated(service: Service) -> None:
    again = [status(60 + 10 * n, n * 10, current_step=n * 10) for n in range(1, 10)]
    post(service, BEGIN, *STEPS[:4], status(60, 0, total_steps=100), *again)
    job = service.get("/v1/jobs/sft")
    assert [(each["attempt"], each["cycle"], each["outcome"]) for each in job["attempts"]] == [
        (0, 0, "lost"),
        (0, 1, "lost"),
    ]
    assert seconds(service)["repeated_training"] == pytest.approx(40, abs=1)


@ON_ONE_ENGINE
def test_an_attempt_that_its_scheduler_counts_is_one_of_its_own(service: Service) -> None:
    post(service, BEGIN, *STEPS[:2], launch="u", attempt=0)
    post(service, status(60, 0), launch="u", attempt=1)
    attempts = service.get("/v1/jobs/sft")["attempts"]
    assert [(each["launch"], each["attempt"]) for each in attempts] == [("u", 0), ("u", 1)]


@ON_ONE_ENGINE
@pytest.mark.parametrize(
    ("body", "code", "pointer"),
    [
        ({}, "missing_member", "/trainerStatus"),
        ({"trainerStatus": {}}, "missing_member", "/trainerStatus/lastUpdatedTime"),
        (status(0, 0) | {"trainerStatus": 5}, "wrong_type", "/trainerStatus"),
        (
            {"trainerStatus": {"lastUpdatedTime": "2026-03-01T12:00:00"}},
            "timestamp_without_offset",
            "/trainerStatus/lastUpdatedTime",
        ),
    ],
)
def test_what_is_no_status_is_refused_by_code_and_place(
    service: Service, body: dict[str, Any], code: str, pointer: str
) -> None:
    answer = service.client.post(PATH, json=body)
    assert answer.status_code == 422
    assert answer.json()["errors"] == [{"code": code, "pointer": pointer}]


@ON_ONE_ENGINE
@pytest.mark.parametrize("value", ["-1", "1.5", "nan", "9" * 30, "", "\u0663"])
def test_a_step_that_is_no_number_is_no_progress(service: Service, value: str) -> None:
    post(service, status(0, 5, current_step=value))
    kinds = {each["type"] for each in service.get("/v1/jobs/sft/events")["events"]}
    assert "progress" not in kinds


@ON_ONE_ENGINE
def test_a_key_that_may_only_read_posts_nothing(service: Service) -> None:
    headers = {"Authorization": f"Bearer {service.key(['read'])}"}
    assert service.client.post(PATH, json=BEGIN, headers=headers).status_code == 403
    assert service.client.post("/v1/jobs/%2E/trainer-status", json=BEGIN).status_code in (404, 422)
