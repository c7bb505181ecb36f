"""Effective training by its speed, and waits for data, in answers about jobs, on both engines."""

from typing import Any

from tests.builders.jobs import at, steps_taking, wire_event
from tests.builders.servers.application import Service

JOB = "/v1/jobs/llm-70b"


def test_slow_steps_stand_beside_effective_training(service: Service) -> None:
    service.ingest(steps_taking([1] * 18 + [2, 2]))
    job = service.get(JOB)

    assert (job["e2e_seconds"], job["ett_ratio"]) == (1920.0, 22 / 32)
    [run], [attempt] = job["runs"], job["attempts"]
    for answer in (job, run, attempt):
        assert answer["effective_at_reference_seconds"] == 1200.0
        assert answer["slowed_seconds"] == 120.0
        assert answer["speed_unmeasured_seconds"] == 0.0
    assert job["at_reference_ratio"] == 20 / 32
    assert job["reference_step_seconds"] == 1.0
    assert run["speed_references"] == [
        {"gpus": 8, "tokens_per_step": None, "step_seconds": 1.0, "windows": 20}
    ]


def test_a_job_of_too_few_windows_has_no_speed(service: Service) -> None:
    service.ingest(steps_taking([1, 2]))
    job = service.get(JOB)

    assert job["runs"][0]["speed_references"] == []
    assert job["effective_at_reference_seconds"] is None
    assert job["slowed_seconds"] is None
    assert job["at_reference_ratio"] is None
    assert job["reference_step_seconds"] is None
    assert (job["speed_unmeasured_seconds"], job["ended_at"]) == (180.0, at(13))


def test_what_senders_report_of_themselves_stands_with_the_attempt(service: Service) -> None:
    totals = {"data_wait_seconds": 90.5, "telemetry_seconds": 0.25}
    hooks = {"data": "ok", "compile": "missing"}
    service.ingest(
        [
            *steps_taking([1, 2, 3]),
            wire_event("heartbeat", 13, rank=1, attributes={"telemetry_seconds": 1.5}),
            wire_event("progress", 14, step=170, attributes=totals),
            wire_event("heartbeat", 14, attributes={"hooks": hooks}),
        ]
    )
    job = service.get(JOB)

    [attempt] = job["attempts"]
    assert job["data_wait"] == attempt["data_wait"]
    assert job["data_wait"] == {"seconds": 90.5, "loop_seconds": 240.0, "ratio": 90.5 / 240}
    assert attempt["telemetry_seconds"] == 1.5
    assert attempt["hooks"] == hooks
    assert job["quality"]["attempts_missing_hooks"] == 1
    assert [gap["number"] for gap in job["quality"]["gaps"] if gap["kind"] == "missing_hook"] == [0]


def test_what_nobody_reports_is_null_and_not_zero(service: Service) -> None:
    service.ingest(steps_taking([1, 2]))
    job = service.get(JOB)

    assert job["data_wait"] is None
    [attempt] = job["attempts"]
    assert (attempt["data_wait"], attempt["telemetry_seconds"], attempt["hooks"]) == (
        None,
        None,
        {},
    )
    assert job["quality"]["attempts_missing_hooks"] == 0


def test_jobs_are_listed_and_sorted_by_what_was_slowed(service: Service) -> None:
    for name, minutes in (("fast", [1] * 9), ("slow", [1] * 18 + [2, 2]), ("short", [1])):
        service.ingest([event | {"job": name} for event in steps_taking(minutes)])
    jobs = service.get("/v1/jobs", sort="-slowed_seconds")["jobs"]

    assert [
        (job["job"], job["effective_at_reference_seconds"], job["slowed_seconds"]) for job in jobs
    ] == [("slow", 1200.0, 120.0), ("short", None, None), ("fast", 540.0, 0.0)]


def test_the_fleet_weighs_what_was_slowed_by_accelerators(service: Service) -> None:
    for name, gpus, minutes in (("small", 8, [1] * 20), ("large", 24, [1] * 18 + [2, 2])):
        service.ingest([event | {"job": name} for event in steps_taking(minutes, gpus)])
    total = service.get(f"/v1/fleet/summary?from={at(-60)}&to={at(300)}")["total"]

    assert total["effective_at_reference_seconds"] == 2400.0
    assert total["effective_at_reference_weighted_seconds"] == 1200.0 * (8 + 24)
    assert (total["slowed_seconds"], total["slowed_weighted_seconds"]) == (120.0, 120.0 * 24)
    assert total["slowed_ratio_wall"] == 120 / 2520
    assert total["slowed_ratio"] == 120 * 24 / (120 * 24 + 1200 * 32)


def test_half_the_time_at_reference_speed_is_52_5_percent_of_the_fleet(service: Service) -> None:
    """20 windows that take a minute at their best take 21 of 40 minutes."""
    trained = steps_taking([1] * 19 + [2])
    over = wire_event("attempt_ended", 40, outcome="completed")
    service.ingest([*trained[:-1], wire_event("phase_started", 31, phase="shutdown"), over])
    total = service.get(f"/v1/fleet/summary?from={at(-60)}&to={at(300)}")["total"]

    assert total["e2e_seconds"] == 2400.0
    assert total["ett_ratio"] == total["ett_ratio_wall"] == 0.525
    assert total["effective_at_reference_seconds"] / total["e2e_seconds"] == 0.5
    assert total["slowed_seconds"] == 60.0
    assert total["speed_unmeasured_seconds"] == 0.0


def test_a_fleet_that_measures_no_steps_has_no_slowed_ratio(service: Service) -> None:
    service.ingest(steps_taking([1, 2]))
    total = service.get(f"/v1/fleet/summary?from={at(-60)}&to={at(300)}")["total"]

    assert (total["slowed_ratio"], total["slowed_ratio_wall"]) == (None, None)
    assert total["speed_unmeasured_seconds"] == 180.0
    assert total["speed_unmeasured_weighted_seconds"] == 180.0 * 8


def test_the_fleet_weighs_waits_for_data_by_accelerators(service: Service) -> None:
    for name, gpus, waited in (("small", 8, 18.0), ("large", 24, 90.0), ("silent", 24, None)):
        events = steps_taking([1, 2], gpus)
        if waited is not None:
            events.append(wire_event("heartbeat", 13, attributes={"data_wait_seconds": waited}))
        service.ingest([event | {"job": name} for event in events])
    window: dict[str, Any] = {"from": at(-60), "to": at(300)}
    total = service.get("/v1/fleet/summary", **window)["total"]
    [point] = service.get("/v1/fleet/series", **window, step="1d")["points"]

    for answer in (total, point):
        assert (answer["data_wait_seconds"], answer["data_wait_loop_seconds"]) == (108.0, 360.0)
        assert answer["data_wait_weighted_seconds"] == 18.0 * 8 + 90.0 * 24
        assert answer["data_wait_loop_weighted_seconds"] == 180.0 * 32
        assert answer["data_wait_ratio"] == 2304 / 5760
        assert answer["data_wait_ratio_wall"] == 108 / 360
        assert answer["data_wait_attempts"] == 2


def test_a_fleet_in_which_nothing_reports_waits_for_data_has_no_share(service: Service) -> None:
    service.ingest(steps_taking([1, 2]))
    total = service.get(f"/v1/fleet/summary?from={at(-60)}&to={at(300)}")["total"]

    assert (total["data_wait_attempts"], total["data_wait_seconds"]) == (0, 0.0)
    assert (total["data_wait_ratio"], total["data_wait_ratio_wall"]) == (None, None)
