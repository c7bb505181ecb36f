"""Markers over HTTP: stored once, filtered, deleted."""

import csv
from typing import Any

from httpx2 import Response

from tests.builders.databases.engines import ON_ONE_ENGINE
from tests.builders.servers.application import Service

DEPLOY: dict[str, Any] = {
    "at": "2026-03-01T09:00:00+01:00",
    "kind": "deploy",
    "title": "Trainer 4.2",
    "labels": {"service": "trainer", "team": "a:b"},
}
WINDOW: dict[str, Any] = {
    "at": "2026-03-02T08:00:00Z",
    "end": "2026-03-02T10:00:00Z",
    "kind": "maintenance",
    "title": "Racks 5 to 9",
    "id": "racks-5-9",
}


def post(service: Service, marker: dict[str, Any], **headers: str) -> Response:
    return service.client.post("/v1/markers", json=marker, headers=headers)


def titles(service: Service, **query: Any) -> list[str]:
    return [marker["title"] for marker in service.get("/v1/markers", **query)["markers"]]


def test_a_marker_is_kept_with_who_made_it_and_when(service: Service) -> None:
    answer = post(service, DEPLOY)

    assert answer.status_code == 201
    marker = answer.json()
    assert marker["at"] == "2026-03-01T08:00:00.000000Z"
    assert (marker["end"], marker["project"], marker["kind"]) == (None, "research", "deploy")
    assert marker["labels"] == DEPLOY["labels"]
    assert marker["made_by"].startswith("ett_")
    assert (marker["made_by_name"], marker["made_at"]) == ("test", "2026-03-01T13:00:00.000000Z")
    assert service.get("/v1/markers") == {"markers": [marker], "next_cursor": None}


def test_the_same_again_is_the_same_marker(service: Service) -> None:
    for marker in (DEPLOY, WINDOW):
        first, again = post(service, marker), post(service, marker)
        assert (first.status_code, again.status_code) == (201, 200)
        assert first.json() == again.json()

    in_another_zone = post(service, {**DEPLOY, "at": "2026-03-01T08:00:00Z", "end": None})

    assert in_another_zone.status_code == 200
    assert len(titles(service)) == 2


def test_one_id_with_other_content_is_a_conflict_and_the_first_stays(service: Service) -> None:
    post(service, WINDOW)

    answer = post(service, {**WINDOW, "title": "Racks 5 to 8"})

    assert answer.status_code == 409
    assert answer.json()["type"] == "urn:ett-service:problem:conflict"
    assert titles(service) == ["Racks 5 to 9"]


QUERIES: list[tuple[dict[str, Any], list[str]]] = [
    ({}, ["Racks 5 to 9", "Trainer 4.2"]),
    ({"from": "2026-03-02T09:00:00Z"}, ["Racks 5 to 9"]),
    ({"to": "2026-03-02T08:00:00Z"}, ["Trainer 4.2"]),
    ({"kind": "maintenance"}, ["Racks 5 to 9"]),
    ({"q": "trainer"}, ["Trainer 4.2"]),
    ({"label": "team:a:b"}, ["Trainer 4.2"]),
    ({"label": ["team:a:b", "service:trainer"]}, ["Trainer 4.2"]),
    ({"label": ["team:a:b", "service:other"]}, []),
    ({"label": "team:"}, []),
    ({"kind": "other"}, []),
]


def test_a_query_finds_what_it_names(service: Service) -> None:
    post(service, DEPLOY)
    post(service, WINDOW)
    answers = [(query, titles(service, **query)) for query, _ in QUERIES]
    assert answers == QUERIES


@ON_ONE_ENGINE
def test_pages_follow_each_other_without_a_gap(service: Service) -> None:
    for minute in range(5):
        post(service, {**DEPLOY, "at": f"2026-03-01T08:0{minute % 3}:00Z", "title": f"{minute}"})
    read: list[str] = []
    page = service.get("/v1/markers", limit=2)
    while page["next_cursor"]:
        read += [marker["title"] for marker in page["markers"]]
        page = service.get("/v1/markers", limit=2, cursor=page["next_cursor"])
    read += [marker["title"] for marker in page["markers"]]
    assert sorted(read) == ["0", "1", "2", "3", "4"]
    assert [int(title) % 3 for title in read] == [2, 1, 1, 0, 0]


@ON_ONE_ENGINE
def test_a_list_is_a_table_on_request(service: Service) -> None:
    post(service, {**WINDOW, "title": "=1+1"})
    post(service, DEPLOY)
    answer = service.client.get("/v1/markers", params={"format": "csv", "limit": 1})
    assert "racks-5-9" in answer.text
    head, row = csv.reader(answer.text.splitlines())
    first_row = dict(zip(head, row, strict=True))
    assert (first_row["title"], first_row["end"]) == ("'=1+1", "2026-03-02T10:00:00.000000Z")
    rest = {"format": "csv", "cursor": answer.headers["ETT-Next-Cursor"]}
    assert "Trainer 4.2" in service.client.get("/v1/markers", params=rest).text


def test_a_deleted_marker_is_gone(service: Service) -> None:
    post(service, WINDOW)
    assert service.client.delete("/v1/markers/racks-5-9").status_code == 204
    assert titles(service) == []
    assert service.client.delete("/v1/markers/racks-5-9").status_code == 404
    assert service.client.delete("/v1/markers/%00").status_code == 404


@ON_ONE_ENGINE
def test_a_project_sees_and_deletes_only_its_own(service: Service) -> None:
    post(service, WINDOW)
    other = {"Authorization": f"Bearer {service.key({'read', 'write'}, project='other')}"}
    assert service.client.get("/v1/markers", headers=other).json()["markers"] == []
    assert service.client.delete("/v1/markers/racks-5-9", headers=other).status_code == 404
    assert post(service, {**WINDOW, "title": "Ours"}, **other).status_code == 201
    assert titles(service) == ["Racks 5 to 9"]


@ON_ONE_ENGINE
def test_an_administrator_names_the_project(service: Service) -> None:
    service.key({"read"}, project="other")
    answer = service.client.post("/v1/markers", params={"project": "other"}, json=WINDOW)
    assert answer.json()["project"] == "other"
    assert titles(service, project="other") == ["Racks 5 to 9"]

    writer = {"Authorization": f"Bearer {service.key({'write'})}"}
    for method, path in (("POST", "/v1/markers"), ("DELETE", "/v1/markers/racks-5-9")):
        foreign, missing = (
            service.client.request(
                method, path, params={"project": name}, json=WINDOW, headers=writer
            )
            for name in ("other", "nothing")
        )
        assert (foreign.status_code, missing.status_code) == (404, 404)


BAD: list[tuple[dict[str, Any], str, str]] = [
    ({"at": None}, "wrong_type", "/at"),
    ({"at": 1772352000}, "wrong_type", "/at"),
    ({"at": "2026-03-01T08:00:00"}, "timestamp_without_offset", "/at"),
    ({"at": "2026-03-01"}, "bad_timestamp", "/at"),
    ({"at": "1969-12-31T23:59:59Z"}, "timestamp_out_of_range", "/at"),
    ({"at": "2027-03-03T08:00:00Z"}, "timestamp_out_of_range", "/at"),
    ({"end": "2026-03-01T08:00:00Z"}, "bad_window", "/end"),
    ({"end": "2026-03-01T07:00:00Z"}, "bad_window", "/end"),
    ({"end": "soon"}, "bad_timestamp", "/end"),
    ({"kind": "party"}, "unknown_value", "/kind"),
    ({"kind": 1}, "wrong_type", "/kind"),
    ({"title": ""}, "bad_length", "/title"),
    ({"title": "x" * 257}, "bad_length", "/title"),
    ({"title": "a\nb"}, "bad_text", "/title"),
    ({"title": "a\u202eb"}, "bad_text", "/title"),
    ({"labels": {"a": 1}}, "wrong_type", "/labels"),
    ({"labels": {"a": "b\x00"}}, "bad_text", "/labels"),
    ({"labels": {f"{n}": "" for n in range(17)}}, "bad_length", "/labels"),
    ({"labels": []}, "wrong_type", "/labels"),
    ({"id": "a b"}, "bad_id", "/id"),
    ({"id": "x" * 65}, "bad_id", "/id"),
    ({"titel": "x"}, "unknown_member", "/titel"),
]


@ON_ONE_ENGINE
def test_errors_are_named_by_code_and_pointer(service: Service) -> None:
    for changes, code, pointer in BAD:
        answer = post(service, {**DEPLOY, **changes})
        assert answer.status_code == 422, changes
        assert answer.json()["errors"] == [{"code": code, "pointer": pointer}], changes
    assert titles(service) == []


@ON_ONE_ENGINE
def test_an_unknown_kind_is_answered_with_the_known_ones(service: Service) -> None:
    problem = post(service, {**DEPLOY, "kind": "party"}).json()
    assert problem["detail"] == "kind is one of: deploy, launch, maintenance, other."
    assert "party" not in str(problem)


@ON_ONE_ENGINE
def test_a_missing_member_is_named(service: Service) -> None:
    for member in ("at", "kind", "title"):
        without = {name: value for name, value in DEPLOY.items() if name != member}
        answer = post(service, without)
        assert answer.status_code == 422
        assert answer.json()["errors"] == [{"code": "missing_member", "pointer": f"/{member}"}]


BODIES = [
    (b"", "application/json", 400),
    (b"{", "application/json", 400),
    (b'{"title": "\xff"}', "application/json", 400),
    (b'{"title": "\\ud800"}', "application/json", 400),
    (b'{"title": NaN}', "application/json", 400),
    (b"[" * 5000, "application/json", 422),
    (b"[]", "application/json", 422),
    (b"null", "application/json", 422),
    (b"{}", "text/plain", 415),
    (b" " * 17_000, "application/json", 413),
]


@ON_ONE_ENGINE
def test_a_body_that_is_no_object_is_refused(service: Service) -> None:
    for body, media, status in BODIES:
        answer = service.client.post("/v1/markers", content=body, headers={"Content-Type": media})
        assert answer.status_code == status, body


BAD_QUERIES: list[tuple[dict[str, Any], str]] = [
    ({"from": "2026-03-01T08:00:00"}, "/query/from"),
    ({"to": "now"}, "/query/to"),
    ({"kind": "party"}, "/query/kind"),
    ({"q": "\x00"}, "/query/q"),
    ({"label": "team"}, "/query/label/0"),
    ({"label": ":a"}, "/query/label/0"),
    ({"label": "a:\x00"}, "/query/label/0"),
    ({"limit": 0}, "/query/limit"),
    ({"limit": 1001}, "/query/limit"),
    ({"cursor": "x"}, "/query/cursor"),
    ({"lable": "a:b"}, "/query/lable"),
]


@ON_ONE_ENGINE
def test_a_query_that_is_wrong_names_the_parameter(service: Service) -> None:
    for query, pointer in BAD_QUERIES:
        refused = service.get("/v1/markers", 422, **query)
        assert [fault["pointer"] for fault in refused["errors"]] == [pointer]
