"""Whose wait it was, in answers about a job and the fleet, on both engines."""

from datetime import timedelta

from tests.builders.jobs import wire_event, wire_span
from tests.builders.servers.application import Service

EVENTS = [
    wire_span("queued", 0, 60),
    wire_span("queued", 0, 45, stage="quota_wait"),
    wire_event("attempt_started", 60, gpus=8),
    wire_span("hardware_setup", 60, 80),
    wire_span("hardware_setup", 65, 75, stage="image_pull"),
    wire_span("launcher_init", 80, 90),
    wire_span("train_loop", 90, 150),
    wire_event("attempt_ended", 150, outcome="failed", cycle=0),
    wire_event("attempt_started", 170, attempt=1, gpus=8),
    wire_span("train_loop", 180, 240, attempt=1),
    wire_event("attempt_ended", 240, attempt=1, outcome="completed", cycle=0),
]


def test_the_owners_of_a_job_sum_to_its_queue_its_start_and_each_recovery(
    service: Service,
) -> None:
    service.clock.now_us += timedelta(hours=5) // timedelta(microseconds=1)
    service.ingest(EVENTS)

    job = service.get("/v1/jobs/llm-70b")

    assert job["waits"] == {
        "queue": {"quota": 2700.0, "scheduler": 900.0},
        "starting": {"image": 600.0, "node": 600.0, "framework": 600.0},
        "recovering": {"scheduler": 1200.0, "user": 600.0},
    }
    assert sum(job["waits"]["queue"].values()) == job["queue_wait_seconds"]
    assert sum(job["waits"]["starting"].values()) == job["time_to_start_seconds"]
    [recovery] = job["recoveries"]
    assert recovery["owners"] == job["waits"]["recovering"]
    assert sum(recovery["owners"].values()) == recovery["seconds"]


def test_the_owners_of_the_fleet_sum_to_its_periods_and_its_queue(service: Service) -> None:
    service.clock.now_us += timedelta(hours=5) // timedelta(microseconds=1)
    service.ingest(EVENTS)

    for step in ("summary", "series"):
        answer = service.get(f"/v1/fleet/{step}")
        totals = [answer["total"]] if step == "summary" else answer["points"]
        for total in totals:
            periods = ("scheduling", "starting", "recovering")
            waited = sum(total["periods"][period] for period in periods)
            assert sum(total["owners"].values()) == waited
            assert sum(total["weighted_owners"].values()) == 8 * waited
            assert sum(total["queue_owners"].values()) == total["queue_wait_seconds"]
        assert sum(total["owners"]["image"] for total in totals) == 600.0
        assert sum(total["queue_owners"]["quota"] for total in totals) == 2700.0
