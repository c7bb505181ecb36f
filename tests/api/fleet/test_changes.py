"""The change ledger over HTTP."""

from typing import Any

import pytest

from ett_service.api.fleet.changes import CAUTION, note
from ett_service.storage.fleet.sample import Sample
from ett_service.storage.record.dirty_marks import JobKey
from tests.builders.jobs import wire_event, wire_span
from tests.builders.servers.application import Service

Json = dict[str, Any]

WINDOW: Json = {"from": "2026-03-01T12:00:00Z", "to": "2026-03-03T12:00:00Z"}
DAY = 24 * 60


def _job(name: str, start: int, compiling: int) -> list[Json]:
    """Return a job on 8 accelerators that begins so many minutes after noon and trains an hour."""
    loop, end = start + compiling, start + compiling + 60
    return [
        wire_event("job", start, job=name, gpus=8),
        wire_span("pt2_compile", start, loop, job=name),
        wire_span("train_loop", loop, end, job=name),
        wire_event("attempt_ended", end, job=name, outcome="completed"),
    ]


@pytest.fixture
def deployed(service: Service) -> Service:
    """Two jobs that compile for 20 and 22 minutes, a deploy, and two that compile for 8 and 10."""
    service.clock.now_us += 5 * 24 * 3_600_000_000
    for index, minutes in enumerate((20, 22, 8, 10)):
        service.ingest(_job(f"job-{index}", 100 + index * DAY // 2, minutes))
    answer = service.client.post(
        "/v1/markers",
        json={"at": "2026-03-02T12:00:00Z", "kind": "deploy", "title": "Cache", "id": "cache"},
    )
    assert answer.status_code == 201, answer.text
    return service


def test_a_marker_comes_with_what_was_before_and_after_it(deployed: Service) -> None:
    answer = deployed.get("/v1/fleet/changes", **WINDOW)

    [change] = answer["changes"]
    assert change["marker"]["id"] == "cache"
    assert change["before"] == {
        "from": "2026-02-16T12:00:00.000000Z",
        "to": "2026-03-02T12:00:00.000000Z",
    }
    assert change["after"]["to"] == "2026-03-06T13:00:00.000000Z"  # now
    effects = {effect["measure"]: effect for effect in change["effects"]}
    assert effects["time_to_start"]["before"] == {
        "n": 2,
        "jobs": 2,
        "mean_seconds": 1260.0,
        "median_seconds": 1260.0,
    }
    assert effects["pt2_compile"]["difference_seconds"] == -720.0
    interval = effects["pt2_compile"]["difference_interval"]
    assert interval["low"] <= -720 <= interval["high"]
    assert effects["time_to_recover"]["after"]["mean_seconds"] is None
    assert effects["time_to_recover"]["difference_seconds"] is None
    assert change["ett"]["before"] == pytest.approx(120 / 162)
    assert change["ett"]["points"] == pytest.approx(100 * (120 / 138 - 120 / 162))
    assert "not shown to be caused" in answer["note"]


def test_the_steps_of_the_waterfall_sum_to_its_change(deployed: Service) -> None:
    waterfall = deployed.get("/v1/fleet/changes", **WINDOW)["waterfall"]

    assert [step["mean_seconds"] for step in waterfall["steps"]] == [1260.0, 540.0]
    assert [step["step_seconds"] for step in waterfall["steps"]] == [0.0, -720.0]
    assert waterfall["steps"][1]["marker"]["id"] == "cache"
    assert waterfall["change_seconds"] == -720.0


def test_markers_and_reach_are_narrowed_on_request(deployed: Service) -> None:
    body = deployed.get("/v1/fleet/changes", marker="cache", reach_days=1, kind="deploy", **WINDOW)
    none = deployed.get("/v1/fleet/changes", kind="launch", **WINDOW)

    assert body["changes"][0]["before"]["from"] == "2026-03-01T12:00:00.000000Z"
    assert (none["changes"], len(none["waterfall"]["steps"])) == ([], 1)
    deployed.get("/v1/fleet/changes", status=404, marker="unknown", **WINDOW)
    deployed.get("/v1/fleet/changes", status=422, reach_days=0)
    deployed.get("/v1/fleet/changes", status=422, kind="party")


def test_markers_beyond_the_limit_are_left_out_and_flagged(deployed: Service) -> None:
    for minute in range(3):
        at = f"2026-03-02T13:0{minute}:00Z"
        answer = deployed.client.post(
            "/v1/markers", json={"at": at, "kind": "launch", "title": f"Launch {minute}"}
        )
        assert answer.status_code == 201

    answer = deployed.get("/v1/fleet/changes", limit=2, **WINDOW)

    assert [change["marker"]["title"] for change in answer["changes"]] == ["Launch 2", "Launch 1"]
    assert answer["more_changes"] is True
    assert len(answer["waterfall"]["steps"]) == 5


def test_maintenance_is_a_step_only_on_request(deployed: Service) -> None:
    planned = {"at": "2026-03-02T14:00:00Z", "kind": "maintenance", "title": "Racks"}
    assert deployed.client.post("/v1/markers", json=planned).status_code == 201

    def steps(**query: str) -> list[str | None]:
        answer = deployed.get("/v1/fleet/changes", **WINDOW | query)
        return [step["marker"] and step["marker"]["title"] for step in answer["waterfall"]["steps"]]

    assert steps() == [None, "Cache"]
    assert steps(kind="maintenance") == [None, "Racks"]


def test_an_empty_fleet_has_no_changes(service: Service) -> None:
    answer = service.get("/v1/fleet/changes")

    assert (answer["changes"], answer["waterfall"]["change_seconds"]) == ([], 0.0)
    assert answer["waterfall"]["steps"][0]["mean_seconds"] is None


def test_a_sample_is_told_in_the_note() -> None:
    sample = Sample([JobKey(1, f"job-{number}") for number in range(1500)], 280_000)
    assert note(None) == CAUTION
    assert note(sample).startswith(CAUTION)
    assert "are of 1,500 of 280,000 jobs, drawn at random" in note(sample)
