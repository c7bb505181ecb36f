"""Stories of jobs, sent to a real server over HTTP and read back from it."""

import json
import random
import time
from typing import Any

import pytest

from ett_service.core.intervals import rfc3339
from tests.builders.clock import MINUTE, NOON
from tests.builders.jobs import at, failing_job, wire_event, wire_span
from tests.builders.servers.ett import Server

pytestmark = pytest.mark.xdist_group("stories")

JOB = "/v1/jobs/llm-70b"


def test_a_job_that_fails_twice(server: Server) -> None:
    third: dict[str, Any] = {"attempt": 2}
    events = [
        *(
            event
            for event in failing_job()
            if event["at"] < at(50) and event["type"] != "job_ended"
        ),
        wire_event("attempt_ended", 50, outcome="preempted", attempt=1),
        wire_event("attempt_started", 55, **third),
        wire_span("launcher_init", 55, 58, **third),
        wire_event("phase_started", 58, phase="train_loop", **third),
        wire_event("progress", 70, step=500, **third),
        wire_event("phase_ended", 70, phase="train_loop", **third),
        wire_event("attempt_ended", 70, outcome="completed", **third),
        wire_event("job_ended", 70, outcome="completed"),
    ]
    assert server.send(events).status == 200
    job = server.reaches(JOB, lambda answer: answer["state"] == "finished")
    assert [attempt["outcome"] for attempt in job["attempts"]] == [
        "failed",
        "preempted",
        "completed",
    ]
    assert (job["failures"], job["infra_failures"]) == (2, 1)
    assert [recovery["seconds"] for recovery in job["recoveries"]] == [300.0, 480.0]
    assert sum(job["categories"].values()) == job["e2e_seconds"] == 70 * 60


def test_a_trainer_that_resends_what_it_is_unsure_of(server: Server) -> None:
    events = failing_job()
    shuffled = random.Random(7).sample(events, len(events))
    for start in range(0, len(events), 5):
        for _ in range(2):
            assert server.send(shuffled[start : start + 5]).status == 200
    again = json.loads(server.send(events).body)
    assert (again["accepted"], again["duplicate"]) == (0, len(events))
    job = server.reaches(JOB, lambda answer: answer["state"] == "finished")
    assert job["ett_ratio"] == pytest.approx(34 / 62, abs=1e-15)
    assert len(server.get(f"{JOB}/events")["events"]) == len(events)


def test_a_clock_an_hour_ahead(server: Server) -> None:
    now_us = time.time_ns() // 1000
    ahead = 60 * MINUTE
    start = now_us - 20 * MINUTE + ahead

    def instant(minute: int) -> str:
        return rfc3339(start + minute * MINUTE)

    shared = {"job": "llm-70b", "producer": "trainer"}
    events = [
        {"type": "attempt_started", "at": instant(0), **shared},
        {
            "type": "span",
            "phase": "train_loop",
            "start": instant(1),
            "at": instant(10),
            **shared,
        },
        {"type": "attempt_ended", "at": instant(10), "outcome": "completed", **shared},
    ]
    assert server.send(events, sent_at=rfc3339(now_us + ahead), producer="trainer").status == 200
    job = server.reaches(JOB, lambda answer: answer["attempts"])
    assert job["e2e_seconds"] == 600.0
    assert job["quality"]["clock_flags"] == 1
    assert rfc3339(now_us - 21 * MINUTE) < job["started_at"] < rfc3339(now_us - 19 * MINUTE)


def test_late_facts_give_the_ledger_they_would_have_given_on_time(own_server: Server) -> None:
    events = failing_job()
    late = [event for event in events if event["type"] in ("checkpoint_saved", "span")]
    assert own_server.send([event for event in events if event not in late]).status == 200
    early = own_server.reaches(JOB, lambda answer: answer["state"] == "finished")
    assert early["categories"]["checkpoint_blocking"] == 0
    assert own_server.send(late).status == 200
    job = own_server.reaches(JOB, lambda answer: answer["categories"]["shutdown"] > 0)
    assert job["categories"]["checkpoint_blocking"] == 60.0
    assert job["ett_ratio"] == pytest.approx(34 / 62, abs=1e-15)


def test_nothing_acknowledged_is_lost_when_the_server_is_killed_between_batches(
    own_server: Server,
) -> None:
    events = failing_job()
    for start in range(0, len(events), 12):
        assert own_server.send(events[start : start + 12]).status == 200
        own_server.kill()
        own_server.start()
    job = own_server.reaches(JOB, lambda answer: answer["state"] == "finished")
    assert job["e2e_seconds"] == 3720.0
    assert len(own_server.get(f"{JOB}/events")["events"]) == len(events)


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_a_worker_beside_the_server_computes_what_the_server_takes_in(
    server_and_worker: Server,
) -> None:
    assert server_and_worker.get("/readyz")["parts"]["worker"] == "elsewhere"
    assert server_and_worker.send(failing_job()).status == 200
    job = server_and_worker.reaches(JOB, lambda answer: answer["state"] == "finished")
    assert job["e2e_seconds"] == 3720.0
    assert job["started_at"] == rfc3339(NOON)


def test_a_name_that_looks_encoded_is_read_back_as_it_is(server: Server) -> None:
    assert server.send([wire_event("heartbeat", 0, "100%41 ä")]).status == 200
    server.reaches("/v1/jobs/100%2541%20%C3%A4", lambda answer: answer["job"] == "100%41 ä")
