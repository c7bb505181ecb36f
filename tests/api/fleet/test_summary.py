"""The fleet over HTTP, against sums taken by hand from the ledgers of its jobs."""

import json
from typing import Any

import pytest

from ett_service.core.intervals import rfc3339
from tests.api.fleet.shifted import assert_adds_up, parts_of, shifted, us
from tests.builders.clock import HOUR
from tests.builders.databases.engines import ON_ONE_ENGINE
from tests.builders.jobs import at, failing_job, wire_event
from tests.builders.servers.application import Service

Query = dict[str, Any]

DAY = 24 * 60
JOBS = ("llm-70b", "early", "nightly", "unknown")
ALL = ("2026-02-20T00:00:00Z", "2026-03-02T00:00:00Z")
WINDOWS = (
    ALL,
    ("2026-03-01T12:00:00Z", "2026-03-01T13:00:00Z"),
    ("2026-02-27T23:00:00Z", "2026-02-28T00:00:00Z"),
    ("2026-02-28T00:00:00Z", "2026-03-01T12:00:00Z"),
    ("2026-02-23T00:00:00Z", "2026-03-01T13:00:00Z"),
    ("2026-02-27T22:00:00Z", "2026-02-28T14:00:00Z"),
)

WINDOW: dict[str, Any] = {"from": at(-120), "to": at(120)}


@pytest.fixture
def fleet(service: Service) -> Service:
    """Four jobs of two teams at other times, one across a midnight, one of unknown size."""
    service.clock.now_us += 6 * HOUR
    service.ingest(failing_job())
    service.ingest(shifted(failing_job("early", team="vision", gpus=8), 17.25 - 9 * DAY))
    service.ingest(shifted(failing_job("nightly", team="vision", model=None), 681.5 - 2 * DAY))
    without_facts = [
        {name: value for name, value in event.items() if name != "gpus"}
        for event in failing_job("unknown")
    ]
    service.ingest(shifted(without_facts, 40 - DAY))
    return service


def test_a_window_is_what_the_ledgers_hold_in_it(fleet: Service) -> None:
    parts = parts_of(fleet, *JOBS)
    for window in WINDOWS:
        query: Query = {"from": window[0], "to": window[1]}
        answer = fleet.get("/v1/fleet/summary", **query)
        assert_adds_up(answer["total"], parts, window)
        assert answer["groups"] == []


def test_groups_are_what_their_jobs_hold_and_add_up_to_the_whole(fleet: Service) -> None:
    query: Query = {"from": ALL[0], "to": ALL[1], "group_by": "team,model"}
    answer = fleet.get("/v1/fleet/summary", **query)
    by_group = {tuple(group["group"].values()): group for group in answer["groups"]}
    assert answer["group_count"] == len(by_group) == 3
    pretraining = parts_of(fleet, "llm-70b", "unknown")
    assert_adds_up(by_group["pretraining", "llm-70b"], pretraining, ALL)
    assert_adds_up(by_group["vision", "llm-70b"], parts_of(fleet, "early"), ALL)
    assert_adds_up(by_group["vision", None], parts_of(fleet, "nightly"), ALL)
    for name in ("jobs", "attempts", "e2e_seconds", "weighted_seconds", "gpu_seconds"):
        assert sum(group[name] for group in answer["groups"]) == answer["total"][name]


CONDITIONS: tuple[tuple[list[str], tuple[str, ...]], ...] = (
    (["team:vision"], ("early", "nightly")),
    (["team:vision", "team:pretraining"], JOBS),
    (["team:vision", "model:"], ("nightly",)),
    (["size:8-15"], ("llm-70b", "early", "nightly")),
    (["size:"], ("unknown",)),
    (["team:nobody"], ()),
    (["project:research"], JOBS),
)


def test_conditions_choose_jobs(fleet: Service) -> None:
    for where, jobs in CONDITIONS:
        query: Query = {"from": ALL[0], "to": ALL[1], "where": where}
        answer = fleet.get("/v1/fleet/summary", **query)
        assert_adds_up(answer["total"], parts_of(fleet, *jobs), ALL)


STEPS = (
    ("1h", 1, ("2026-02-27T22:00:00.000000Z", "2026-02-28T03:00:00.000000Z")),
    ("1d", 24, ("2026-02-20T05:00:00.000000Z", "2026-03-01T13:00:00.000000Z")),
    ("1w", 168, ("2026-02-20T05:00:00.000000Z", "2026-03-01T13:00:00.000000Z")),
)


def test_steps_are_what_the_ledgers_hold_in_each(fleet: Service) -> None:
    parts = parts_of(fleet, *JOBS)
    for step, hours, window in STEPS:
        query: Query = {"from": window[0], "to": window[1], "step": step}
        points = fleet.get("/v1/fleet/series", **query)["points"]
        for point in points:
            inside = max(point["start"], window[0]), min(point["end"], window[1])
            assert_adds_up(point, parts, inside)
            assert point["partial"] == (inside != (point["start"], point["end"]))
        starts = [us(point["start"]) for point in points]
        assert starts == [*range(starts[0], us(window[1]), hours * HOUR)]
        assert us(points[0]["end"]) > us(window[0])
        if step == "1w":
            assert [point["start"][:10] for point in points] == ["2026-02-16", "2026-02-23"]


@ON_ONE_ENGINE
def test_a_series_by_group_leaves_out_steps_without_time(fleet: Service) -> None:
    query: Query = {"from": ALL[0], "to": ALL[1], "step": "1d", "group_by": "team"}
    points = fleet.get("/v1/fleet/series", **query)["points"]
    assert [(point["start"][:10], point["group"]["team"]) for point in points] == [
        ("2026-02-20", "vision"),
        ("2026-02-27", "vision"),
        ("2026-02-28", "pretraining"),
        ("2026-02-28", "vision"),
        ("2026-03-01", "pretraining"),
    ]


def test_what_happened_at_an_instant_counts_in_the_window_that_holds_it(fleet: Service) -> None:
    """Of each job attempts begin at 1 and 32 and the first fails at 30, at step 200 of 100."""
    query: Query = {"where": "team:vision"}
    first, midnight, last = (f"2026-02-{at}:00:00Z" for at in ("27T23", "28T00", "28T01"))
    before, after = (
        fleet.get("/v1/fleet/summary", **{**query, "from": start, "to": end})
        for start, end in ((first, midnight), (midnight, last))
    )
    # The nightly job begins at 23:21:30, fails at 23:51:30 and ends at 00:23:30.
    assert before["total"]["attempts"] == 2
    assert before["total"]["failures"]["by"] == [
        {"origin": "unknown", "cause": "unknown", "count": 1, "unsaved_training_seconds": 600.0}
    ]
    assert before["total"]["time_to_start"]["count"] == 1
    assert before["total"]["time_to_start"]["mean"] == 540.0
    assert before["total"]["time_to_recover"]["mean"] == 300.0
    assert before["total"]["ett_ratio_median_job"] is None
    assert after["total"]["attempts"] == after["total"]["failures"]["total"] == 0
    assert after["total"]["time_to_recover"]["p50"] is None
    assert after["total"]["jobs"] == 1
    assert after["total"]["ett_ratio_median_job"] == 0.5485  # of 2040 s in 3720


@ON_ONE_ENGINE
def test_rates_of_failures_divide_by_held_time(fleet: Service) -> None:
    query: Query = {"from": ALL[0], "to": ALL[1], "where": "team:vision"}
    total = fleet.get("/v1/fleet/summary", **query)["total"]
    # Twice 62 minutes on 8 accelerators, of which 1 is scheduling and 2 are waited.
    assert total["gpu_seconds"] == 2 * 59 * 60 * 8
    hours = total["gpu_seconds"] / 3600
    failures = total["failures"]
    assert failures["total"] == 2
    assert failures["per_1000_gpu_hours"] == pytest.approx(2000 / hours)
    assert failures["per_1000_node_days"] == pytest.approx(2000 / (hours / 8 / 24))
    assert failures["accelerators_per_node"] == 8
    assert total["mtbf"]["seconds"] == 59 * 60
    assert total["mtbf"]["low"] < 59 * 60 < total["mtbf"]["high"]
    assert total["infra_mtbf"]["seconds"] is None
    assert total["infra_mtbf"]["low"] > 0


@ON_ONE_ENGINE
def test_without_distributions_what_is_read_from_them_is_null(fleet: Service) -> None:
    query: Query = {"from": ALL[0], "to": ALL[1]}
    full = fleet.get("/v1/fleet/summary", **query)["total"]
    plain = fleet.get("/v1/fleet/summary", distributions=False, **query)["total"]
    unknown = ["time_to_start", "time_to_recover", "checkpoint_blocking", "queue_wait", "phases"]
    unknown.append("ett_ratio_median_job")
    assert {name: plain[name] for name in unknown} == dict.fromkeys(unknown)
    assert plain["failures"]["by"] is None
    left = {**full, **dict.fromkeys(unknown)}
    left["failures"] = {**full["failures"], "by": None}
    assert plain == left


@ON_ONE_ENGINE
def test_the_total_alone_can_have_distributions(fleet: Service) -> None:
    query: Query = {"from": ALL[0], "to": ALL[1], "group_by": "model"}
    full = fleet.get("/v1/fleet/summary", **query)
    of_total = fleet.get("/v1/fleet/summary", group_distributions=False, **query)
    plain = fleet.get("/v1/fleet/summary", distributions=False, **query)
    assert full["groups"] != plain["groups"]
    assert of_total == {**plain, "total": full["total"]}


def test_excluded_time_is_left_out_or_counted_on_request(fleet: Service) -> None:
    window: Query = {"from": "2026-03-01T12:20:00Z", "to": "2026-03-01T12:40:00Z", "why": "a drill"}
    path = "/v1/jobs/llm-70b/exclusion"
    assert fleet.client.put(path, json=window).status_code == 200
    fleet.settle()
    query: Query = {"from": ALL[0], "to": ALL[1]}
    parts = parts_of(fleet, *JOBS)
    counted = fleet.get("/v1/fleet/summary", exclusions="included", **query)["total"]
    assert_adds_up(counted, parts, ALL)
    left = fleet.get("/v1/fleet/summary", **query)["total"]
    for name, seconds in left["categories"].items():
        excluded = sum(
            part.inside((window["from"], window["to"])) / 1e6
            for part in parts
            if part.job == "llm-70b" and part.category == name
        )
        assert seconds == counted["categories"][name] - excluded
    assert left["jobs"] == counted["jobs"] == 4
    assert left["failures"]["total"] == counted["failures"]["total"] - 1


def test_the_jobs_that_lost_most_come_first_and_add_up(fleet: Service) -> None:
    query: Query = {"from": ALL[0], "to": ALL[1]}
    answer = fleet.get("/v1/fleet/jobs/top", **query)
    # The job of unknown size has no weighted time to lose.
    assert {job["job"] for job in answer["jobs"]} == {"llm-70b", "early", "nightly"}
    total = fleet.get("/v1/fleet/summary", **query)["total"]
    for name in ("weighted_seconds", "lost_weighted_seconds", "gpu_seconds"):
        assert sum(job[name] for job in answer["jobs"]) == total[name]
    cut: Query = {"from": "2026-02-27T23:00:00Z", "to": "2026-02-28T00:00:00Z"}
    (job,) = fleet.get("/v1/fleet/jobs/top", by="category:pt2_compile", **cut)["jobs"]
    assert (job["job"], job["project"]) == ("nightly", "research")
    assert job["weighted_categories"]["pt2_compile"] == 2 * 60 * 8
    assert job["e2e_seconds"] == 38.5 * 60
    assert job["cost"] is None
    assert len(fleet.get("/v1/fleet/jobs/top", limit=2, **query)["jobs"]) == 2
    assert fleet.get("/v1/fleet/jobs/top", by="cost", **query)["jobs"] == []


@ON_ONE_ENGINE
def test_the_gpu_hours_that_a_job_lost_are_those_of_its_own_answer(fleet: Service) -> None:
    query: Query = {"from": ALL[0], "to": ALL[1]}
    jobs = fleet.get("/v1/fleet/jobs/top", by="lost_gpu", **query)["jobs"]
    lost = [job["lost_gpu_seconds"] for job in jobs]
    assert len(jobs) == 3
    assert lost == sorted(lost, reverse=True)
    for job in jobs:
        effective = job["gpu_categories"]["effective_training"]
        assert job["lost_gpu_seconds"] == sum(job["gpu_categories"].values()) - effective
        own = fleet.get(f"/v1/jobs/{job['job']}", project=job["project"])
        assert job["lost_gpu_seconds"] == own["lost_gpu_seconds"] <= job["lost_weighted_seconds"]


@ON_ONE_ENGINE
def test_groups_are_sorted_and_limited_on_request(fleet: Service) -> None:
    query: Query = {"from": ALL[0], "to": ALL[1], "group_by": "team"}

    def teams(**filters: Any) -> list[str]:
        answer = fleet.get("/v1/fleet/summary", **filters, **query)
        assert answer["group_count"] == 2
        return [group["group"]["team"] for group in answer["groups"]]

    assert teams() == teams(sort="lost") == ["vision", "pretraining"]
    assert teams(sort="name") == ["pretraining", "vision"]
    assert teams(limit=1) == ["vision"]


def test_a_reading_key_sees_its_own_project_and_a_fleet_key_all(fleet: Service) -> None:
    stranger = fleet.key({"write", "read"}, project="strangers")
    everybody = fleet.key({"fleet"}, project="operators")
    own = fleet.key({"read"})
    fleet.client.headers["Authorization"] = f"Bearer {stranger}"
    fleet.ingest(failing_job("theirs"))
    query: Query = {"from": ALL[0], "to": ALL[1]}

    def jobs(key: str, status: int = 200, **filters: Any) -> Any:
        fleet.client.headers["Authorization"] = f"Bearer {key}"
        answer = fleet.get("/v1/fleet/summary", status, **filters, **query)
        return answer["total"]["jobs"] if status == 200 else answer["detail"]

    assert jobs(stranger) == jobs(stranger, project="strangers") == 1
    assert jobs(own) == 4
    assert jobs(everybody) == 5
    assert jobs(everybody, project="strangers") == 1
    assert jobs(everybody, where=["project:strangers"]) == 1
    assert jobs(own, where=["project:strangers"]) == 0
    assert jobs(own, 404, project="strangers") == jobs(own, 404, project="nobody")
    assert jobs(everybody, 404, project="nobody") == "No such project."
    projects = []
    for key in (own, everybody):
        fleet.client.headers["Authorization"] = f"Bearer {key}"
        top = fleet.get("/v1/fleet/jobs/top", **query)["jobs"]
        projects.append({job["project"] for job in top})
    assert projects == [{"research"}, {"research", "strangers"}]


@ON_ONE_ENGINE
def test_an_empty_window_answers_with_zeros(service: Service) -> None:
    for path in ("summary", "series"):
        text = json.dumps(service.get(f"/v1/fleet/{path}"))
        assert "NaN" not in text
        assert "Infinity" not in text
    total = service.get("/v1/fleet/summary", group_by="team")["total"]
    assert (total["jobs"], total["ett_ratio"], total["e2e_seconds"]) == (0, 0.0, 0.0)
    assert (total["ett_ratio_median_job"], total["cost"]["total"]) == (None, None)
    assert total["time_to_start"]["count"] == 0
    assert (total["mtbf"]["seconds"], total["mtbf"]["low"]) == (None, None)
    assert service.get("/v1/fleet/jobs/top")["jobs"] == []


@ON_ONE_ENGINE
def test_an_answer_repeats_the_query_as_it_was_understood(service: Service) -> None:
    query: Query = {"from": "2026-03-01T12:10:00+01:00", "to": "2026-03-01T12:10:00Z"}
    where = ["team:b", "team:a", "model:"]
    answer = service.get("/v1/fleet/summary", where=where, group_by="model,team", **query)
    assert answer["from"] == "2026-03-01T11:00:00.000000Z"
    assert answer["to"] == "2026-03-01T13:00:00.000000Z"
    assert answer["as_of"] == rfc3339(service.clock.now_us)
    assert answer["group_by"] == ["model", "team"]
    assert answer["where"] == {"team": ["a", "b"], "model": [""]}
    assert answer["exclusions"] == "left_out"


BAD: list[tuple[str, dict[str, Any], str, str, str]] = [
    ("summary", {"group_by": "colour"}, "group_by", "unknown_dimension", "code_version"),
    ("summary", {"group_by": "team,team"}, "group_by", "repeated_dimension", "once"),
    ("summary", {"where": "colour:red"}, "where", "unknown_dimension", "code_version"),
    ("summary", {"where": "team"}, "where", "no_colon", "a colon"),
    ("summary", {"where": "team:\x00"}, "where", "bad_value", "no NUL"),
    (
        "summary",
        {"from": "2026-03-02T00:00:00Z", "to": "2026-03-01T00:00:00Z"},
        "from",
        "from_after_to",
        "not be after `to`",
    ),
    (
        "summary",
        {"from": "2026-03-01T00:00:00"},
        "from",
        "timestamp_without_offset",
        "with an offset",
    ),
    ("summary", {"to": "1772366400"}, "to", "bad_timestamp", "with an offset"),
    ("summary", {"exclusions": "some"}, "exclusions", "literal_error", "included"),
    ("summary", {"format": "xml"}, "format", "literal_error", "parquet"),
    ("summary", {"sort": "size"}, "sort", "literal_error", "weighted"),
    ("summary", {"limit": "0"}, "limit", "greater_than_equal", "1"),
    ("summary", {"step": "1d"}, "step", "unknown_parameter", "group_by"),
    ("series", {"step": "5m"}, "step", "literal_error", "1w"),
    ("series", {"step": "1h", "from": "2024-01-01T00:00:00Z"}, "step", "too_many_points", "10000"),
    ("jobs/top", {"by": "category:sleep"}, "by", "unknown_measure", "category:stalled"),
    ("jobs/top", {"by": "size"}, "by", "unknown_measure", "lost"),
    ("jobs/top", {"group_by": "team"}, "group_by", "unknown_parameter", "where"),
]


@ON_ONE_ENGINE
def test_what_cannot_be_answered_names_the_parameter_and_what_is_allowed(service: Service) -> None:
    for path, query, parameter, code, allowed in BAD:
        (error,) = service.get(f"/v1/fleet/{path}", 422, **query)["errors"]
        assert (error["pointer"], error["code"]) == (f"/query/{parameter}", code), query
        assert allowed in str(error["allowed"]), query


@ON_ONE_ENGINE
def test_a_job_with_the_name_of_a_formula_is_only_a_name(service: Service) -> None:
    service.ingest(
        [wire_event("job", 0, job="=1+1", gpus=1), wire_event("heartbeat", 1, job="=1+1")]
    )
    answer = service.client.get("/v1/jobs", params={"format": "csv"})
    assert "\r\n'=1+1," in answer.text


def test_each_step_is_that_of_the_series(service: Service) -> None:
    service.clock.now_us += 10 * 3600 * 1_000_000
    service.ingest(failing_job())
    for step in ("1h", "1d", "1w"):
        points: list[dict[str, Any]] = service.get("/v1/fleet/trend", step=step, **WINDOW)["points"]
        whole = service.get("/v1/fleet/series", step=step, **WINDOW)["points"]
        for point, of_series in zip(points, whole, strict=True):
            failures = point.pop("failures")
            assert failures == of_series["failures"]["total"]
            assert point == {name: of_series[name] for name in point}
        assert any(point["ett_ratio"] > 0 for point in points)
        assert max(point["jobs"] for point in points) == 1


def test_its_target_is_that_of_the_question(service: Service) -> None:
    answer = service.get("/v1/fleet/trend", **WINDOW)
    assert answer["target"] is None
    assert answer["step"] == "1d"
