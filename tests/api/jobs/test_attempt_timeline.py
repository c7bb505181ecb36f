"""One attempt is answered as the whole job is, and no more of it."""

from tests.builders.jobs import failing_job, wire_span
from tests.builders.servers.application import Service

JOB = "/v1/jobs/llm-70b"


def _ingest(service: Service) -> None:
    service.ingest(
        [
            *failing_job(),
            wire_span("launcher_init", 3, 8, rank=0, attempt=0),
            wire_span("launcher_init", 3, 5, stage="device_init", rank=0, attempt=0),
            wire_span("launcher_init", 3, 7, stage="device_init", rank=1, attempt=0),
        ]
    )


def test_its_stages_and_ranks_are_those_of_the_job(service: Service) -> None:
    _ingest(service)
    stages = service.get(f"{JOB}/stages")["stages"]
    ranks = service.get(f"{JOB}/ranks")["ranks"]
    for number in (0, 1):
        attempt = service.get(f"{JOB}/attempts/{number}")
        assert attempt["stages"] == [each for each in stages if each["number"] == number]
        assert attempt["ranks"] == [each for each in ranks if each["number"] == number]
        assert attempt["stages"]


def test_its_spans_are_those_that_count(service: Service) -> None:
    _ingest(service)
    attempt = service.get(f"{JOB}/attempts/0")
    assert attempt["lead_rank"] == 0
    assert {span["rank"] for span in attempt["spans"]} <= {None, 0}
    spans = [span for span in attempt["spans"] if span["stage"] == "device_init"]
    (stage,) = [each for each in attempt["stages"] if each["stage"] == "device_init"]
    assert (len(spans), stage["spans"], stage["inclusive_seconds"]) == (1, 1, 120.0)
    starts = [span["start"] for span in attempt["spans"] if span["rank"] == 0]
    assert starts == sorted(starts)


def test_an_attempt_or_a_job_that_is_not_there_is_not_found(service: Service) -> None:
    _ingest(service)
    for path in (f"{JOB}/attempts/2", "/v1/jobs/none/attempts/0"):
        assert service.client.get(path).status_code == 404
    assert service.client.get(f"{JOB}/attempts/-1").status_code == 422
