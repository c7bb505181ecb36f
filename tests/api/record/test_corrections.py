"""Verdicts and exclusions over HTTP: who may, what is refused, what the answers show."""

import csv
import logging
from typing import Any

import pytest
from httpx2 import Response

from ett_service.aggregation.verify import verify
from tests.builders.databases.engines import ON_ONE_ENGINE
from tests.builders.jobs import failing_job
from tests.builders.servers.application import Service

VERDICT: dict[str, Any] = {"origin": "infra", "cause": "network", "why": "a switch was down"}
OF_FIRST = "/v1/jobs/llm-70b/attempts/0/verdict"
OF_SECOND = "/v1/jobs/llm-70b/attempts/1/verdict"
EXCLUSION = "/v1/jobs/llm-70b/exclusion"
HISTORY = "/v1/jobs/llm-70b/corrections"

JOB = "/v1/jobs/llm-70b"


def put(service: Service, path: str, body: Any, status: int = 200, key: str | None = None) -> Any:
    headers = {"Authorization": f"Bearer {key}"} if key else None
    answer = service.client.put(path, json=body, headers=headers)
    assert answer.status_code == status, answer.text
    service.settle()
    return answer.json()


def take_back(service: Service, path: str) -> int:
    answer: Response = service.client.delete(path)
    service.settle()
    return answer.status_code


def first_attempt(service: Service) -> dict[str, Any]:
    attempt: dict[str, Any] = service.get("/v1/jobs/llm-70b")["attempts"][0]
    return attempt


def test_a_verdict_shows_beside_what_the_rules_say_until_it_is_taken_back(
    service: Service,
) -> None:
    service.ingest(failing_job())
    ruled = first_attempt(service)
    assert ruled["verdict"] is None

    verdict = put(service, OF_FIRST, VERDICT)

    judged = first_attempt(service)
    assert (judged["origin"], judged["cause"]) == ("infra", "network")
    assert judged["verdict"] == {
        **VERDICT,
        "made_by": verdict["made_by"],
        "made_at": "2026-03-01T13:00:00.000000Z",
        "rules_origin": ruled["origin"],
        "rules_cause": ruled["cause"],
    }
    assert judged["evidence"] == ruled["evidence"]
    assert service.get("/v1/jobs")["jobs"][0]["infra_failures"] == 1

    assert take_back(service, OF_FIRST) == 204
    assert first_attempt(service) == ruled
    assert take_back(service, OF_FIRST) == 404


def test_an_origin_left_out_is_the_one_that_the_cause_commonly_has(service: Service) -> None:
    service.ingest(failing_job())
    verdict = put(service, OF_FIRST, {"cause": "data", "why": "a bad shard"})
    assert (verdict["origin"], verdict["cause"]) == ("user", "data")


def test_an_attempt_that_did_not_fail_has_no_cause(service: Service) -> None:
    service.ingest(failing_job())
    problem = put(service, OF_SECOND, VERDICT, 409)
    assert problem["type"] == "urn:ett-service:problem:conflict"
    assert problem["detail"] == "Attempt 1 did not fail: its outcome is completed."
    assert service.get(HISTORY)["corrections"] == []


def test_the_history_keeps_who_when_and_why_and_what_was_taken_back(service: Service) -> None:
    service.ingest(failing_job())
    put(service, OF_FIRST, VERDICT)
    service.clock.now_us += 1_000_000
    put(service, OF_FIRST, {**VERDICT, "cause": "storage"})
    put(service, OF_FIRST, {**VERDICT, "cause": "storage"})
    put(service, EXCLUSION, {"why": "a drill", "to": "2026-03-01T12:30:00Z"})
    take_back(service, EXCLUSION)

    history = service.get(HISTORY)["corrections"]

    assert [(entry["id"], entry["kind"], entry["cause"]) for entry in history] == [
        (1, "verdict", "network"),
        (2, "verdict", "storage"),
        (3, "exclusion", None),
    ]
    assert [entry["taken_back_at"] for entry in history] == [
        "2026-03-01T13:00:01.000000Z",
        None,
        "2026-03-01T13:00:01.000000Z",
    ]
    assert {(entry["made_by_name"], entry["why"]) for entry in history} == {
        ("test", "a switch was down"),
        ("test", "a drill"),
    }
    assert (history[0]["launch"], history[0]["attempt"], history[0]["cycle"]) == ("", 0, 0)
    assert (history[2]["from"], history[2]["to"]) == (None, "2026-03-01T12:30:00.000000Z")
    assert [entry["taken_back_by"] for entry in history] == [
        history[0]["made_by"],
        None,
        history[0]["made_by"],
    ]


@ON_ONE_ENGINE
def test_the_history_comes_a_page_at_a_time(service: Service) -> None:
    service.ingest(failing_job())
    for cause in ("network", "storage", "host"):
        put(service, OF_FIRST, {**VERDICT, "cause": cause})
    page = service.get(HISTORY, limit=2)
    rest = service.get(HISTORY, limit=2, cursor=page["next_cursor"])
    causes = [entry["cause"] for entry in page["corrections"] + rest["corrections"]]
    assert causes == ["network", "storage", "host"]
    assert rest["next_cursor"] is None


@ON_ONE_ENGINE
def test_the_history_is_a_table_on_request(service: Service) -> None:
    service.ingest(failing_job())
    put(service, EXCLUSION, {**WHY, "from": AT})
    head, row = csv.reader(service.client.get(HISTORY, params={"format": "csv"}).text.splitlines())
    first_row = dict(zip(head, row, strict=True))
    assert (first_row["kind"], first_row["from"], first_row["to"], first_row["why"]) == (
        "exclusion",
        "2026-03-01T12:00:00.000000Z",
        "",
        "a drill",
    )


@pytest.mark.parametrize(
    ("body", "windows"),
    [
        ({}, [(None, None)]),
        ({"from": "2026-03-01T13:00:00+01:00"}, [("2026-03-01T12:00:00.000000Z", None)]),
        (
            {"windows": [{"from": "2026-03-01T12:40:00Z"}, {"to": "2026-03-01T12:10:00Z"}]},
            [
                (None, "2026-03-01T12:10:00.000000Z"),
                ("2026-03-01T12:40:00.000000Z", None),
            ],
        ),
    ],
)
def test_an_exclusion_shows_in_the_job_until_it_is_taken_back(
    service: Service, body: dict[str, Any], windows: list[tuple[str | None, str | None]]
) -> None:
    service.ingest(failing_job())
    was = service.get("/v1/jobs/llm-70b")
    assert was["exclusions"] == []

    put(service, EXCLUSION, {"why": "the last one is replaced"})
    created = put(service, EXCLUSION, {**body, "why": "a drill"})

    job = service.get("/v1/jobs/llm-70b")
    assert [(exclusion["from"], exclusion["to"]) for exclusion in job["exclusions"]] == windows
    assert {(exclusion["why"], exclusion["made_by_name"]) for exclusion in job["exclusions"]} == {
        ("a drill", "test")
    }
    assert created == {"job": "llm-70b", "exclusions": job["exclusions"]}
    assert {**job, "exclusions": []} == was

    assert take_back(service, EXCLUSION) == 204
    assert service.get("/v1/jobs/llm-70b") == was
    assert take_back(service, EXCLUSION) == 404


def test_fleet_numbers_with_and_without_an_exclusion_differ_by_that_part_of_the_job(
    service: Service,
) -> None:
    service.ingest(failing_job("llm-7b"))
    service.ingest(failing_job())
    put(service, EXCLUSION, {"why": "a drill", "from": "2026-03-01T12:05:00.5Z", "to": LATER})
    put(service, OF_FIRST, VERDICT)

    without, whole = (
        service.get("/v1/fleet/summary", to="2026-03-01T18:00:00Z", exclusions=exclusions)["total"]
        for exclusions in ("left_out", "included")
    )

    # From minute 5 and half a second to minute 30: the rest of init, compile, loop and a save.
    parts = {
        "launcher_init": 179.5,
        "pt2_compile": 120.0,
        "effective_training": 19 * 60.0,
        "checkpoint_blocking": 60.0,
    }
    lost = {
        name: whole["categories"].get(name, 0) - without["categories"].get(name, 0)
        for name in whole["categories"]
    }
    assert {name: seconds for name, seconds in lost.items() if seconds} == parts
    assert whole["weighted_seconds"] - without["weighted_seconds"] == 8 * sum(parts.values())
    # The failure is of the excluded window's end, which is not part of it.
    assert whole["failures"]["infra"] == without["failures"]["infra"] == 1


BAD_VERDICTS: list[tuple[Any, str, str]] = [
    ({"cause": "network"}, "missing_member", "/why"),
    ({"why": "x"}, "missing_member", "/cause"),
    ({**VERDICT, "cause": "ghosts"}, "unknown_value", "/cause"),
    ({**VERDICT, "origin": "mars"}, "unknown_value", "/origin"),
    ({**VERDICT, "why": ""}, "bad_length", "/why"),
    ({**VERDICT, "why": "x" * 501}, "bad_length", "/why"),
    ({**VERDICT, "why": "a\u202eb"}, "bad_text", "/why"),
    ({**VERDICT, "by": "me"}, "unknown_member", "/by"),
    ([], "wrong_type", ""),
]
WHY = {"why": "a drill"}
AT, LATER = "2026-03-01T12:00:00Z", "2026-03-01T12:30:00Z"
BAD_EXCLUSIONS: list[tuple[Any, str, str]] = [
    ({}, "missing_member", "/why"),
    ({**WHY, "from": AT[:-1]}, "timestamp_without_offset", "/from"),
    ({**WHY, "to": "1969-12-31T00:00:00Z"}, "timestamp_out_of_range", "/to"),
    ({**WHY, "from": LATER, "to": AT}, "bad_window", "/to"),
    ({**WHY, "from": AT, "to": AT}, "bad_window", "/to"),
    ({**WHY, "windows": []}, "bad_length", "/windows"),
    ({**WHY, "windows": [{}] * 101}, "bad_length", "/windows"),
    ({**WHY, "windows": [{"to": AT}, {"form": AT}]}, "unknown_member", "/windows/1/form"),
    ({**WHY, "windows": [{"to": AT}, {"from": "x"}]}, "bad_timestamp", "/windows/1/from"),
    ({**WHY, "windows": [{"from": LATER, "to": AT}]}, "bad_window", "/windows/0/to"),
    ({**WHY, "windows": [{}], "from": AT}, "one_or_the_other", "/from"),
    ({**WHY, "windows": [{}], "to": AT}, "one_or_the_other", "/to"),
]


@ON_ONE_ENGINE
def test_errors_are_named_by_code_and_pointer(service: Service) -> None:
    service.ingest(failing_job())
    cases = [(OF_FIRST, *case) for case in BAD_VERDICTS]
    cases += [(EXCLUSION, *case) for case in BAD_EXCLUSIONS]
    for path, body, code, pointer in cases:
        problem = put(service, path, body, 422)
        assert problem["errors"] == [{"code": code, "pointer": pointer}], body
    assert service.get(HISTORY)["corrections"] == []


@ON_ONE_ENGINE
def test_an_unknown_cause_is_answered_with_the_known_ones(service: Service) -> None:
    service.ingest(failing_job())
    problem = put(service, OF_FIRST, {**VERDICT, "cause": "ghosts"}, 422)
    assert problem["detail"].startswith("cause is one of: gpu_hardware, gpu_memory, ")


@ON_ONE_ENGINE
def test_what_is_not_there_cannot_be_corrected(service: Service) -> None:
    service.ingest(failing_job())
    for path in (
        "/v1/jobs/nothing/attempts/0/verdict",
        "/v1/jobs/llm-70b/attempts/2/verdict",
        "/v1/jobs/%00/attempts/0/verdict",
    ):
        put(service, path, VERDICT, 404)
        assert take_back(service, path) == 404
    put(service, "/v1/jobs/nothing/exclusion", WHY, 404)
    assert take_back(service, "/v1/jobs/nothing/exclusion") == 404
    service.get("/v1/jobs/nothing/corrections", 404)
    for number in ("-1", "x", "99999999999"):
        put(service, f"/v1/jobs/llm-70b/attempts/{number}/verdict", VERDICT, 422)


@ON_ONE_ENGINE
def test_another_projects_job_looks_like_a_missing_one(service: Service) -> None:
    service.ingest(failing_job())
    foreign = service.key({"read", "write"}, project="other")
    for path, body in ((OF_FIRST, VERDICT), (EXCLUSION, WHY)):
        problem = put(service, path, body, 404, foreign)
        missing = put(service, path.replace("llm-70b", "nothing"), body, 404, foreign)
        assert problem["detail"] == missing["detail"] == "No such job."
    assert service.get(HISTORY)["corrections"] == []


@ON_ONE_ENGINE
def test_an_administrator_corrects_in_the_project_that_it_names(service: Service) -> None:
    service.ingest(failing_job())
    admin = service.key({"admin"}, project="operators")
    put(service, f"{EXCLUSION}?project=research", WHY, key=admin)
    assert service.get("/v1/jobs/llm-70b")["exclusions"] != []

    writer = service.key({"write"}, project="operators")
    problem = put(service, f"{EXCLUSION}?project=research", WHY, 404, writer)
    assert problem["detail"] == "No such project."


def test_a_deleted_job_is_gone_and_comes_again_anew(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    events = failing_job()
    service.ingest(events)
    service.ingest(failing_job("llm-7b"))
    before = service.get(JOB)

    with caplog.at_level(logging.INFO):
        answer = service.client.delete(JOB)

    assert answer.status_code == 200
    assert answer.json() == {
        "job": "llm-70b",
        "deleted": True,
        "events": len(events),
        "attempts": 2,
        "corrections": 0,
    }
    (record,) = [each for each in caplog.records if getattr(each, "event", "") == "admin_act"]
    assert record.__dict__["action"] == "job_deleted"
    for path in ("", "/ledger", "/events", "/stages", "/trace", "/corrections"):
        service.get(JOB + path, 404)
    assert [job["job"] for job in service.get("/v1/jobs")["jobs"]] == ["llm-7b"]
    assert service.client.delete(JOB).status_code == 404

    service.clock.now_us += 1
    service.ingest(events)
    assert service.get(JOB) == before
    assert all(not verdict.differences for verdict in verify(service.store))


@ON_ONE_ENGINE
def test_a_dry_run_lists_what_would_be_deleted_and_keeps_it(service: Service) -> None:
    service.ingest(failing_job())
    answer = service.client.delete(JOB, params={"dry_run": True})
    assert (answer.json()["deleted"], answer.json()["attempts"]) == (False, 2)
    service.get(JOB)
    assert service.client.delete("/v1/jobs/nothing", params={"dry_run": 1}).status_code == 404
    assert service.client.delete(JOB, params={"dry_run": "perhaps"}).status_code == 422
    assert service.client.delete(JOB, params={"dryrun": "1"}).status_code == 422
    service.get(JOB)


@ON_ONE_ENGINE
def test_only_an_administrator_deletes_and_names_another_project(service: Service) -> None:
    service.ingest(failing_job())
    for scope, project, status in (
        ("write", "research", 403),
        ("admin", "operators", 404),
        ("admin", "research", 200),
    ):
        key = {"Authorization": f"Bearer {service.key({scope}, project=project)}"}
        assert service.client.delete(JOB, headers=key).status_code == status
    service.clock.now_us += 1
    service.ingest(failing_job())
    admin = {"Authorization": f"Bearer {service.key({'admin'}, project='operators')}"}
    answer = service.client.delete(JOB, params={"project": "research"}, headers=admin)
    assert answer.status_code == 200
