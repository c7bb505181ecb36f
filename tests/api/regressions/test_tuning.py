"""What verdicts change is shown, and can be taken back."""

from typing import Any

import pytest

from ett_service.core.intervals import HOUR_US
from tests.builders.clock import NOON
from tests.builders.databases.engines import ON_ONE_ENGINE
from tests.builders.regressions.stored import finding, fires
from tests.builders.servers.application import Service


@pytest.fixture
def regression_id(service: Service, project_id: int) -> str:
    service.clock.now_us = NOON + HOUR_US
    return fires(service.store, project_id, finding())[0]


def tuning(service: Service) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = service.get("/v1/regressions/tuning")["tuning"]
    return rows


@ON_ONE_ENGINE
def test_noise_makes_the_smallest_change_larger_until_it_is_reset(
    service: Service, regression_id: str
) -> None:
    assert tuning(service) == []
    noise = {"verdict": "noise", "why": "a bad day"}
    service.client.post(f"/v1/regressions/{regression_id}/triage", json=noise)
    (row,) = tuning(service)
    assert (row["metric"], row["real"], row["noise"], row["reset_at"]) == (
        "phase_seconds", 0, 1, None,
    )  # fmt: skip
    assert row["factor"] == pytest.approx(1.15, abs=0.01)

    service.clock.now_us += HOUR_US
    reset = {"metric": "phase_seconds", "why": "the storage was broken"}
    answer = service.client.post("/v1/regressions/tuning/reset", json=reset)
    assert answer.status_code == 200, answer.text
    (row,) = answer.json()["tuning"]
    assert (row["noise"], row["factor"], row["reset_why"]) == (0, 1.0, reset["why"])
    assert tuning(service) == [row]


@ON_ONE_ENGINE
def test_only_administrators_reset(service: Service, regression_id: str) -> None:
    headers = {"Authorization": f"Bearer {service.key(['read'])}"}
    reset = {"metric": "phase_seconds", "why": regression_id}
    refused = service.client.post("/v1/regressions/tuning/reset", json=reset, headers=headers)
    assert refused.status_code == 403
