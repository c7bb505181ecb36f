"""Why ETT% changed, over HTTP."""

from decimal import Decimal
from typing import Any

import pytest

from tests.builders.jobs import wire_event, wire_span
from tests.builders.servers.application import Service

Json = dict[str, Any]

FROM, MIDDLE, TO = "2026-03-01T12:00:00Z", "2026-03-01T18:00:00Z", "2026-03-02T00:00:00Z"
WINDOWS: Json = {"from": MIDDLE, "to": TO}


def _job(
    name: str, start: int, compiling: int, training: int, **facts: Any
) -> list[dict[str, Any]]:
    """Return a job on 8 accelerators that begins so many minutes after noon."""
    middle, end = start + compiling, start + compiling + training
    return [
        wire_event("job", start, job=name, **{"gpus": 8, **facts}),
        wire_span("pt2_compile", start, middle, job=name),
        wire_span("train_loop", middle, end, job=name),
        wire_event("attempt_ended", end, job=name, outcome="completed"),
    ]


@pytest.fixture
def fleet(service: Service) -> Service:
    """A compile that takes 20 minutes more in the evening, and a cohort that came."""
    service.clock.now_us += 24 * 3_600_000_000
    service.ingest(_job("a-1", 0, 12, 48, model="a", team="one"))
    service.ingest(_job("a-2", 360, 32, 28, model="a", team="one"))
    service.ingest(_job("b-2", 365, 10, 7, model="b"))
    return service


def test_parts_and_rest_add_up_to_the_change_to_the_last_digit(fleet: Service) -> None:
    for limit in (1, 20):
        answer = fleet.get("/v1/fleet/explain", limit=limit, **WINDOWS)

        def exact(number: float) -> Decimal:
            return Decimal(repr(number))

        change = exact(answer["change_points"])
        parts = sum(exact(part["points"]) for part in answer["parts"])
        assert parts + exact(answer["rest"]["points"]) == change
        assert exact(answer["mix_points"]) + exact(answer["within_points"]) == change
        ratios = exact(answer["current"]["ett_ratio"]) - exact(answer["base"]["ett_ratio"])
        assert 100 * ratios == change
        assert len(answer["parts"]) == min(limit, 3)


def test_a_part_names_its_cohort_its_category_and_its_jobs(fleet: Service) -> None:
    answer = fleet.get("/v1/fleet/explain", **WINDOWS)

    largest = answer["parts"][0]
    assert (largest["group"], largest["part"], largest["other"]) == (
        {"model": "a"},
        "pt2_compile",
        False,
    )
    assert (largest["base"], largest["current"]) == (12 / 60, 32 / 60)
    assert largest["jobs"] == [
        {
            "job": "a-2",
            "project": "research",
            "base_seconds": 0.0,
            "current_seconds": 8 * 32 * 60.0,
        },
        {
            "job": "a-1",
            "project": "research",
            "base_seconds": 8 * 12 * 60.0,
            "current_seconds": 0.0,
        },
    ]
    assert answer["base"]["jobs"] == 1
    assert answer["current"]["jobs"] == 2
    assert answer["comparable"] is True


def test_the_base_is_as_long_as_the_window_and_lies_before_it_unless_it_is_named(
    fleet: Service,
) -> None:
    plain = fleet.get("/v1/fleet/explain", **WINDOWS)
    named = fleet.get("/v1/fleet/explain", base_from=FROM, base_to=MIDDLE, **WINDOWS)
    wider = fleet.get("/v1/fleet/explain", base_from="2026-02-01T00:30:00Z", **WINDOWS)

    assert plain == named
    assert (plain["base"]["from"], plain["base"]["to"]) == (
        "2026-03-01T12:00:00.000000Z",
        "2026-03-01T18:00:00.000000Z",
    )
    assert wider["base"]["from"] == "2026-02-01T00:00:00.000000Z"


def test_the_question_may_be_narrower_and_weigh_seconds_alike(fleet: Service) -> None:
    fleet.ingest(_job("a-3", 370, 50, 0, model="a", team="two", gpus=64))

    answer = fleet.get(
        "/v1/fleet/explain",
        where=["team:one", "team:two"],
        group_by="team,size",
        weighting="wall",
        **WINDOWS,
    )

    assert answer["where"] == {"team": ["one", "two"]}
    assert answer["group_by"] == ["team", "size"]
    assert answer["current"]["ett_ratio"] == pytest.approx(28 / 110)
    [came] = [part for part in answer["parts"] if part["group"]["team"] == "two"]
    assert (came["part"], came["group"]["size"]) == ("mix", "64-127")


def test_windows_without_data_answer_with_zeros(service: Service) -> None:
    answer = service.get("/v1/fleet/explain", **WINDOWS)

    assert (answer["change_points"], answer["parts"], answer["comparable"]) == (0.0, [], False)
    assert (answer["base"]["jobs"], answer["current"]["ett_ratio"]) == (0, 0.0)
    assert answer["rest"] == {"parts": 0, "points": 0.0}


def test_a_window_that_cannot_be_compared_has_no_change(fleet: Service) -> None:
    answer = fleet.get("/v1/fleet/explain", **WINDOWS | {"from": FROM, "to": MIDDLE})

    assert answer["current"]["ett_ratio"] == 0.8
    assert (answer["change_points"], answer["parts"], answer["comparable"]) == (0.0, [], False)


REFUSED: list[tuple[Json, str, str]] = [
    ({"group_by": "colour"}, "/query/group_by", "unknown_dimension"),
    ({"group_by": "team,team"}, "/query/group_by", "repeated_dimension"),
    ({"where": "team"}, "/query/where", "no_colon"),
    ({"where": "colour:red"}, "/query/where", "unknown_dimension"),
    ({"from": TO, "to": FROM}, "/query/from", "from_after_to"),
    ({"base_from": "2026-03-01T19:00:00Z"}, "/query/base_from", "from_after_to"),
    ({"base_to": "2026-03-01T18:00:00"}, "/query/base_to", "timestamp_without_offset"),
    ({"weighting": "mass"}, "/query/weighting", "literal_error"),
    ({"limit": "0"}, "/query/limit", "greater_than_equal"),
    ({"jobs": "21"}, "/query/jobs", "less_than_equal"),
    ({"wher": "team:a"}, "/query/wher", "unknown_parameter"),
]


def test_an_impossible_query_is_named(service: Service) -> None:
    for query, pointer, code in REFUSED:
        refusal = service.get("/v1/fleet/explain", status=422, **WINDOWS | query)
        assert [(error["pointer"], error["code"]) for error in refusal["errors"]] == [
            (pointer, code)
        ]


def test_extreme_instants_are_answered(service: Service) -> None:
    for window in (
        {"from": "0001-01-01T00:00:00Z", "to": "9999-12-31T23:59:59Z"},
        {"to": "0001-01-02T00:00:00Z"},
    ):
        answer = service.client.get("/v1/fleet/explain", params=window)
        assert answer.status_code in (200, 422), answer.text


def test_a_key_explains_its_own_project_and_one_for_the_fleet_all(fleet: Service) -> None:
    other = fleet.key(["read"], project="other")
    headers = {"Authorization": f"Bearer {other}"}

    mine = fleet.client.get("/v1/fleet/explain", params=WINDOWS, headers=headers).json()
    foreign = fleet.client.get(
        "/v1/fleet/explain", params={**WINDOWS, "project": "research"}, headers=headers
    )

    assert mine["current"]["jobs"] == 0
    assert foreign.status_code == 404
    assert fleet.get("/v1/fleet/explain", project="research", **WINDOWS)["current"]["jobs"] == 2


def test_parts_are_a_table_too(fleet: Service) -> None:
    answer = fleet.client.get("/v1/fleet/explain", params={**WINDOWS, "format": "csv"})

    header, first, *_ = answer.text.splitlines()
    assert {"part", "points", "base", "current"} <= set(header.split(","))
    assert "pt2_compile" in first
