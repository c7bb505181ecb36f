"""Time by stage, and the timeline of a job."""

from collections import defaultdict
from typing import Any

from tests.builders.clock import MINUTE, NOON
from tests.builders.jobs import at, failing_job, wire_event, wire_span
from tests.builders.servers.application import Service

JOB = "/v1/jobs/llm-70b"

Lane = tuple[int, int]


def _slices(trace: dict[str, Any]) -> dict[Lane, list[tuple[dict[str, Any], int]]]:
    """Match each end to the begin that is open last on its lane: the begin, and its length."""
    slices: dict[Lane, list[tuple[dict[str, Any], int]]] = defaultdict(list)
    opened: dict[Lane, list[dict[str, Any]]] = defaultdict(list)
    for event in trace["traceEvents"]:
        lane = (event["pid"], event["tid"])
        if event["ph"] == "B":
            opened[lane].append(event)
        elif event["ph"] == "E":
            begin = opened[lane].pop()
            slices[lane].append((begin, event["ts"] - begin["ts"]))
    assert not any(opened.values())
    return slices


def _ranks(service: Service) -> None:
    service.ingest(
        [
            *failing_job(),
            *(
                wire_span("launcher_init", 3, end, stage="process_group_init", rank=rank, attempt=0)
                for rank, end in ((0, 4), (1, 4.5), (2, 7))
            ),
            *(wire_span("launcher_init", 3, 8, rank=rank, attempt=0) for rank in range(3)),
            wire_span("launcher_init", 3.5, 3.75, stage="device_init", rank=0, attempt=0),
        ]
    )


def test_the_ledgers_own_lane_sums_by_category_to_the_ledger(service: Service) -> None:
    service.ingest(failing_job())
    by_category: dict[str, int] = defaultdict(int)
    for begin, us in _slices(service.get(f"{JOB}/trace"))[0, 0]:
        assert begin["cat"] == begin["name"]
        by_category[begin["cat"]] += us
    expected: dict[str, int] = defaultdict(int)
    for segment in service.get(f"{JOB}/ledger")["segments"]:
        expected[segment["category"]] += segment["microseconds"]
    assert by_category == expected
    assert sum(by_category.values()) == 62 * MINUTE


def test_every_attempt_is_a_process_and_every_rank_a_thread_of_it(service: Service) -> None:
    _ranks(service)
    trace = service.get(f"{JOB}/trace")
    names = {
        (event["name"], event["pid"], event["tid"]): event["args"]["name"]
        for event in trace["traceEvents"]
        if event["ph"] == "M"
    }
    assert names["process_name", 0, 0] == "ledger of llm-70b"
    assert names["process_name", 1, 0] == "attempt 0 (failed)"
    assert names["process_name", 2, 0] == "attempt 1 (completed)"
    assert [names["thread_name", 1, thread] for thread in range(4)] == [
        "no rank",
        "rank 0",
        "rank 1",
        "rank 2",
    ]
    assert set(_slices(trace)) == {(0, 0), (1, 0), (1, 1), (1, 2), (1, 3), (2, 0)}


def test_a_stage_is_drawn_inside_its_phase(service: Service) -> None:
    _ranks(service)
    drawn = _slices(service.get(f"{JOB}/trace"))[1, 1]
    assert [(begin["name"], begin["cat"], us / MINUTE) for begin, us in drawn] == [
        ("device_init", "stage", 0.25),
        ("process_group_init", "stage", 1.0),
        ("launcher_init", "phase", 5.0),
    ]


def test_checkpoints_and_ends_of_attempts_are_marked(service: Service) -> None:
    service.ingest(failing_job())
    marks = [
        (event["name"], event["pid"], (event["ts"] - NOON) / MINUTE)
        for event in service.get(f"{JOB}/trace")["traceEvents"]
        if event["ph"] == "i"
    ]
    assert marks == [
        ("checkpoint_saved", 1, 20),
        ("failed", 1, 30),
        ("checkpoint_restored", 2, 35),
        ("completed", 2, 62),
    ]


def test_an_open_phase_is_marked_as_ending_by_inference(service: Service) -> None:
    service.ingest(failing_job())
    loops = [
        begin
        for lane in ((1, 0), (2, 0))
        for begin, _ in _slices(service.get(f"{JOB}/trace"))[lane]
        if begin["name"] == "train_loop"
    ]
    assert [begin["args"]["inferred_end"] for begin in loops] == [True, False]


def test_time_by_stage_is_inclusive_exclusive_and_skewed(service: Service) -> None:
    _ranks(service)
    answer = service.get(f"{JOB}/stages")
    rows = {(row["number"], row["phase"], row["stage"]): row for row in answer["stages"]}
    group = rows[0, "launcher_init", "process_group_init"]
    assert (group["inclusive_seconds"], group["exclusive_seconds"]) == (60.0, 45.0)
    assert group["skew_seconds"] == 4 * 60 - 90
    assert rows[0, "launcher_init", "device_init"]["exclusive_seconds"] == 15.0
    assert rows[0, "launcher_init", "device_init"]["skew_seconds"] is None
    assert rows[0, "launcher_init", None]["skew_seconds"] == 0.0
    assert rows[0, "train_loop", None]["inclusive_seconds"] == 1200.0
    assert rows[0, "train_loop", None]["exclusive_seconds"] == 1140.0
    inclusive = sum(row["inclusive_seconds"] for row in answer["stages"])
    assert answer["span_seconds"] == inclusive
    assert answer["e2e_seconds"] == service.get(JOB)["e2e_seconds"]
    assert answer["span_ratio"] == inclusive / answer["e2e_seconds"] > 1


def test_a_job_that_only_queued_has_an_empty_timeline(service: Service) -> None:
    service.ingest([wire_event("phase_started", 0, phase="queued")])
    trace = service.get(f"{JOB}/trace")
    assert {event["ph"] for event in trace["traceEvents"]} == {"M"}
    stages = service.get(f"{JOB}/stages")
    assert (stages["stages"], stages["span_seconds"], stages["span_ratio"]) == ([], 0.0, 0.0)


def test_a_corrected_clock_moves_the_timeline_with_the_ledger(service: Service) -> None:
    hour = 60.0
    events = [
        {**event, "producer": "p"}
        for event in (
            wire_event("attempt_started", hour, attempt=0),
            wire_span("launcher_init", hour, hour + 5),
            wire_event("attempt_ended", hour + 6, outcome="completed"),
        )
    ]
    service.clock.now_us = NOON + 10 * MINUTE
    service.ingest(events, sent_at=at(hour + 10), producer="p")
    drawn = _slices(service.get(f"{JOB}/trace"))
    assert service.get(JOB)["started_at"] == at(0)
    assert [(begin["ts"], us) for begin, us in drawn[1, 0]] == [(NOON, 5 * MINUTE)]


def test_the_rank_that_waits_longest_for_data_is_named_beside_the_median(service: Service) -> None:
    service.ingest(
        [
            *failing_job(),
            *(
                wire_event(
                    "heartbeat", minute, rank=rank, host=host, attempt=0, producer=f"p{rank}",
                    attributes={"steps": 10 * n, "loop_seconds": 20.0 * n,
                                "data_wait_seconds": wait * 10 * n},
                )
                for rank, host, wait in ((0, "a", 0.25), (1, "b", 1.5), (2, "b", 0.25))
                for n, minute in ((1, 12), (2, 13))
            ),
        ]
    )  # fmt: skip
    answer = service.get(f"{JOB}/ranks")

    rows = [(row["rank"], row["host"], row["data_wait_seconds"]) for row in answer["ranks"]]
    assert rows == [(0, "a", 0.25), (1, "b", 1.5), (2, "b", 0.25), (None, "a", 0.25),
                    (None, "b", 0.875)]  # fmt: skip
    by_step, by_wait = answer["slowest"]
    assert (by_step["seconds"], by_step["median_seconds"]) == (2.0, 2.0)
    assert by_wait == {
        "number": 0, "measure": "data_wait_seconds", "rank": 1, "host": "b", "seconds": 1.5,
        "median_seconds": 0.25, "ranks": 3, "windows": 2,
    }  # fmt: skip
