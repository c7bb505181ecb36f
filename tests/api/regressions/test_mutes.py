"""Mutes over HTTP: created, listed while they are active, ended."""

from typing import Any

from httpx2 import Response

from ett_service.core.intervals import DAY_US, HOUR_US
from ett_service.storage.record.keys import create_project
from tests.builders.clock import NOON
from tests.builders.databases.engines import ON_ONE_ENGINE
from tests.builders.regressions.stored import finding, fires
from tests.builders.servers.application import Service

MUTE: dict[str, Any] = {
    "cohort": {"cluster": "a"},
    "phase": "pt2_compile",
    "until": "2026-03-02T12:00:00Z",
    "why": "the cache moves",
}


def post(service: Service, mute: dict[str, Any]) -> Response:
    return service.client.post("/v1/regressions/mutes", json=mute)


def whys(service: Service, **query: Any) -> list[str]:
    return [mute["why"] for mute in service.get("/v1/regressions/mutes", **query)["mutes"]]


@ON_ONE_ENGINE
def test_a_mute_holds_from_now_until_its_end(service: Service) -> None:
    service.clock.now_us = NOON
    mute = post(service, MUTE).json()
    assert (mute["from"], mute["until"]) == (
        "2026-03-01T12:00:00.000000Z",
        "2026-03-02T12:00:00.000000Z",
    )
    assert service.get("/v1/regressions/mutes") == {"mutes": [mute], "next_cursor": None}
    service.clock.now_us = NOON + DAY_US
    assert (whys(service), whys(service, over="true")) == ([], ["the cache moves"])


def test_it_mutes_what_it_covers_until_it_is_taken_back(service: Service) -> None:
    service.clock.now_us = NOON + HOUR_US
    project_id = service.store.write(lambda conn: create_project(conn, "research", NOON))
    ids = fires(service.store, project_id, finding(), finding(cohort=(("cluster", "b"),)))
    mute = post(service, MUTE).json()

    def muted() -> list[dict[str, str]]:
        rows = service.get("/v1/regressions")["regressions"]
        return [row["cohort"] for row in rows if row["muted_until"]]

    assert muted() == [{"cluster": "a", "model": "llm-70b"}]
    assert [service.get(f"/v1/regressions/{regression_id}")["mutes"] for regression_id in ids] == [
        [mute],
        [],
    ]
    service.clock.now_us += HOUR_US
    path = f"/v1/regressions/mutes/{mute['id']}"
    assert [service.client.delete(path).status_code for _ in "12"] == [204, 404]
    assert muted() == []
    (over,) = service.get("/v1/regressions/mutes", over="true")["mutes"]
    assert (over["taken_back_by_name"], over["until"]) == ("test", over["taken_back_at"])


@ON_ONE_ENGINE
def test_a_mute_that_means_nothing_is_refused(service: Service) -> None:
    service.clock.now_us = NOON
    refused: list[tuple[dict[str, Any], str, str]] = [
        ({"until": "2026-03-01T11:00:00Z"}, "bad_window", "/until"),
        ({"from": "2026-03-03T00:00:00Z"}, "bad_window", "/until"),
        ({"until": "2028-01-01T00:00:00Z"}, "timestamp_out_of_range", "/until"),
        ({"phase": "lunch"}, "unknown_phase", "/phase"),
        ({"cohort": {"colour": "red"}}, "unknown_member", "/cohort/colour"),
        ({"cohort": {"project": "research"}}, "unknown_member", "/cohort/project"),
        ({"why": None}, "wrong_type", "/why"),
    ]
    for changed, code, pointer in refused:
        answer = post(service, {**MUTE, **changed})
        assert answer.status_code == 422
        assert answer.json()["errors"] == [{"code": code, "pointer": pointer}]


@ON_ONE_ENGINE
def test_a_mute_of_everything_is_made_only_on_request(service: Service) -> None:
    mute = post(service, {"until": MUTE["until"], "why": "a drill"}).json()
    assert (mute["cohort"], mute["phase"]) == ({}, None)


@ON_ONE_ENGINE
def test_pages_follow_each_other_and_are_tables_on_request(service: Service) -> None:
    for number in range(3):
        post(service, {**MUTE, "why": f"{number}"})
        service.clock.now_us += 1
    page = service.get("/v1/regressions/mutes", limit=2)
    rest = whys(service, limit=2, cursor=page["next_cursor"])
    assert [mute["why"] for mute in page["mutes"]] + rest == ["2", "1", "0"]
    answer = service.client.get("/v1/regressions/mutes", params={"format": "csv"})
    assert answer.text.startswith("id,project,cohort,phase,from,until,why,")


@ON_ONE_ENGINE
def test_only_who_administers_the_project_mutes_in_it(service: Service) -> None:
    mute = post(service, MUTE).json()

    def by(scopes: set[str], method: str, path: str = "", **query: str) -> int:
        headers = {"Authorization": f"Bearer {service.key(scopes, 'other')}"}
        answer = service.client.request(
            method,
            f"/v1/regressions/mutes{path}",
            params=query,
            headers=headers,
            json=MUTE if method == "POST" else None,
        )
        return answer.status_code

    assert by({"read", "write", "fleet"}, "POST") == 403
    assert by({"read", "write", "fleet"}, "DELETE", f"/{mute['id']}") == 403
    assert by({"admin"}, "DELETE", f"/{mute['id']}") == 404
    assert by({"admin"}, "DELETE", "/%00") == 404
    assert by({"admin"}, "POST", project="nothing") == 404
    assert by({"admin"}, "DELETE", f"/{mute['id']}", project="research") == 204
