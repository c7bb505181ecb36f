"""Findings by their cause over HTTP: one release is one line, with one cost."""

from dataclasses import replace
from typing import Any

import pytest

from ett_service.core.intervals import DAY_US, rfc3339
from ett_service.core.regressions.finding import Attribution, Metric, SeriesCohort, Subject, Verdict
from ett_service.storage.record.keys import create_project
from tests.builders.clock import NOON
from tests.builders.databases.engines import ON_ONE_ENGINE
from tests.builders.regressions.stored import ATTRIBUTION, COHORT, finding, searched
from tests.builders.servers.application import Service

OTHER: SeriesCohort = (("cluster", "b"), ("model", "llm-70b"))
STAGE = Subject(Metric.STAGE_SECONDS, "pt2_compile", "inductor")
LOADING = Subject(Metric.PHASE_SECONDS, "launcher_init")
ALONE = Attribution({}, {})


@pytest.fixture
def project_id(service: Service) -> int:
    service.clock.now_us = NOON + DAY_US
    new_id: int = service.store.write(lambda conn: create_project(conn, "research", NOON))
    return new_id


def fires(service: Service, project_id: int, *findings: Any, attribution: Attribution) -> None:
    for day in (1, 0):
        searched(service.store, project_id, NOON - day * DAY_US, *findings, attribution=attribution)


def causes(service: Service, **query: Any) -> Any:
    return service.get("/v1/regressions/causes", **query)


@ON_ONE_ENGINE
def test_a_release_is_one_cause_in_all_cohorts(service: Service, project_id: int) -> None:
    findings = [finding(gpu_hours=100.0), finding(cohort=OTHER, gpu_hours=232.0)]
    fires(service, project_id, *findings, attribution=ATTRIBUTION)

    answer = causes(service)
    (cause,) = answer["causes"]
    assert (cause["dimension"], cause["value"]) == ("image", "trainer:2.14")
    assert (cause["phase"], cause["stage"]) == ("pt2_compile", None)
    assert cause["cohorts"] == [dict(OTHER), dict(COHORT)]
    assert len(cause["findings"]) == len(findings)
    assert cause["cost"] == answer["total"]
    assert cause["cost"]["gpu_hours_per_week"] == pytest.approx(332.0)
    assert cause["cost"]["cost_per_week"] == pytest.approx(2 * 742.0)


def test_what_is_part_of_another_is_counted_once(service: Service, project_id: int) -> None:
    whole = finding(cohort=(), gpu_hours=400.0)
    later = replace(whole, onset_us=whole.onset_us - 6 * DAY_US)
    fires(service, project_id, finding(gpu_hours=100.0), later, attribution=ATTRIBUTION)

    assert causes(service)["total"]["gpu_hours_per_week"] == pytest.approx(400.0)


def test_findings_without_suspects_stand_alone(service: Service, project_id: int) -> None:
    fires(service, project_id, finding(), finding(LOADING, OTHER), attribution=ALONE)
    answer = causes(service)
    assert [cause["dimension"] for cause in answer["causes"]] == [None, None]
    assert answer["total"]["gpu_hours_per_week"] == pytest.approx(2 * 212.0)


def test_small_ones_are_counted_apart(service: Service, project_id: int) -> None:
    small = finding(LOADING, verdict=Verdict.SMALL, gpu_hours=3.0)
    fires(service, project_id, finding(), small, attribution=ATTRIBUTION)

    answer = causes(service)
    assert answer["total"]["gpu_hours_per_week"] == pytest.approx(212.0)
    assert (answer["small"], answer["small_cost"]["gpu_hours_per_week"]) == (1, 3.0)
    page = service.get("/v1/regressions")
    assert ([row["verdict"] for row in page["regressions"]], page["small"]) == (["regression"], 1)
    (row,) = service.get("/v1/regressions", verdict="small")["regressions"]
    assert row["verdict"] == "small"


def test_a_part_of_the_fleet_has_its_own_causes(service: Service, project_id: int) -> None:
    fires(service, project_id, finding(), finding(cohort=OTHER), attribution=ATTRIBUTION)
    answer = causes(service, where="cluster:b")
    assert answer["causes"][0]["cohorts"] == [dict(OTHER)]


def test_causes_of_a_time_are_of_what_fired_then(service: Service, project_id: int) -> None:
    fires(service, project_id, finding(), attribution=ATTRIBUTION)
    onset_us = finding().onset_us
    assert causes(service, to=rfc3339(onset_us))["causes"] == []
    window = {"from": rfc3339(NOON - 2 * DAY_US), "to": rfc3339(onset_us + 1)}
    assert len(causes(service, **window)["causes"]) == 1


@pytest.mark.usefixtures("project_id")
def test_without_regressions_there_is_no_cause_and_no_cost(service: Service) -> None:
    answer = causes(service)
    assert (answer["causes"], answer["small"]) == ([], 0)
    assert answer["total"]["gpu_hours_per_week"] == 0.0


def test_what_was_merged_is_listed_on_request(service: Service, project_id: int) -> None:
    days = [[finding(STAGE)], [finding(STAGE)], [finding()], [finding()]]
    for number, findings in enumerate(days):
        searched(service.store, project_id, NOON - (4 - number) * DAY_US, *findings)

    (phase,) = service.get("/v1/regressions")["regressions"]
    rows = service.get("/v1/regressions", merged="true")["regressions"]
    (stage,) = (row for row in rows if row["stage"])
    assert (stage["state"], stage["ended"]) == ("resolved", "merged")
    assert stage["merged_into"] == phase["id"]
    (history,) = service.get(f"/v1/regressions/{stage['id']}")["history"][-1:]
    assert (history["what"], history["why"]) == ("merged", f"into {phase['id']}")


def test_noise_is_no_cause(service: Service, project_id: int) -> None:
    fires(service, project_id, finding(), attribution=ATTRIBUTION)
    (row,) = service.get("/v1/regressions")["regressions"]
    noise = {"verdict": "noise", "why": "a bad day"}
    service.client.post(f"/v1/regressions/{row['id']}/triage", json=noise)

    assert causes(service)["causes"] == []
    assert service.get("/v1/regressions", without_noise="true")["regressions"] == []
    assert len(service.get("/v1/regressions")["regressions"]) == 1
