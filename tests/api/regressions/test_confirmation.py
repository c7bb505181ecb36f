"""Two jobs settle a finding: which ones to launch, and what they say."""

from dataclasses import replace
from typing import Any

import pytest

from ett_service.core.regressions.finding import Attribution, Finding, Metric, Subject, Suspect
from ett_service.core.words import OTHER
from tests.builders.clock import HOUR, NOON
from tests.builders.databases.engines import ON_ONE_ENGINE
from tests.builders.jobs import compiled_job, wire_event, wire_span
from tests.builders.regressions.stored import finding, fires, searched
from tests.builders.servers.application import Service

ONSET = NOON + 6 * HOUR
ATTRIBUTION = Attribution({}, {}, suspects=(Suspect("code_version", "2", 1.0, 6),))


def _job(
    name: str, start: int, seconds: int, version: str, cache: str = "", **other: str
) -> list[dict[str, Any]]:
    middle, end = start + seconds / 60, start + seconds / 60 + 5
    facts = {"cluster": "a", "model": "llm-70b", "hardware": "H100", "code_version": version}
    attributes = {"attributes": {"compile_cache": cache}} if cache else {}
    return [
        wire_event("job", start, job=name, gpus=8, **facts | other),
        wire_event("attempt_started", start, job=name, gpus=8, code_version=version),
        wire_span("pt2_compile", start, middle, job=name, **attributes),
        wire_span("train_loop", middle, end, job=name),
        wire_event("attempt_ended", end, job=name, outcome="completed"),
    ]


@pytest.fixture(name="_jobs")
def _ingested(service: Service) -> None:
    """Six jobs before a release and six after it, of which the compile takes 1.6 times as long."""
    service.clock.now_us += 48 * HOUR
    for place, seconds in enumerate((300, 305, 310, 320, 290, 295)):
        service.ingest(_job(f"before-{place}", place * 30, seconds, "1"))
        service.ingest(_job(f"after-{place}", 400 + place * 30, round(seconds * 1.6), "2"))
    for name, seconds, version in (
        ("again-1", 300, "1"),
        ("again-2", 480, "2"),
        ("fast-2", 301, "2"),
    ):
        service.ingest(_job(name, 900, seconds, version))
    service.ingest([wire_event("job", 900, job="idle", cluster="a", model="llm-70b")])


@pytest.fixture
def regression_id(service: Service, project_id: int, _jobs: None) -> str:
    """The finding of these jobs."""
    return attributed_finding(service, project_id, dated_finding())


def dated_finding(subject: Subject | None = None) -> Finding:
    made = finding() if subject is None else finding(subject)
    before = replace(made.before, from_us=NOON - 24 * HOUR, to_us=ONSET)
    after = replace(made.after, from_us=ONSET, to_us=NOON + 13 * HOUR)
    return replace(made, ratio=1.6, onset_us=ONSET, before=before, after=after)


def attributed_finding(
    service: Service, project_id: int, made: Finding, attribution: Attribution = ATTRIBUTION
) -> str:
    for day in (24, 48):
        searched(service.store, project_id, NOON + day * HOUR, made, attribution=attribution)
    rows = service.get("/v1/regressions", metric=made.series.subject.metric.value)
    (row,) = rows["regressions"]
    return str(row["id"])


def confirm(service: Service, regression_id: str, base: str, job: str, status: int = 200) -> Any:
    body = {"base_job": base, "job": job}
    answer = service.client.post(f"/v1/regressions/{regression_id}/confirm", json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


def test_the_experiment_names_two_versions_and_what_is_alike(
    service: Service, regression_id: str
) -> None:
    answer = service.get(f"/v1/regressions/{regression_id}/experiment")
    assert (answer["dimension"], answer["before"], answer["after"]) == ("code_version", "1", "2")
    assert answer["cohort"] == {"cluster": "a", "model": "llm-70b"}
    assert answer["alike"] == {"hardware": "H100", "size": "8-15", "start": "first"}
    assert (answer["ratio"], answer["starts"]) == (1.6, 1)
    assert 0.01 < answer["sigma"] < 0.1


def test_a_slower_run_confirms_it(service: Service, regression_id: str) -> None:
    answer = confirm(service, regression_id, "again-1", "again-2")
    assert (answer["outcome"], answer["base_n"], answer["n"], answer["more"]) == (
        "confirmed",
        1,
        1,
        0,
    )
    assert answer["ratio"] == pytest.approx(1.6, abs=0.001)
    assert answer["interval"]["low"] > 1
    regression = service.get(f"/v1/regressions/{regression_id}")
    assert regression["triage"] == "real"
    assert regression["history"][-1]["why"].startswith("again-2 takes x 1.60 (")


@ON_ONE_ENGINE
def test_a_run_like_before_refutes_it(service: Service, regression_id: str) -> None:
    assert confirm(service, regression_id, "again-1", "fast-2")["outcome"] == "refuted"
    assert service.get(f"/v1/regressions/{regression_id}")["triage"] == "noise"


@ON_ONE_ENGINE
def test_two_slow_runs_rule_the_suspect_out_and_silence_nothing(
    service: Service, regression_id: str
) -> None:
    service.ingest(_job("slow-1", 900, 478, "1"))
    service.ingest(_job("other-chip", 60, 478, "1", hardware="A100"))
    answer = confirm(service, regression_id, "slow-1", "again-2")
    assert answer["outcome"] == "stands"
    assert answer["of_baseline"]["ratio"] == pytest.approx(1.58, abs=0.02)
    assert answer["of_present"]["ratio"] == pytest.approx(0.99, abs=0.02)
    regression = service.get(f"/v1/regressions/{regression_id}")
    assert (regression["state"], regression["triage"]) == ("firing", None)
    said = regression["history"][-1]
    assert said["what"] == "suspect_ruled_out"
    assert said["why"].startswith("code_version 2 is not its cause: again-2 takes x 1.00 (")
    (audited,) = service.get("/v1/audit", action="suspect_ruled_out")["entries"]
    assert audited["details"]["jobs"] == ["slow-1", "again-2"]


@ON_ONE_ENGINE
@pytest.mark.usefixtures("_jobs")
def test_once_a_suspect_is_ruled_out_the_next_one_is_tried(
    service: Service, project_id: int
) -> None:
    for place in range(6):
        service.ingest([wire_event("job", 0, job=f"after-{place}", image="new")])
    service.ingest(_job("slow-1", 900, 478, "1"))
    service.ingest(_job("new-image", 900, 478, "1", image="new"))
    suspects = (*ATTRIBUTION.suspects, Suspect("image", "new", 0.5, 6))
    attribution = replace(ATTRIBUTION, suspects=suspects)
    regression_id = attributed_finding(service, project_id, dated_finding(), attribution)
    assert confirm(service, regression_id, "slow-1", "again-2")["outcome"] == "stands"
    planned = service.get(f"/v1/regressions/{regression_id}/experiment")
    assert (planned["dimension"], planned["after"]) == ("image", "new")
    assert confirm(service, regression_id, "again-1", "new-image")["outcome"] == "confirmed"


@ON_ONE_ENGINE
def test_once_all_suspects_are_ruled_out_no_experiment_is_left(
    service: Service, regression_id: str
) -> None:
    service.ingest(_job("slow-1", 900, 478, "1"))
    confirm(service, regression_id, "slow-1", "again-2")
    answer = service.client.get(f"/v1/regressions/{regression_id}/experiment")
    assert answer.status_code == 409
    assert answer.json()["detail"] == "No suspect is left: runs ruled out code_version 2."


@ON_ONE_ENGINE
def test_jobs_without_its_series_settle_nothing(service: Service, regression_id: str) -> None:
    for other in ("idle", "nobody"):
        problem = confirm(service, regression_id, "again-1", other, 409)
        assert "no complete duration" in problem["detail"]
    assert service.get(f"/v1/regressions/{regression_id}")["triage"] is None


@ON_ONE_ENGINE
def test_jobs_that_are_not_as_the_experiment_says_are_refused(
    service: Service, regression_id: str
) -> None:
    service.ingest(_job("elsewhere", 900, 480, "2", cluster="b"))
    service.ingest(_job("other-chip", 900, 480, "2", hardware="A100"))
    service.ingest(_job("newest", 900, 480, "3"))
    service.ingest(_job("missed", 900, 480, "2", cache="cold"))
    for base, job, expected in (
        ("again-1", "again-1", "again-1 is on both sides"),
        ("again-1", "elsewhere", "elsewhere is not of the cohort cluster:a"),
        ("again-1", "other-chip", "differ in hardware: H100 and A100"),
        ("again-2", "again-1", "first job has code_version 2"),
        ("again-1", "newest", "second job has code_version 3, not 2"),
        ("again-1", "missed", "share no kind of start: first beside first cold"),
    ):
        problem = confirm(service, regression_id, base, job, 409)
        assert expected in problem["detail"], problem["detail"]
    assert service.get(f"/v1/regressions/{regression_id}")["triage"] is None


@ON_ONE_ENGINE
@pytest.mark.usefixtures("regression_id")
def test_in_a_cohort_of_several_models_both_runs_are_of_one(
    service: Service, project_id: int
) -> None:
    service.ingest(_job("other-model", 900, 480, "2", model="vision"))
    service.ingest(_job("slow-1", 900, 478, "1"))
    for place in range(3):
        service.ingest(_job(f"long-{place}", 60 * place, 900, "1", model="vision"))
    wide = dated_finding()
    wide = replace(wide, series=wide.series._replace(cohort=(("cluster", "a"),)), ratio=1.7)
    for day in (24, 48):
        searched(service.store, project_id, NOON + day * HOUR, wide, attribution=ATTRIBUTION)
    (row,) = [
        row for row in service.get("/v1/regressions")["regressions"] if "model" not in row["cohort"]
    ]
    problem = confirm(service, row["id"], "again-1", "other-model", 409)
    assert "differ in model: llm-70b and vision" in problem["detail"]
    answer = confirm(service, row["id"], "slow-1", "again-2")
    assert answer["of_baseline"]["ratio"] == pytest.approx(1.58, abs=0.02)


@ON_ONE_ENGINE
def test_several_jobs_of_each_version_are_named_by_a_pattern(
    service: Service, regression_id: str
) -> None:
    answer = confirm(service, regression_id, "before-*", "after-*")
    assert (answer["outcome"], answer["base_n"], answer["n"]) == ("confirmed", 6, 6)


@ON_ONE_ENGINE
def test_what_is_no_duration_cannot_be_settled_so(service: Service, project_id: int) -> None:
    regression_id = attributed_finding(
        service, project_id, dated_finding(Subject(Metric.ETT_RATIO))
    )
    assert service.get(f"/v1/regressions/{regression_id}/experiment", 409)["detail"]
    confirm(service, regression_id, "a", "b", 409)


@ON_ONE_ENGINE
def test_a_finding_that_is_not_there_is_not_found(service: Service) -> None:
    service.get("/v1/regressions/none/experiment", 404)
    confirm(service, "none", "a", "b", 404)


@pytest.fixture
def jobs(service: Service) -> Service:
    """Two jobs before an onset, and one after it beside one of another cluster."""
    service.clock.now_us += 48 * HOUR
    for name, start, compiling in (("first", 0, 6), ("second", 60, 8), ("third", 300, 13)):
        service.ingest(compiled_job(name, start, compiling, cluster="a", model="llm-70b"))
    service.ingest(compiled_job("elsewhere", 300, 20, cluster="b", model="llm-70b"))
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
def test_of_many_values_every_nth_is_listed_and_all_are_counted(
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
def test_values_of_a_finding_that_is_not_there_are_not_found(service: Service) -> None:
    assert service.client.get("/v1/regressions/none/values").status_code == 404
