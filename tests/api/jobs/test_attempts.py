"""From the exemplar of a histogram to the attempt that it stands for."""

import pytest

from ett_service.metrics.families import TextFormat
from ett_service.worker.metrics import MetricsThread
from tests.builders.databases.engines import ON_ONE_ENGINE
from tests.builders.jobs import failing_job, wire_span
from tests.builders.metrics import families
from tests.builders.servers.application import Service

JOB = "Größe 7B (v2) ?#%"

TIMED_JOB = "/v1/jobs/llm-70b"


def _exemplars(service: Service) -> dict[str, str]:
    MetricsThread(service.store, service.clock).publish()
    answer = service.client.get("/metrics", headers={"Accept": TextFormat.OPENMETRICS.value})
    return {
        sample.name: sample.exemplar.labels["attempt_id"]
        for family in families(answer.text, TextFormat.OPENMETRICS)
        for sample in family.samples
        if sample.exemplar
    }


def test_an_exemplar_leads_to_its_attempt_and_on_to_its_trace(service: Service) -> None:
    service.ingest(failing_job(JOB))
    exemplars = _exemplars(service)
    assert set(exemplars) == {
        "ett_time_to_start_seconds_bucket",
        "ett_time_to_recover_seconds_bucket",
        "ett_checkpoint_blocking_seconds_bucket",
    }
    attempt = service.get(f"/v1/attempts/{exemplars['ett_time_to_recover_seconds_bucket']}")
    links = attempt.pop("links")
    assert attempt == {
        "project": "research", "job": JOB, "number": 1, "launch": "", "attempt": 1, "cycle": 0,
    }  # fmt: skip
    assert service.get(links["job"])["job"] == JOB
    assert service.get(links["ledger"])["job"] == JOB
    assert service.get(links["trace"])["traceEvents"]


@ON_ONE_ENGINE
def test_only_keys_that_may_read_the_project_learn_what_an_id_stands_for(service: Service) -> None:
    service.ingest(failing_job(JOB))
    path = f"/v1/attempts/{_exemplars(service)['ett_time_to_start_seconds_bucket']}"
    statuses = {
        (project, scope): service.client.get(
            path, headers={"Authorization": f"Bearer {service.key({scope}, project)}"}
        ).status_code
        for project in ("research", "another")
        for scope in ("read", "fleet", "write")
    }
    assert statuses == {
        ("research", "read"): 200,
        ("research", "fleet"): 200,
        ("research", "write"): 403,
        ("another", "read"): 404,
        ("another", "fleet"): 200,
        ("another", "write"): 403,
    }


@ON_ONE_ENGINE
@pytest.mark.parametrize("number", ["-2", "-0" * 9, "", "-1x", "-%31", "-999999999"])
def test_an_id_of_no_attempt_is_404(service: Service, number: str) -> None:
    service.ingest(failing_job(JOB))
    ident = _exemplars(service)["ett_time_to_start_seconds_bucket"].partition("-")[0]
    status = 200 if number == "-%31" else 404
    service.get(f"/v1/attempts/{ident}{number}", status)
    service.get("/v1/attempts/0000000000000000-0", 404)


@ON_ONE_ENGINE
def test_what_a_deleted_job_left_on_the_page_leads_nowhere(service: Service) -> None:
    service.ingest(failing_job(JOB))
    attempt_id = _exemplars(service)["ett_time_to_start_seconds_bucket"]
    service.client.delete(f"/v1/jobs/{JOB.replace('?', '%3F').replace('#', '%23')}")
    service.get(f"/v1/attempts/{attempt_id}", 404)


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
    stages = service.get(f"{TIMED_JOB}/stages")["stages"]
    ranks = service.get(f"{TIMED_JOB}/ranks")["ranks"]
    for number in (0, 1):
        attempt = service.get(f"{TIMED_JOB}/attempts/{number}")
        assert attempt["stages"] == [each for each in stages if each["number"] == number]
        assert attempt["ranks"] == [each for each in ranks if each["number"] == number]
        assert attempt["stages"]


def test_its_spans_are_those_that_count(service: Service) -> None:
    _ingest(service)
    attempt = service.get(f"{TIMED_JOB}/attempts/0")
    assert attempt["lead_rank"] == 0
    assert {span["rank"] for span in attempt["spans"]} <= {None, 0}
    spans = [span for span in attempt["spans"] if span["stage"] == "device_init"]
    (stage,) = [each for each in attempt["stages"] if each["stage"] == "device_init"]
    assert (len(spans), stage["spans"], stage["inclusive_seconds"]) == (1, 1, 120.0)
    starts = [span["start"] for span in attempt["spans"] if span["rank"] == 0]
    assert starts == sorted(starts)


def test_an_attempt_or_a_job_that_is_not_there_is_not_found(service: Service) -> None:
    _ingest(service)
    for path in (f"{TIMED_JOB}/attempts/2", "/v1/jobs/none/attempts/0"):
        assert service.client.get(path).status_code == 404
    assert service.client.get(f"{TIMED_JOB}/attempts/-1").status_code == 422
