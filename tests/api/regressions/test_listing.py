"""Regressions over HTTP: filtered, a page at a time, and explained."""

import csv
import io
from dataclasses import replace
from typing import Any

import pytest
from pyarrow import parquet

from ett_service.core.intervals import DAY_US, HOUR_US
from ett_service.core.regressions.finding import Metric, SeriesCohort, Subject, Verdict
from ett_service.storage.record.keys import create_project
from tests.builders.clock import NOON
from tests.builders.databases.engines import ON_ONE_ENGINE
from tests.builders.regressions.stored import ONSET, finding, fires, searched
from tests.builders.servers.application import Service

RARE: SeriesCohort = (("cluster", "b"), ("model", "rare"))
TIME_TO_START = Subject(Metric.TIME_TO_START_SECONDS)
BETTER = finding(TIME_TO_START, RARE, verdict=Verdict.IMPROVEMENT, gpu_hours=None)
LATER = finding(cohort=RARE, onset_us=ONSET + DAY_US, gpu_hours=7.5)


@pytest.fixture(autouse=True)
def _a_day_later(service: Service) -> None:
    service.clock.now_us = NOON + DAY_US


@pytest.fixture
def project_id(service: Service) -> int:
    new_id: int = service.store.write(lambda conn: create_project(conn, "research", NOON))
    return new_id


@pytest.fixture
def regression_ids(service: Service, project_id: int) -> list[str]:
    """Return the ids of a firing and a pending regression and of an improvement."""
    ids = fires(service.store, project_id, finding(), BETTER)
    searched(service.store, project_id, NOON + HOUR_US, finding(), LATER, BETTER)
    (pending,) = (row["id"] for row in listed(service, state="pending"))
    return [ids[0], pending, ids[1]]


def listed(service: Service, **query: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = service.get("/v1/regressions", **query)["regressions"]
    return rows


@ON_ONE_ENGINE
def test_a_finding_is_listed_with_its_numbers_in_seconds(
    service: Service, regression_ids: list[str]
) -> None:
    (row,) = listed(service, state="firing", verdict="regression")
    assert row["id"] == regression_ids[0]
    assert (row["metric"], row["phase"], row["stage"]) == ("phase_seconds", "pt2_compile", None)
    assert row["cohort"] == {"cluster": "a", "model": "llm-70b"}
    assert (row["unit"], row["ratio"]) == ("seconds", 1.65)
    assert row["interval"] == {"low": 1.48, "high": 1.84}
    assert (row["before"]["median"], row["before"]["p90"], row["before"]["n"]) == (
        486.0,
        702.0,
        140,
    )
    assert row["impact"]["gpu_hours_per_week"] == 212.0
    assert row["onset_at"] == "2026-02-21T12:00:00.000000Z"
    assert row["firing_at"] == "2026-03-01T12:00:00.000000Z"
    assert (row["acknowledged_at"], row["triage"], row["muted_until"]) == (None, None, None)


@ON_ONE_ENGINE
@pytest.mark.parametrize(("metric", "unit"), [
    (Metric.ETT_RATIO, "ratio"), (Metric.FAILURES_PER_GPU_HOUR, "failures_per_gpu_hour"),
])  # fmt: skip
def test_rates_and_ratios_are_not_divided(
    service: Service, project_id: int, metric: Metric, unit: str
) -> None:
    without_ratio = replace(finding(Subject(metric), ()), ratio=float("inf"), high=float("inf"))
    searched(service.store, project_id, NOON, without_ratio)
    (row,) = listed(service)
    assert (row["unit"], row["before"]["median"]) == (unit, 486e6)
    assert (row["cohort"], row["phase"], row["ratio"], row["interval"]) == ({}, None, None, None)


QUERIES: list[tuple[dict[str, Any], list[int]]] = [
    ({}, [1, 0, 2]),
    ({"state": "firing"}, [0, 2]),
    ({"state": ["firing", "pending"], "verdict": "regression"}, [1, 0]),
    ({"state": "resolved"}, []),
    ({"verdict": "improvement"}, [2]),
    ({"metric": "time_to_start_seconds"}, [2]),
    ({"phase": "pt2_compile"}, [1, 0]),
    ({"where": "model:rare"}, [1, 2]),
    ({"where": ["model:rare", "model:llm-70b"]}, [1, 0, 2]),
    ({"where": ["model:rare", "cluster:a"]}, []),
    ({"where": "team:"}, []),
    ({"to": "2026-02-21T12:00:00.000001Z"}, [0, 2]),
    ({"from": "2026-03-05T00:00:00Z"}, [1, 0, 2]),
    ({"sort": "onset_at", "verdict": "regression"}, [0, 1]),
    ({"sort": "-gpu_hours_per_week"}, [0, 1, 2]),
    ({"sort": "gpu_hours_per_week"}, [2, 1, 0]),
]


def test_a_query_finds_what_it_names(service: Service, regression_ids: list[str]) -> None:
    order = {regression_id: index for index, regression_id in enumerate(regression_ids)}
    # Two are found at one instant: then their ids decide.
    answers = [
        (query, [order[row["id"]] for row in listed(service, **query)]) for query, _ in QUERIES
    ]
    for (query, places), (_, expected) in zip(answers, QUERIES, strict=True):
        exact = "sort" in query and "onset" not in query["sort"]
        assert (places if exact else sorted(places)) == (expected if exact else sorted(expected))


def test_pages_follow_each_other_in_every_order(
    service: Service, regression_ids: list[str]
) -> None:
    for sort in ("pending_at", "onset_at", "last_run_at", "ratio", "gpu_hours_per_week"):
        for sign in ("", "-"):
            whole = [row["id"] for row in listed(service, sort=sign + sort)]
            read: list[str] = []
            cursor = None
            while len(read) < 3:
                more: dict[str, Any] = {} if cursor is None else {"cursor": cursor}
                page = service.get("/v1/regressions", sort=sign + sort, limit=1, **more)
                read += [row["id"] for row in page["regressions"]]
                cursor = page["next_cursor"]
            assert (read, cursor) == (whole, None)
            assert sorted(read) == sorted(regression_ids)


@ON_ONE_ENGINE
def test_a_cursor_of_another_list_is_refused(service: Service, regression_ids: list[str]) -> None:
    cursor = service.get("/v1/regressions", limit=1)["next_cursor"]
    for query in ({"cursor": cursor, "sort": "ratio"}, {"cursor": "e30"}, {"where": "colour:red"}):
        assert service.get("/v1/regressions", 422, **query)["errors"]
    assert regression_ids


def test_lapsed_regressions_are_listed_only_on_request(service: Service, project_id: int) -> None:
    for hour, findings in enumerate(([LATER], [], [])):
        searched(service.store, project_id, NOON + hour * HOUR_US, *findings)
    assert listed(service) == []
    assert [row["state"] for row in listed(service, state="inactive")] == ["inactive"]


@ON_ONE_ENGINE
def test_a_list_is_a_table_on_request(service: Service, regression_ids: list[str]) -> None:
    answer = service.client.get("/v1/regressions", params={"format": "csv", "sort": "-ratio"})
    rows = {row["id"]: row for row in csv.DictReader(io.StringIO(answer.text))}
    assert rows[regression_ids[0]]["before.median"] == "486.0"
    assert rows[regression_ids[0]]["cohort"] == '{"cluster":"a","model":"llm-70b"}'
    assert rows[regression_ids[2]]["impact.gpu_hours_per_week"] == ""
    answer = service.client.get("/v1/regressions", params={"format": "parquet", "limit": 1})
    table = parquet.read_table(io.BytesIO(answer.content))
    assert table.num_rows == 1
    assert str(table.schema.field("onset_at").type) == "timestamp[us, tz=UTC]"
    assert answer.headers["ETT-Next-Cursor"]


def test_one_regression_is_shown_in_full(service: Service, regression_ids: list[str]) -> None:
    regression = service.get(f"/v1/regressions/{regression_ids[0]}")
    assert regression["p"] == 3.1e-9
    assert regression["gates"][2] == {
        "name": "any_day",
        "value": None,
        "limit": 0.05,
        "passed": False,
        "as_of": "2026-03-01T12:00:00.000000Z",
    }
    attribution = regression["attribution"]
    assert attribution["phase_shares"] == {"pt2_compile": 0.88, "launcher_init": 0.12}
    assert attribution["suspects"][0]["value"] == "trainer:2.14"
    assert attribution["markers"][0]["at"] == "2026-02-21T11:00:00.000000Z"
    assert attribution["examples"][1]["link"] == "/v1/jobs/run%2057?project=research"
    assert (regression["power"]["smallest"], regression["power"]["recent"]) == (1.22, 68)
    assert [step["what"] for step in regression["history"]] == ["pending", "firing"]
    assert {step["by"] for step in regression["history"]} == {"detector"}
    for link in regression["links"].values():
        assert service.client.get(link).status_code == 200, link


@ON_ONE_ENGINE
def test_its_clocks_are_held_to_what_is_promised(
    service: Service, project_id: int, regression_ids: list[str]
) -> None:
    searched(service.store, project_id, ONSET - DAY_US)
    sla = service.get(f"/v1/regressions/{regression_ids[0]}")["sla"]
    assert sla["detect"] == {
        "seconds": 8 * 86_400.0, "limit_seconds": 96 * 3600.0, "runs": False, "breached": True,
    }  # fmt: skip
    assert (sla["acknowledge"]["seconds"], sla["acknowledge"]["runs"]) == (86_400.0, True)
    assert (sla["acknowledge"]["breached"], sla["resolve"]["breached"]) == (False, False)
    service.clock.now_us += 1
    assert service.get(f"/v1/regressions/{regression_ids[0]}")["sla"]["acknowledge"]["breached"]
    pending, improvement = (
        service.get(f"/v1/regressions/{regression_id}")["sla"]
        for regression_id in regression_ids[1:]
    )
    assert (pending["detect"]["runs"], pending["resolve"], improvement) == (True, None, None)


@ON_ONE_ENGINE
def test_what_began_before_the_first_search_has_no_time_to_detect(
    service: Service, regression_ids: list[str]
) -> None:
    sla = service.get(f"/v1/regressions/{regression_ids[0]}")["sla"]
    assert (sla["detect"], sla["acknowledge"]["runs"]) == (None, True)


@ON_ONE_ENGINE
def test_a_project_sees_its_own_and_a_fleet_key_all(
    service: Service, regression_ids: list[str]
) -> None:
    def answer_for(scopes: set[str], path: str = "", **query: str) -> Any:
        key = service.key(scopes, project="other")
        headers = {"Authorization": f"Bearer {key}"}
        return service.client.get(f"/v1/regressions{path}", params=query, headers=headers)

    assert answer_for({"read"}).json()["regressions"] == []
    foreign, missing = (
        answer_for({"read"}, f"/{regression_ids[0]}"),
        answer_for({"read"}, "/nothing"),
    )
    assert (foreign.status_code, missing.status_code) == (404, 404)
    assert foreign.json()["detail"] == missing.json()["detail"] == "No such regression."
    named, none = answer_for({"read"}, project="research"), answer_for({"read"}, project="nothing")
    assert (named.status_code, none.status_code) == (404, 404)

    assert len(answer_for({"fleet"}).json()["regressions"]) == 3
    assert answer_for({"fleet"}, f"/{regression_ids[0]}").json()["project"] == "research"
    assert answer_for({"fleet"}, project="other").json()["regressions"] == []
    assert answer_for({"admin", "write"}).status_code == 403
    assert service.client.get("/v1/regressions/%00").status_code == 404


@ON_ONE_ENGINE
def test_the_day_it_fired_stands_beside_the_last_one(service: Service, project_id: int) -> None:
    (regression_id,) = fires(service.store, project_id, finding())
    last = replace(
        finding(gpu_hours=50.0), ratio=1.2, after=replace(finding().after, to_us=NOON + DAY_US)
    )
    searched(service.store, project_id, NOON + DAY_US, last)

    answer = service.get(f"/v1/regressions/{regression_id}")
    fired = answer["fired"]
    assert (answer["ratio"], answer["impact"]["gpu_hours_per_week"]) == (1.2, 50.0)
    assert (fired["ratio"], fired["impact"]["gpu_hours_per_week"]) == (1.65, 212.0)
    assert (fired["at"], answer["after"]["to"]) == (
        "2026-03-01T12:00:00.000000Z",
        "2026-03-02T12:00:00.000000Z",
    )
