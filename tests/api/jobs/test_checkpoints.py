"""The checkpoints of a job are those of its trace."""

from datetime import datetime

from tests.builders.jobs import failing_job
from tests.builders.servers.application import Service

JOB = "/v1/jobs/llm-70b"


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
