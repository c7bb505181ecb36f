"""Answers about jobs, on both engines."""

from typing import Any
from urllib.parse import quote

import pytest

from ett_service.core.intervals import rfc3339
from ett_service.core.words import Category, Period
from tests.builders.clock import MINUTE
from tests.builders.databases.engines import ON_ONE_ENGINE
from tests.builders.jobs import at, failing_job, repeated_job, wire_event
from tests.builders.servers.application import Service

JOB = "/v1/jobs/llm-70b"


def test_the_numbers_of_a_job_that_failed_once(service: Service) -> None:
    service.ingest(failing_job())
    job = service.get(JOB)
    assert job["state"] == "finished"
    assert job["provisional"] is False
    assert (job["started_at"], job["ended_at"], job["e2e_seconds"]) == (at(0), at(62), 3720.0)
    assert job["ett_ratio"] == pytest.approx(34 / 62, abs=1e-15)
    assert job["time_to_start_seconds"] == 540.0
    assert job["unsaved_training_seconds"] == 600.0
    assert (job["failures"], job["infra_failures"]) == (1, 0)
    assert {name: seconds for name, seconds in job["categories"].items() if seconds} == {
        "scheduling": 60.0,
        "hardware_setup": 120.0,
        "launcher_init": 480.0,
        "pt2_compile": 120.0,
        "effective_training": 2040.0,
        "repeated_training": 600.0,
        "checkpoint_blocking": 60.0,
        "shutdown": 120.0,
        "restart_wait": 120.0,
    }
    assert job["wasted_ratio"] == pytest.approx(11 / 45, abs=1e-15)


def test_a_job_that_was_begun_again_has_its_runs(service: Service) -> None:
    service.ingest(repeated_job())
    job = service.get(JOB)

    assert (job["run_count"], job["e2e_seconds"], job["ett_ratio"]) == (2, 1200.0, 0.8)
    assert job["between_runs_seconds"] == 180 * 60.0
    assert job["categories"]["restart_wait"] == 0.0
    assert [(run["launches"], run["first_attempt"], run["attempts"]) for run in job["runs"]] == [
        (["a"], 0, 1),
        (["b"], 1, 1),
    ]
    for run, start in zip(job["runs"], (0, 190), strict=True):
        assert (run["started_at"], run["ended_at"]) == (at(start), at(start + 10))
        assert (run["e2e_seconds"], run["ett_ratio"]) == (600.0, 0.8)
        assert (run["time_to_start_seconds"], run["failures"]) == (120.0, 0)
        assert (run["state"], run["outcome"]) == ("finished", "completed")
    [row] = service.get("/v1/jobs")["jobs"]
    assert (row["run_count"], row["between_runs_seconds"]) == (2, 10_800.0)


def test_no_segment_covers_the_time_between_runs(service: Service) -> None:
    service.ingest(repeated_job())
    ledger = service.get(f"{JOB}/ledger")

    assert ledger["e2e_microseconds"] == sum(
        segment["microseconds"] for segment in ledger["segments"]
    )
    ends = [segment["end"] for segment in ledger["segments"]]
    starts = [segment["start"] for segment in ledger["segments"]]
    gaps = [(end, start) for end, start in zip(ends, starts[1:], strict=False) if end != start]
    assert gaps == [(at(10), at(190))]


def test_every_category_and_period_of_a_job_is_there(service: Service) -> None:
    service.ingest(failing_job())
    job = service.get(JOB)
    assert list(job["categories"]) == [category.value for category in Category]
    assert list(job["periods"]) == [period.value for period in Period]
    assert sum(job["categories"].values()) == sum(job["periods"].values()) == job["e2e_seconds"]


def test_elsewhere_only_what_is_not_0_is_there(service: Service) -> None:
    service.ingest(failing_job())
    job = service.get(JOB)
    assert job["gpu_seconds"] == {
        "hardware_setup": 960.0,
        "launcher_init": 3840.0,
        "pt2_compile": 960.0,
        "effective_training": 16320.0,
        "repeated_training": 4800.0,
        "checkpoint_blocking": 480.0,
        "shutdown": 960.0,
    }
    assert job["attempts"][1]["categories"] == {
        "launcher_init": 180.0,
        "effective_training": 900.0,
        "repeated_training": 600.0,
        "shutdown": 120.0,
    }


def test_a_recovery_is_split_into_parts_that_sum_to_it(service: Service) -> None:
    service.ingest(failing_job())
    assert service.get(JOB)["recoveries"] == [
        {
            "interrupted": 0,
            "resumed": 1,
            "started_at": at(30),
            "ended_at": at(35),
            "seconds": 300.0,
            "outcome": "failed",
            "parts": {"launcher_init": 180.0, "restart_wait": 120.0},
            "owners": {"scheduler": 120.0, "framework": 180.0},
            "stalled_seconds": 0.0,
            "repeated_seconds": 600.0,
        }
    ]


def test_a_failed_attempt_names_the_evidence_of_its_cause(service: Service) -> None:
    service.ingest(failing_job())
    first, second = service.get(JOB)["attempts"]
    assert (first["outcome"], second["outcome"]) == ("failed", "completed")
    assert "137" in first["evidence"]["text"]
    assert (second["origin"], second["cause"], second["evidence"]) == (None, None, None)


def test_weighted_numbers_are_null_while_accelerators_are_unknown(service: Service) -> None:
    events = [
        {name: value for name, value in event.items() if name != "gpus"} for event in failing_job()
    ]
    service.ingest(events)
    job = service.get(JOB)
    assert (job["weighted_seconds"], job["gpu_seconds"]) == (None, None)
    assert job["quality"]["gpus_unknown"] is True


def test_gaps_are_named(service: Service) -> None:
    service.ingest(failing_job())
    quality = service.get(JOB)["quality"]
    assert quality["inferred_ends"] == 1
    (gap,) = [gap for gap in quality["gaps"] if gap["kind"] == "inferred_end"]
    assert (gap["number"], gap["started_at"], gap["ended_at"]) == (0, at(10), at(30))


def test_segments_sum_to_e2e_to_the_microsecond(service: Service) -> None:
    service.ingest(failing_job())
    ledger = service.get(f"{JOB}/ledger")
    segments = ledger["segments"]
    assert sum(segment["microseconds"] for segment in segments) == ledger["e2e_microseconds"]
    assert ledger["e2e_microseconds"] == 62 * 60_000_000
    assert [segment["start"] for segment in segments[1:]] == [
        segment["end"] for segment in segments[:-1]
    ]
    (wait,) = [segment for segment in segments if segment["number"] is None]
    assert wait == {
        "start": at(30),
        "end": at(32),
        "category": "restart_wait",
        "period": "recovering",
        "number": None,
        "microseconds": 120_000_000,
    }


def test_a_running_job_runs_to_the_instant_it_was_computed_for(service: Service) -> None:
    service.clock.now_us -= 55 * 60_000_000
    service.ingest([wire_event("attempt_started", 0), wire_event("progress", 4, step=1)])
    job = service.get(JOB)
    assert (job["state"], job["provisional"]) == ("running", True)
    assert job["as_of"] == job["ended_at"] == at(5)


def test_a_job_that_only_queued_has_numbers_too(service: Service) -> None:
    service.ingest([wire_event("phase_started", 0, phase="queued")])
    job = service.get(JOB)
    assert (job["state"], job["started_at"], job["e2e_seconds"]) == ("queued", None, 0.0)
    assert (job["ett_ratio"], job["wasted_ratio"]) == (0.0, 0.0)


@ON_ONE_ENGINE
@pytest.mark.parametrize("part", ["", "/ledger", "/events", "/stages", "/trace"])
@pytest.mark.parametrize("job", ["none", "%00", "%FF", "x" * 3000])
def test_an_unknown_job_is_a_404_problem(service: Service, job: str, part: str) -> None:
    answer = service.client.get(f"/v1/jobs/{job}{part}")
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"


@ON_ONE_ENGINE
@pytest.mark.parametrize("name", ["Größe 7B (v2)", "a b", "ledger", "?#", "漢字"])
def test_a_job_may_have_any_printable_name(service: Service, name: str) -> None:
    service.ingest([wire_event("heartbeat", 0, job=name)])
    assert service.get(f"/v1/jobs/{quote(name, safe='')}")["job"] == name


def _names(page: dict[str, Any]) -> list[str]:
    return [job["job"] for job in page["jobs"]]


def _fleet(service: Service) -> None:
    """Three jobs, the later the shorter, and one that only queues."""
    service.ingest(
        [
            wire_event("attempt_started", 0, "a", gpus=8),
            wire_event("job", 0, "a", team="red", model="small", name="First try"),
            wire_event("attempt_ended", 30, "a", outcome="failed"),
            wire_event("attempt_started", 10, "b"),
            wire_event("job", 10, "b", team="red", model="large"),
            wire_event("job_ended", 30, "b", outcome="completed"),
            wire_event("attempt_started", 20, "c"),
            wire_event("job", 20, "c", team="blue_", model="large"),
            wire_event("job_ended", 25, "c", outcome="completed"),
            wire_event("phase_started", 40, "d", phase="queued"),
        ]
    )


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, ["d", "c", "b", "a"]),
        ({"sort": "started_at"}, ["a", "b", "c", "d"]),
        ({"sort": "job"}, ["a", "b", "c", "d"]),
        ({"sort": "-job"}, ["d", "c", "b", "a"]),
        ({"sort": "-e2e_seconds"}, ["a", "b", "c", "d"]),
        ({"sort": "-failures", "limit": 1}, ["a"]),
        ({"sort": "-ended_at"}, ["d", "b", "a", "c"]),
        ({"sort": "ett_ratio"}, ["a", "b", "c", "d"]),
        ({"team": "red"}, ["b", "a"]),
        ({"team": "red", "model": "large"}, ["b"]),
        ({"cluster": "nowhere"}, []),
        ({"state": "queued"}, ["d"]),
        ({"state": "interrupted"}, ["a"]),
        ({"q": "FIRST"}, ["a"]),
        ({"q": "_"}, []),
        ({"q": "%"}, []),
        ({"from": at(27)}, ["d", "b", "a"]),
        ({"to": at(20)}, ["b", "a"]),
        ({"to": "2026-03-01T13:20:00+01:00"}, ["b", "a"]),
        ({"from": at(26), "to": at(27)}, ["b", "a"]),
    ],
)
def test_jobs_are_filtered_and_sorted(
    service: Service, query: dict[str, Any], expected: list[str]
) -> None:
    _fleet(service)
    assert _names(service.get("/v1/jobs", **query)) == expected


def test_a_list_shows_the_numbers_of_each_job(service: Service) -> None:
    service.ingest(failing_job())
    job = service.get(JOB)
    (listed,) = service.get("/v1/jobs")["jobs"]
    assert listed == {name: job[name] for name in listed}
    assert {"ett_ratio", "wasted_ratio", "state", "as_of"} <= listed.keys()


def test_a_job_says_since_when_events_wait_for_their_numbers(service: Service) -> None:
    service.ingest(failing_job())
    assert service.get(JOB)["waiting_since"] is None
    service.clock.now_us += MINUTE
    service.send([wire_event("heartbeat", 30)])
    came = service.clock.now_us
    service.clock.now_us += MINUTE
    service.send([wire_event("heartbeat", 31)])
    assert service.get(JOB)["waiting_since"] == rfc3339(came)
    service.settle()
    assert service.get(JOB)["waiting_since"] is None


def test_jobs_are_ordered_by_the_accelerator_time_that_they_lost(service: Service) -> None:
    _fleet(service)
    service.ingest([wire_event("attempt_started", 0, "known", gpus=8), *failing_job()])
    rows = service.get("/v1/jobs", sort="-lost_gpu_seconds")["jobs"]
    lost = [row["lost_gpu_seconds"] for row in rows]
    assert [us or 0.0 for us in lost] == sorted((us or 0.0 for us in lost), reverse=True)
    assert len(set(lost)) >= 3, "two that lost, and those of unknown accelerators"
    assert rows[::-1] == service.get("/v1/jobs", sort="lost_gpu_seconds")["jobs"]
    for row in rows:
        job = service.get(f"/v1/jobs/{row['job']}")
        held = job["gpu_seconds"] if job["e2e_seconds"] else None
        spent = held and sum(held.values()) - held.get("effective_training", 0.0)
        assert row["lost_gpu_seconds"] == job["lost_gpu_seconds"] == spent


def test_jobs_are_those_of_which_an_attempt_failed_for_a_cause(service: Service) -> None:
    _fleet(service)
    service.ingest(failing_job())
    causes = {
        row["job"]: {attempt["cause"] for attempt in _attempts(service, row["job"])}
        for row in service.get("/v1/jobs")["jobs"]
    }
    named = {cause for of_job in causes.values() for cause in of_job if cause}
    assert named
    for cause in named:
        wanted = {job for job, of_job in causes.items() if cause in of_job}
        assert set(_names(service.get("/v1/jobs", cause=cause))) == wanted != set(causes)
    assert _names(service.get("/v1/jobs", cause="storage")) == []


def _attempts(service: Service, job: str) -> list[dict[str, Any]]:
    attempts: list[dict[str, Any]] = service.get(f"/v1/jobs/{job}/attempts")["attempts"]
    return attempts


@pytest.mark.parametrize(
    "sort", ["-started_at", "job", "-ett_ratio", "ended_at", "failures", "-lost_gpu_seconds"]
)
def test_pages_neither_repeat_nor_hide_a_job_while_others_come(service: Service, sort: str) -> None:
    _fleet(service)
    page = service.get("/v1/jobs", sort=sort, limit=1)
    seen = _names(page)
    service.ingest(
        [wire_event("attempt_started", minute, f"new-{minute}") for minute in range(0, 45, 5)]
    )
    while page["next_cursor"]:
        page = service.get("/v1/jobs", sort=sort, limit=1, cursor=page["next_cursor"])
        seen += _names(page)
    assert len(seen) == len(set(seen))
    assert {"a", "b", "c", "d"} <= set(seen)


@pytest.mark.parametrize(
    ("query", "pointer", "code"),
    [
        ({"tema": "red"}, "/query/tema", "unknown_parameter"),
        ({"limit": "0"}, "/query/limit", "greater_than_equal"),
        ({"limit": "1001"}, "/query/limit", "less_than_equal"),
        ({"limit": "9" * 400}, "/query/limit", "less_than_equal"),
        ({"limit": "NaN"}, "/query/limit", "int_parsing"),
        ({"sort": "answer; DROP TABLE job"}, "/query/sort", "literal_error"),
        ({"state": "dead"}, "/query/state", "enum"),
        ({"cause": "bad luck"}, "/query/cause", "enum"),
        ({"team": "\x00"}, "/query/team", "string_pattern_mismatch"),
        ({"q": "x" * 201}, "/query/q", "string_too_long"),
        ({"from": "yesterday"}, "/query/from", "bad_timestamp"),
        ({"from": "1772366400"}, "/query/from", "bad_timestamp"),
        ({"to": "2026-03-01T12:00:00"}, "/query/to", "timestamp_without_offset"),
        ({"cursor": "abc"}, "/query/cursor", "bad_cursor"),
    ],
)
def test_a_bad_query_is_refused_by_name(
    service: Service, query: dict[str, str], pointer: str, code: str
) -> None:
    problem = service.get("/v1/jobs", 422, **query)
    assert problem["type"] == "urn:ett-service:problem:validation-failed"
    assert [(fault["pointer"], fault["code"]) for fault in problem["errors"]] == [(pointer, code)]


def test_a_cursor_of_another_order_is_refused(service: Service) -> None:
    _fleet(service)
    cursor = service.get("/v1/jobs", sort="job", limit=1)["next_cursor"]
    assert service.get("/v1/jobs", 422, sort="-job", limit=1, cursor=cursor)["status"] == 422
