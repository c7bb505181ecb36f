"""The values behind a finding are those of its cohort's attempts, before and after."""

from dataclasses import replace
from typing import Any

import pytest

from ett_service.core.regressions.finding import Finding, Metric, Subject
from ett_service.core.words import OTHER
from tests.builders.clock import HOUR, NOON
from tests.builders.databases.engines import ON_ONE_ENGINE
from tests.builders.jobs import wire_event, wire_span
from tests.builders.regressions.stored import finding, fires
from tests.builders.servers.application import Service


def _job(name: str, start: int, compiling: int, cluster: str = "a") -> list[dict[str, Any]]:
    middle, end = start + compiling, start + compiling + 30
    return [
        wire_event("job", start, job=name, gpus=8, cluster=cluster, model="llm-70b"),
        wire_span("pt2_compile", start, middle, job=name),
        wire_span("train_loop", middle, end, job=name),
        wire_event("attempt_ended", end, job=name, outcome="completed"),
    ]


@pytest.fixture
def jobs(service: Service) -> Service:
    """Two jobs before an onset, and one after it beside one of another cluster."""
    service.clock.now_us += 48 * HOUR
    for name, start, compiling in (("first", 0, 6), ("second", 60, 8), ("third", 300, 13)):
        service.ingest(_job(name, start, compiling))
    service.ingest(_job("elsewhere", 300, 20, "b"))
    return service


def _finding(**changes: Any) -> Finding:
    made = finding(**changes)
    onset = NOON + 4 * HOUR
    before = replace(made.before, from_us=NOON - 24 * HOUR, to_us=onset)
    after = replace(made.after, from_us=onset, to_us=NOON + 24 * HOUR)
    return replace(made, onset_us=onset, before=before, after=after)


def _values(service: Service, project_id: int, made: Finding) -> list[dict[str, Any]]:
    (regression,) = fires(service.store, project_id, made)
    values: list[dict[str, Any]] = service.get(f"/v1/regressions/{regression}/values")["values"]
    return values


def test_each_attempt_of_the_cohort_is_one_on_its_side(jobs: Service, project_id: int) -> None:
    values = _values(jobs, project_id, _finding())
    assert [(each["job"], each["number"], each["side"], each["seconds"]) for each in values] == [
        ("first", 0, "before", 360.0),
        ("second", 0, "before", 480.0),
        ("third", 0, "after", 780.0),
    ]


@ON_ONE_ENGINE
def test_of_many_values_every_nth_is_told_and_all_are_counted(
    jobs: Service, project_id: int
) -> None:
    (regression,) = fires(jobs.store, project_id, _finding())
    answer = jobs.get(f"/v1/regressions/{regression}/values", most=2)
    assert [each["job"] for each in answer["values"]] == ["first", "third"]
    assert (answer["every"], answer["before_count"], answer["after_count"]) == (2, 2, 1)


@ON_ONE_ENGINE
def test_excluded_jobs_are_left_out(jobs: Service, project_id: int) -> None:
    answer = jobs.client.put("/v1/jobs/second/exclusion", json={"why": "A trial."})
    assert answer.status_code < 300
    jobs.settle()
    names = [each["job"] for each in _values(jobs, project_id, _finding())]
    assert names == ["first", "third"]


@ON_ONE_ENGINE
def test_what_is_no_duration_and_what_the_cap_merged_have_none(
    jobs: Service, project_id: int
) -> None:
    assert _values(jobs, project_id, _finding(subject=Subject(Metric.ETT_RATIO))) == []
    merged = (("cluster", OTHER), ("model", OTHER))
    assert _values(jobs, project_id, _finding(cohort=merged)) == []


@ON_ONE_ENGINE
def test_a_finding_that_is_not_there_is_not_found(service: Service) -> None:
    assert service.client.get("/v1/regressions/none/values").status_code == 404
