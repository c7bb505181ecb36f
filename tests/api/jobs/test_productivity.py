"""What a job made of its effective training."""

from datetime import datetime
from typing import Any

import pytest

from tests.builders.databases.engines import ON_ONE_ENGINE
from tests.builders.jobs import at, failing_job, wire_event
from tests.builders.servers.application import Service

PATH = "/v1/jobs/a/productivity"

JOB = "/v1/jobs/llm-70b"


def _train(service: Service, **facts: Any) -> None:
    """Train two hours on 8 accelerators; the second hour makes twice the tokens of the first."""
    service.clock.now_us += 10 * 3600 * 1_000_000
    named = {"job": "a"}
    service.ingest(
        [
            wire_event("job", 0, **named, hardware="A100", precision="bf16", **facts),
            wire_event("attempt_started", 0, **named, gpus=8),
            wire_event("phase_started", 0, **named, phase="train_loop"),
            wire_event("progress", 1, **named, step=1, tokens=0),
            wire_event("progress", 59.9, **named, step=60, tokens=36_000_000),
            wire_event("progress", 119.9, **named, step=120, tokens=108_000_000),
            wire_event("phase_ended", 120, **named, phase="train_loop"),
            wire_event("attempt_ended", 120, **named, outcome="completed"),
        ]
    )


def test_a_job_reports_its_throughput_and_mfu(service: Service) -> None:
    _train(service, parameters=10**9)
    produced = service.get("/v1/jobs/a")["productivity"]

    assert produced["tokens"] == 108_000_000
    assert produced["tokens_per_second"] == 15_000.0
    assert produced["tokens_per_second_per_accelerator"] == 1875.0
    assert produced["mfu"] == pytest.approx(6e9 * 108e6 / (312e12 * 8 * 7200))
    assert produced["useful_ratio"] == produced["mfu"]
    assert (produced["samples"], produced["samples_per_second"]) == (0, None)
    assert produced["cost_per_million_tokens"] is None


def test_throughput_over_time(service: Service) -> None:
    _train(service)
    productivity = service.get(PATH, step="1h")

    assert productivity["total"] == service.get("/v1/jobs/a")["productivity"]
    assert [point["start"] for point in productivity["points"]] == [at(0), at(60)]
    assert [point["tokens_per_second"] for point in productivity["points"]] == [10_000.0, 20_000.0]
    (day,) = service.get(PATH)["points"]
    (week,) = service.get(PATH, step="1w")["points"]
    assert (day.pop("start"), week.pop("start")) == (at(-12 * 60), at(-6 * 24 * 60 - 12 * 60))
    assert day == week == productivity["total"]


@ON_ONE_ENGINE
def test_without_parameters_or_operations_there_is_no_mfu(service: Service) -> None:
    _train(service)
    produced = service.get("/v1/jobs/a")["productivity"]

    assert (produced["mfu"], produced["useful_ratio"]) == (None, None)


@ON_ONE_ENGINE
def test_a_step_that_is_none_is_refused(service: Service) -> None:
    _train(service)
    problem = service.get(PATH, 422, step="1m")

    assert [fault["pointer"] for fault in problem["errors"]] == ["/query/step"]
    assert service.get("/v1/jobs/none/productivity", 404)["status"] == 404


def test_they_are_the_durable_ones_that_the_trace_shows(service: Service) -> None:
    service.ingest(failing_job())
    saved = service.get(f"{JOB}/checkpoints")["checkpoints"]
    shown = [
        (event["pid"] - 1, event["args"]["step"], event["ts"])
        for event in service.get(f"{JOB}/trace")["traceEvents"]
        if event.get("name") == "checkpoint_saved"
    ]
    assert shown
    assert [
        (each["number"], each["step"], datetime.fromisoformat(each["saved_at"]).timestamp() * 1e6)
        for each in saved
    ] == sorted(shown)


def test_a_job_that_is_not_there_is_not_found(service: Service) -> None:
    assert service.client.get("/v1/jobs/none/checkpoints").status_code == 404
