"""Each step of triage is stored with its author, instant and reason."""

from typing import Any

import pytest
from httpx2 import Response

from ett_service.core.intervals import DAY_US, HOUR_US
from ett_service.core.regressions.finding import Metric, Subject
from ett_service.storage.record.keys import create_project
from tests.builders.clock import NOON
from tests.builders.databases.engines import ON_ONE_ENGINE
from tests.builders.regressions.stored import finding, fires, searched
from tests.builders.servers.application import Service

UNTIL = "2026-03-04T00:00:00Z"


@pytest.fixture
def regression_id(service: Service) -> str:
    """Return the id of a firing regression."""
    service.clock.now_us = NOON + HOUR_US
    project_id = service.store.write(lambda conn: create_project(conn, "research", NOON))
    return fires(service.store, project_id, finding())[0]


def post(
    service: Service, regression_id: str, act: str, body: dict[str, Any], **headers: str
) -> Response:
    return service.client.post(f"/v1/regressions/{regression_id}/{act}", json=body, headers=headers)


def own_history(service: Service, regression_id: str) -> list[tuple[str, str, str]]:
    history = service.get(f"/v1/regressions/{regression_id}")["history"]
    return [(step["what"], step["by_name"], step["why"]) for step in history][2:]


@ON_ONE_ENGINE
def test_the_last_word_of_triage_counts_and_each_is_kept(
    service: Service, regression_id: str
) -> None:
    post(service, regression_id, "triage", {"verdict": "noise", "why": "a slow day"})
    service.clock.now_us += HOUR_US
    answer = post(
        service, regression_id, "triage", {"verdict": "real", "why": "it is the image"}
    ).json()

    assert (answer["triage"], answer["triage_by_name"]) == ("real", "test")
    assert answer["triage_at"] == "2026-03-01T14:00:00.000000Z"
    assert own_history(service, regression_id) == [
        ("triaged_noise", "test", "a slow day"),
        ("triaged_real", "test", "it is the image"),
    ]


@ON_ONE_ENGINE
def test_the_first_to_acknowledge_stays(service: Service, regression_id: str) -> None:
    first = post(service, regression_id, "acknowledge", {"why": "mine"}).json()
    service.clock.now_us += HOUR_US
    again = post(service, regression_id, "acknowledge", {})

    assert again.status_code == 200
    assert again.json()["acknowledged_at"] == first["acknowledged_at"]
    assert first["sla"]["acknowledge"] == {
        "seconds": 3600.0, "limit_seconds": 86_400.0, "runs": False, "breached": False,
    }  # fmt: skip
    assert own_history(service, regression_id) == [("acknowledged", "test", "mine")]


@ON_ONE_ENGINE
def test_what_is_accepted_is_resolved_and_no_longer_found(
    service: Service, regression_id: str
) -> None:
    answer = post(service, regression_id, "accept", {"why": "larger batches"}).json()
    assert (answer["state"], answer["sla"]["resolve"]["runs"]) == ("resolved", False)
    assert own_history(service, regression_id) == [("accepted", "test", "larger batches")]
    assert post(service, regression_id, "acknowledge", {}).status_code == 409


@ON_ONE_ENGINE
def test_only_what_fires_can_be_acknowledged(service: Service) -> None:
    project_id = service.store.write(lambda conn: create_project(conn, "research", NOON))
    searched(service.store, project_id, NOON, finding())
    (row,) = service.get("/v1/regressions")["regressions"]
    answer = post(service, row["id"], "acknowledge", {})
    assert answer.status_code == 409
    assert answer.json()["type"] == "urn:ett-service:problem:conflict"


@ON_ONE_ENGINE
def test_a_mute_of_a_regression_is_of_its_cohort_and_phase(
    service: Service, regression_id: str
) -> None:
    answer = post(service, regression_id, "mute", {"until": UNTIL, "why": "being mended"})
    assert answer.status_code == 201
    mute = answer.json()
    assert (mute["cohort"], mute["phase"]) == ({"cluster": "a", "model": "llm-70b"}, "pt2_compile")
    assert (mute["made_by_name"], mute["from"]) == ("test", "2026-03-01T13:00:00.000000Z")

    whole = service.get(f"/v1/regressions/{regression_id}")
    assert whole["muted_until"] == "2026-03-04T00:00:00.000000Z"
    assert whole["mutes"] == [mute]
    service.clock.now_us = NOON + 3 * DAY_US
    assert service.get(f"/v1/regressions/{regression_id}")["muted_until"] is None


@ON_ONE_ENGINE
def test_one_of_everything_is_not_muted_by_accident(service: Service) -> None:
    project_id = service.store.write(lambda conn: create_project(conn, "research", NOON))
    everything = fires(service.store, project_id, finding(Subject(Metric.ETT_RATIO), ()))[0]
    body = {"until": UNTIL, "why": "quiet"}
    assert post(service, everything, "mute", body).status_code == 409
    assert post(service, everything, "mute", {**body, "until": "2026-03-01T12:00:00Z"}).json()[
        "errors"
    ] == [{"code": "bad_window", "pointer": "/until"}]


ACTS: dict[str, dict[str, Any]] = {
    "triage": {"verdict": "real", "why": "it is"},
    "acknowledge": {},
    "accept": {"why": "it is"},
    "mute": {"until": UNTIL, "why": "it is"},
}


@ON_ONE_ENGINE
def test_only_who_administers_may_and_foreign_is_as_missing(
    service: Service, regression_id: str
) -> None:
    reader = {"Authorization": f"Bearer {service.key({'read', 'write', 'fleet'})}"}
    other = {"Authorization": f"Bearer {service.key({'admin'}, 'other')}"}

    def answer_for(
        act: str, headers: dict[str, str], which: str = regression_id, **query: str
    ) -> Response:
        path = f"/v1/regressions/{which}/{act}"
        return service.client.post(path, json=ACTS[act], params=query, headers=headers)

    for act in ACTS:
        assert answer_for(act, reader).status_code == 403
        foreign, missing = answer_for(act, other), answer_for(act, other, "nothing")
        assert (foreign.status_code, missing.status_code) == (404, 404)
        assert foreign.json()["detail"] == missing.json()["detail"]
        assert answer_for(act, other, "%00").status_code == 404
    for act in ("triage", "acknowledge", "mute", "accept"):
        assert answer_for(act, other, project="research").status_code in (200, 201)


@ON_ONE_ENGINE
def test_a_body_is_read_strictly(service: Service, regression_id: str) -> None:
    for act, body, fault in (
        ("triage", {"verdict": "perhaps", "why": "so"}, ("unknown_value", "/verdict")),
        ("triage", {"verdict": "real"}, ("missing_member", "/why")),
        ("acknowledge", {"who": "me"}, ("unknown_member", "/who")),
        ("accept", {"why": ""}, ("bad_length", "/why")),
        ("mute", {"until": "tomorrow", "why": "so"}, ("bad_timestamp", "/until")),
    ):
        answer = post(service, regression_id, act, body)
        (error,) = answer.json()["errors"]
        assert (answer.status_code, error["code"], error["pointer"]) == (422, *fault)


@ON_ONE_ENGINE
def test_triage_moves_the_onset(service: Service, regression_id: str) -> None:
    body = {"verdict": "real", "why": "the release", "onset": "2026-02-23T12:00:00Z"}
    answer = post(service, regression_id, "triage", body).json()
    assert (answer["id"], answer["onset_at"]) == (regression_id, "2026-02-23T12:00:00.000000Z")
    assert answer["attribution"]["onset_at"] < answer["onset_at"]  # of the last search
    assert [what for what, _, _ in own_history(service, regression_id)] == [
        "triaged_real",
        "onset_moved",
    ]
    too_late = {**body, "onset": "2026-03-02T00:00:00Z"}
    assert post(service, regression_id, "triage", too_late).status_code == 409


@ON_ONE_ENGINE
def test_triage_moves_the_finding_to_a_cohort_that_was_searched(
    service: Service, regression_id: str
) -> None:
    body = {"verdict": "real", "why": "all of it", "cohort": {"model": "rare", "cluster": "a"}}
    answer = post(service, regression_id, "triage", body).json()
    assert answer["id"] != regression_id
    assert answer["cohort"] == {"cluster": "a", "model": "rare"}
    assert (answer["state"], answer["triage"]) == ("firing", "real")
    assert answer["fired"]["cohort"] == {"cluster": "a", "model": "llm-70b"}
    before = service.get(f"/v1/regressions/{regression_id}")
    assert (before["merged_into"], before["triage"]) == (answer["id"], None)
    (tuned,) = service.get("/v1/regressions/tuning")["tuning"]
    assert tuned["real"] == 1

    nowhere = {**body, "cohort": {"cluster": "nowhere"}}
    refused = post(service, answer["id"], "triage", nowhere)
    assert (refused.status_code, service.get(f"/v1/regressions/{answer['id']}")["state"]) == (
        409,
        "firing",
    )


@pytest.fixture
def noise_id(service: Service, project_id: int) -> str:
    service.clock.now_us = NOON + HOUR_US
    return fires(service.store, project_id, finding())[0]


def tuning(service: Service) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = service.get("/v1/regressions/tuning")["tuning"]
    return rows


@ON_ONE_ENGINE
def test_noise_makes_the_smallest_change_larger_until_it_is_reset(
    service: Service, noise_id: str
) -> None:
    assert tuning(service) == []
    noise = {"verdict": "noise", "why": "a bad day"}
    service.client.post(f"/v1/regressions/{noise_id}/triage", json=noise)
    (row,) = tuning(service)
    assert (row["metric"], row["real"], row["noise"], row["reset_at"]) == (
        "phase_seconds", 0, 1, None,
    )  # fmt: skip
    assert row["factor"] == pytest.approx(1.15, abs=0.01)

    service.clock.now_us += HOUR_US
    reset = {"metric": "phase_seconds", "why": "the storage was broken"}
    answer = service.client.post("/v1/regressions/tuning/reset", json=reset)
    assert answer.status_code == 200, answer.text
    (row,) = answer.json()["tuning"]
    assert (row["noise"], row["factor"], row["reset_why"]) == (0, 1.0, reset["why"])
    assert tuning(service) == [row]


@ON_ONE_ENGINE
def test_only_administrators_reset(service: Service, noise_id: str) -> None:
    headers = {"Authorization": f"Bearer {service.key(['read'])}"}
    reset = {"metric": "phase_seconds", "why": noise_id}
    refused = service.client.post("/v1/regressions/tuning/reset", json=reset, headers=headers)
    assert refused.status_code == 403
