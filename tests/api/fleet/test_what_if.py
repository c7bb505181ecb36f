"""What the fleet would gain, over HTTP."""

import json
from typing import Any

import pytest

from tests.builders.jobs import failing_job
from tests.builders.servers.application import Service

Json = dict[str, Any]

WINDOW: Json = {"from": "2026-03-01T12:00:00Z", "to": "2026-03-01T14:00:00Z"}
TEXTS = ["cut pt2_compile by 50%", "cut all failures by 100%", "publish off the GPUs"]


@pytest.fixture
def fleet(service: Service) -> Service:
    """One job of the builders: it fails at minute 30 and has caught up at 45."""
    service.clock.now_us += 24 * 3_600_000_000
    service.ingest(failing_job())
    return service


def test_gains_are_listed_largest_first_with_their_total(fleet: Service) -> None:
    answer = fleet.get("/v1/what-if", scenario=TEXTS, **WINDOW)

    assert [gain["scenarios"] for gain in answer["gains"]] == [
        ["cut all failures by 100%"],
        ["cut pt2_compile by 50%"],
        ["cut stage shutdown/model_publish by 100%"],
    ]
    failures, compiles, publish = answer["gains"]
    # 15 of 62 minutes go with the failure: 5 of recovery, of which 2 held nothing, and 10 again.
    before = answer["before"]["ett_ratio"]
    assert failures["ett_ratio"] == pytest.approx(before * 62 / 47)
    assert failures["points"] == pytest.approx(100 * before * (62 / 47 - 1))
    assert failures["gpu_hours"] == pytest.approx(8 * 13 / 60)
    assert (failures["failures"], failures["jobs"]) == (1, 1)
    assert "silent tail" in failures["assumptions"][0]
    assert compiles["ett_ratio"] == pytest.approx(before * 62 / 61)
    assert (compiles["failures"], compiles["jobs"]) == (None, 1)
    assert (publish["points"], publish["gpu_hours"], publish["jobs"]) == (0.0, 0.0, 0)
    assert answer["together"]["ett_ratio"] == pytest.approx(before * 62 / 46)
    assert answer["additive"] is False
    assert "do not add up" in answer["note"]


def test_unknown_values_are_null(fleet: Service) -> None:
    answer = fleet.get("/v1/what-if", scenario=TEXTS, **WINDOW)

    for gain in (*answer["gains"], answer["together"]):
        assert (gain["money"], gain["points_interval"], gain["gpu_hours_interval"]) == (None,) * 3


def test_scenarios_in_a_body_are_answered_alike(fleet: Service) -> None:
    expected = fleet.get("/v1/what-if", scenario=TEXTS, where="team:pretraining", **WINDOW)
    posted = fleet.client.post(
        "/v1/what-if", params={"where": "team:pretraining", **WINDOW}, json={"scenarios": TEXTS}
    )

    assert posted.status_code == 200, posted.text
    assert posted.json() == expected
    assert expected["where"] == {"team": ["pretraining"]}
    assert expected["jobs"] == expected["jobs_read"] == 1


def test_a_window_without_data_answers_with_zeros(service: Service) -> None:
    answer = service.get("/v1/what-if", scenario=TEXTS, **WINDOW)

    assert answer["before"] == {"ett_ratio": 0.0, "gpu_hours": 0.0}
    assert [gain["points"] for gain in answer["gains"]] == [0.0, 0.0, 0.0]
    assert answer["jobs"] == 0


REFUSED: list[tuple[Json, str, str]] = [
    ({"scenario": ["halve luck"]}, "/query/scenario/0", "unreadable_scenario"),
    ({"scenario": [*TEXTS, "fly"]}, "/query/scenario/3", "unreadable_scenario"),
    ({"scenario": ["x" * 201]}, "/query/scenario/0", "string_too_long"),
    ({"scenario": TEXTS * 7}, "/query/scenario", "too_long"),
    ({}, "/query/scenario", "missing"),
    ({"scenario": TEXTS, "group_by": "team"}, "/query/group_by", "unknown_parameter"),
    ({"scenario": TEXTS, "from": "2026-03"}, "/query/from", "bad_timestamp"),
    ({"scenario": TEXTS, "where": "team"}, "/query/where", "no_colon"),
]

REFUSED_BODIES: list[tuple[bytes, int, list[tuple[str, str]] | None]] = [
    (b'{"scenarios": ["halve luck"]}', 422, [("/scenarios/0", "unreadable_scenario")]),
    (b'{"scenarios": []}', 422, [("/scenarios", "too_short")]),
    (b'{"scenarios": [1]}', 422, [("/scenarios/0", "string_type")]),
    (b'{"scenarios": ["halve stalled"], "x": 1}', 422, [("/x", "extra_forbidden")]),
    (b"{}", 422, [("/scenarios", "missing")]),
    (b"{", 400, None),
    (b"\xff", 400, None),
    (b'{"scenarios": ["' + b" " * 20_000 + b'"]}', 413, None),
]


def _errors(answer: Any) -> list[tuple[str, str]] | None:
    errors = answer.get("errors")
    return errors and [(error["pointer"], error["code"]) for error in errors]


def test_an_impossible_query_is_named(service: Service) -> None:
    for query, pointer, code in REFUSED:
        refusal = service.get("/v1/what-if", status=422, **WINDOW | query)
        assert _errors(refusal) == [(pointer, code)]


def test_a_refusal_lists_what_is_allowed_and_never_what_was_sent(service: Service) -> None:
    refusal = service.get("/v1/what-if", status=422, scenario=["halve cosmic failures"])

    assert "collective_timeout" in refusal["detail"]
    assert "cosmic" not in json.dumps(refusal)


def test_a_body_that_cannot_be_read_is_refused(service: Service) -> None:
    for body, status, errors in REFUSED_BODIES:
        answer = service.client.post(
            "/v1/what-if", content=body, headers={"Content-Type": "application/json"}
        )
        assert (answer.status_code, _errors(answer.json())) == (status, errors), body[:40]
    plain = service.client.post("/v1/what-if", content=b"{}", headers={"Content-Type": "text/csv"})
    assert plain.status_code == 415


def test_a_key_that_may_not_read_may_not_ask(service: Service) -> None:
    headers = {"Authorization": f"Bearer {service.key(['write'])}"}
    body = {"scenarios": TEXTS}

    for answer in (
        service.client.get("/v1/what-if", params={"scenario": TEXTS}, headers=headers),
        service.client.post("/v1/what-if", json=body, headers=headers),
    ):
        assert answer.status_code == 403
