"""Advice on saving, on both engines."""

import csv
import io
import math
from typing import Any

import pytest

from tests.builders.databases.engines import ON_ONE_ENGINE
from tests.builders.jobs import at, wire_event, wire_span
from tests.builders.servers.application import Service

DAY: dict[str, Any] = {"from": at(-720), "to": at(720)}


def saving_job(job: str, every: int, team: str = "red") -> list[dict[str, Any]]:
    """8 accelerators that train 4 hours, save for a minute each time, and fail at the end."""
    named = {"job": job}
    saves = range(every, 240, every)
    return [
        wire_event("job", 0, **named, team=team),
        wire_event("attempt_started", 0, **named, gpus=8),
        wire_event("phase_started", 0, **named, phase="train_loop"),
        *(wire_event("progress", minute, **named, step=minute) for minute in range(0, 240, 5)),
        *(wire_span("checkpoint_blocking", minute - 1, minute, **named) for minute in saves),
        *(wire_event("checkpoint_saved", minute, **named, step=minute) for minute in saves),
        wire_event("phase_ended", 240, **named, phase="train_loop"),
        wire_event(
            "attempt_ended", 240, **named, outcome="failed", origin="infra", cause="network"
        ),
    ]


def _settled(service: Service, *stories: list[dict[str, Any]]) -> None:
    service.clock.now_us += 10 * 3600 * 1_000_000
    for story in stories:
        service.ingest(story)


def test_a_job_is_advised_from_its_own_saves_and_failures(service: Service) -> None:
    _settled(service, saving_job("a", 20))
    advice = service.get("/v1/jobs/a/checkpoint-advice")

    assert (advice["job"], advice["reason"], advice["confidence"]) == ("a", None, 0.95)
    assert advice["n"] == {"failures": 1, "infra_failures": 1, "saves": 11, "gaps": 10}
    assert advice["training_seconds"] == 240 * 60
    assert advice["save_seconds"]["value"] == 60.0
    assert advice["mtbf_seconds"]["value"] == 240 * 60
    assert advice["current"]["interval_seconds"] == 1200.0
    assert advice["current"]["wasted_ratio"] == pytest.approx(600 / 14_400 + 60 / 1200)
    best = advice["best"]
    assert best["interval_seconds"] == pytest.approx(math.sqrt(2 * 60 * 14_400))
    assert best["low"] < best["interval_seconds"] < best["high"]
    assert advice["verdict"] == "keep"
    gained = advice["current"]["wasted_ratio"] - best["wasted_ratio"]
    assert advice["gain"]["wasted_ratio"] == pytest.approx(gained, abs=1e-15)
    assert advice["gain"]["gpu_hours"] == pytest.approx(gained * 8 * 4)
    assert len(advice["curve"]) == 25


@ON_ONE_ENGINE
def test_a_job_without_failures_gets_a_bound_and_the_reason(service: Service) -> None:
    quiet = [event for event in saving_job("a", 20) if event["type"] != "attempt_ended"]
    _settled(service, [*quiet, wire_event("attempt_ended", 240, job="a", outcome="completed")])
    advice = service.get("/v1/jobs/a/checkpoint-advice")

    assert advice["reason"] == "Nothing failed: the best interval is known from below only."
    assert advice["best"]["interval_seconds"] is None
    assert advice["best"]["low"] > 0
    assert advice["current"]["interval_seconds"] == 1200.0
    assert advice["gain"] is None


@ON_ONE_ENGINE
def test_a_job_that_only_queued_is_reported_as_such(service: Service) -> None:
    _settled(service, [wire_event("phase_started", 0, phase="queued", job="a")])
    advice = service.get("/v1/jobs/a/checkpoint-advice")

    assert (advice["reason"], advice["current"]) == ("Nothing trained.", None)


@ON_ONE_ENGINE
def test_infra_failures_alone_may_be_counted(service: Service) -> None:
    story = saving_job("a", 20)
    story[-1] |= {"origin": "user", "cause": "user_code"}
    _settled(service, story)

    every = service.get("/v1/jobs/a/checkpoint-advice")
    infra = service.get("/v1/jobs/a/checkpoint-advice", failures="infra")

    assert every["best"]["interval_seconds"] is not None
    assert infra["best"]["interval_seconds"] is None
    assert infra["failures_counted"] == "infra"


def test_cohorts_are_advised_with_most_to_gain_first(service: Service) -> None:
    _settled(
        service, saving_job("a", 20), saving_job("b", 4, "blue"), saving_job("c", 120, "green")
    )
    advice = service.get("/v1/fleet/checkpoint-advice", group_by="team", **DAY)

    assert advice["total"]["n"]["failures"] == 3
    groups = {group["group"]["team"]: group for group in advice["groups"]}
    assert list(groups) == ["blue", "red", "green"]
    assert groups["blue"]["gain"]["gpu_hours"] > groups["red"]["gain"]["gpu_hours"] > 0
    assert [groups[team]["current"]["interval_seconds"] for team in ("red", "blue")] == [1200, 240]
    assert (groups["green"]["current"], groups["green"]["gain"]) == (None, None)
    alone = service.get("/v1/jobs/a/checkpoint-advice")
    assert groups["red"]["best"] == alone["best"]


def test_advice_may_cover_a_part_of_the_fleet(service: Service) -> None:
    _settled(service, saving_job("a", 20), saving_job("b", 5, "blue"))
    advice = service.get("/v1/fleet/checkpoint-advice", where="team:blue", **DAY)

    assert (advice["where"], advice["groups"]) == ({"team": ["blue"]}, [])
    assert advice["total"]["current"]["interval_seconds"] == 300.0


@ON_ONE_ENGINE
def test_advice_comes_as_a_file_too(service: Service) -> None:
    _settled(service, saving_job("a", 20))
    answer = service.client.get(
        "/v1/fleet/checkpoint-advice", params={**DAY, "group_by": "team", "format": "csv"}
    )
    (row,) = csv.DictReader(io.StringIO(answer.text))

    assert row["group.team"] == "red"
    assert float(row["current.interval_seconds"]) == 1200.0


def test_a_window_without_jobs_has_no_advice(service: Service) -> None:
    advice = service.get("/v1/fleet/checkpoint-advice", group_by="team", **DAY)

    assert advice["groups"] == []
    assert advice["total"]["reason"] == "Nothing trained."
    assert advice["total"]["n"] == {"failures": 0, "infra_failures": 0, "saves": 0, "gaps": 0}


@ON_ONE_ENGINE
def test_a_bad_question_is_refused_by_name(service: Service) -> None:
    fleet, job = "/v1/fleet/checkpoint-advice", "/v1/jobs/a/checkpoint-advice"
    for path, name, query in (
        (fleet, "failures", {"failures": "few"}),
        (fleet, "group_by", {"group_by": "colour"}),
        (fleet, "from", {"from": at(1), "to": at(-1)}),
        (job, "failure", {"failure": "all"}),
    ):
        problem = service.get(path, 422, **query)
        assert [fault["pointer"] for fault in problem["errors"]] == [f"/query/{name}"]


@ON_ONE_ENGINE
def test_of_an_unknown_job_there_is_no_advice(service: Service) -> None:
    assert service.get("/v1/jobs/none/checkpoint-advice", 404)["status"] == 404
