"""Two sets of jobs compared over HTTP."""

from typing import Any

import pytest

from tests.builders.jobs import compiled_job, wire_event, wire_span
from tests.builders.servers.application import Service

PATH = "/v1/regressions/compare"


@pytest.fixture
def rounds(service: Service) -> Service:
    """Eight jobs of each of two versions, the second of which compiles twice as long."""
    service.clock.now_us += 48 * 3_600_000_000
    for index in range(8):
        service.ingest(
            compiled_job(f"old-{index}", 60 * index, 6 + index % 2, code_version="1", model="llm")
        )
        service.ingest(
            compiled_job(f"new-{index}", 60 * index, 13 + index % 2, code_version="2", model="llm")
        )
    return service


def test_two_versions_are_compared_figure_by_figure(rounds: Service) -> None:
    body: dict[str, Any] = {"base": "code_version:1", "with": ["code_version:2", "job:new-*"]}
    answer = rounds.get(PATH, **body)

    by_name = {row["figure"]: row for row in answer["compared"]}
    compiles = by_name["pt2_compile"]
    assert (compiles["unit"], compiles["outcome"]) == ("seconds", "worse")
    assert (compiles["base"], compiles["with"]) == (
        {"n": 8, "value": 390.0},
        {"n": 8, "value": 810.0},
    )
    assert compiles["ratio"] == compiles["worse_by"] == pytest.approx(2.08, abs=0.1)
    assert compiles["ratio_interval"]["low"] > 1.8
    assert compiles["p"] <= compiles["p_corrected"] < 0.01
    assert compiles["smallest_ratio"] < 1.5
    assert by_name["ett_ratio"]["worse_by"] > 1 > by_name["ett_ratio"]["ratio"]
    assert by_name["failures_per_gpu_hour"]["ratio"] is None
    assert sum(answer["start_shares"].values()) == pytest.approx(1)
    assert answer["unlike"] == [
        {"dimension": "code_version", "base": "1", "with": "2", "apart": 1.0}
    ]
    assert (answer["with"]["jobs"], answer["with"]["job_count"]) == (["new-*"], 8)
    assert answer["confidence"] == 0.95
    assert "associated" in answer["note"]


def _ett(service: Service, base: str, other: str) -> dict[str, Any]:
    sets: dict[str, Any] = {"base": base, "with": other}
    ett: dict[str, Any] = service.get(PATH, **sets)["ett"]
    return ett


def test_the_parts_of_the_difference_of_ett_add_up_to_it(rounds: Service) -> None:
    ett = _ett(rounds, "code_version:1", "code_version:2")
    trained, old, new = 8 * 30, 8 * 30 + 4 * (6 + 7), 8 * 30 + 4 * (13 + 14)
    assert ett["base_ratio"] == pytest.approx(trained / old, abs=1e-12)
    assert ett["with_ratio"] == pytest.approx(trained / new, abs=1e-12)
    assert ett["points"] == pytest.approx(100 * (trained / new - trained / old), abs=1e-9)
    assert [part["category"] for part in ett["parts"]] == ["pt2_compile"]
    assert sum(part["points"] for part in ett["parts"]) == ett["points"]
    nobody = _ett(rounds, "job:nobody", "code_version:2")
    assert (nobody["base_ratio"], nobody["points"], nobody["parts"]) == (0, 0, [])


def test_the_ett_of_a_job_that_is_a_set_is_that_of_its_ledger(rounds: Service) -> None:
    rounds.ingest(
        [
            wire_event("job", 1000, job="twice", gpus=8),
            wire_span("train_loop", 1000, 1030, job="twice"),
            wire_event("attempt_ended", 1030, job="twice", outcome="failed"),
            wire_event("attempt_started", 1040, job="twice", attempt=1),
            wire_span("train_loop", 1045, 1075, job="twice", attempt=1),
            wire_event("attempt_ended", 1075, job="twice", attempt=1, outcome="completed"),
        ]
    )
    ett = _ett(rounds, "job:twice", "job:new-0")
    job = rounds.get("/v1/jobs/twice")
    shares = {name: us / job["e2e_seconds"] for name, us in job["categories"].items()}
    assert ett["base_ratio"] == pytest.approx(job["ett_ratio"], abs=1e-9)
    assert job["categories"]["restart_wait"] == 600
    for part in ett["parts"]:
        assert part["base"] == pytest.approx(shares[part["category"]], abs=1e-9)


def test_a_set_may_be_a_stretch_of_time(rounds: Service) -> None:
    answer = rounds.get(
        PATH,
        base_to="2026-03-01T16:00:00Z",
        with_from="2026-03-01T16:00:00Z",
        with_to="2026-03-01T18:00:00Z",
    )

    assert (answer["base"]["attempts"], answer["with"]["attempts"]) == (8, 4)
    assert answer["base"]["to"] == answer["with"]["from"] == "2026-03-01T16:00:00.000000Z"


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ({"base": "colour:red"}, "base"),
        ({"with": "model"}, "with"),
        ({"with_from": "2026-03-02T00:00:00Z", "with_to": "2026-03-01T00:00:00Z"}, "with_from"),
        ({"basis": "model:a"}, "basis"),
    ],
)
def test_an_impossible_query_is_refused_by_name(
    service: Service, query: dict[str, Any], parameter: str
) -> None:
    problem = service.get(PATH, status=422, **query)

    assert parameter in str(problem["errors"])


def test_the_jobs_of_another_project_are_not_compared(rounds: Service) -> None:
    rounds.client.headers["Authorization"] = f"Bearer {rounds.key(['read'], 'elsewhere')}"

    body: dict[str, Any] = {"base": "code_version:1", "with": "code_version:2"}
    answer = rounds.get(PATH, **body)

    assert (answer["base"]["attempts"], answer["with"]["attempts"]) == (0, 0)
    rounds.get(PATH, status=404, project="research")


def test_figures_come_as_a_table_too(rounds: Service) -> None:
    answer = rounds.client.get(PATH, params={"base": "code_version:1", "format": "csv"})

    assert answer.status_code == 200
    assert answer.text.splitlines()[0].startswith("figure,unit,")


def test_without_a_key_nothing_is_revealed_of_the_parameters(service: Service) -> None:
    service.client.headers.pop("Authorization")
    assert service.client.get(PATH, params={"base": "no such"}).status_code == 401
