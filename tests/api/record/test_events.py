"""Events over HTTP: what is accepted, every refusal with its status and code, and the list."""

import csv
import gzip
import io
import json
import logging
from typing import Any

import pytest
import zstandard
from sqlalchemy import Connection, update

from ett_service.core.intervals import rfc3339
from ett_service.ingest.refusals import Code
from ett_service.storage import schema
from ett_service.storage.engine.errors import StorageUnavailable
from ett_service.storage.engine.store import open_store
from ett_service.storage.jobs import listing
from ett_service.storage.record import events as stored_events
from ett_service.storage.record.dirty_marks import JobKey
from tests.builders.clock import NOON
from tests.builders.databases.engines import ON_ONE_ENGINE
from tests.builders.jobs import at, failing_job, wire_event
from tests.builders.ledgers import accept
from tests.builders.record import progress, wire
from tests.builders.servers.application import LIMITS, Service, running

JSON = {"Content-Type": "application/json"}
EVENTS = "/v1/jobs/llm-70b/events"
NDJSON = {"Content-Type": "application/x-ndjson"}


def _post(service: Service, body: bytes, headers: dict[str, str]) -> tuple[int, dict[str, Any]]:
    answer = service.client.post("/v1/events", content=body, headers=headers)
    if answer.status_code >= 400:
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["status"] == answer.status_code
    return answer.status_code, answer.json()


def test_what_is_acknowledged_is_stored(service: Service) -> None:
    answer = service.send(failing_job(), batch_id="b-1")
    with service.store.reading() as conn:
        epoch = stored_events.store_epoch(conn)
        project_id = listing.project_id(conn, "research")
        assert project_id is not None
        stored = stored_events.events(conn, project_id, "llm-70b")
    assert answer.json() == {
        "batch_id": "b-1",
        "store_epoch": epoch,
        "accepted": 23,
        "duplicate": 0,
        "rejected": 0,
        "errors": [],
    }
    assert {event.id for event in stored} == {event["id"] for event in failing_job()}


def test_a_batch_sent_again_is_all_duplicates_and_changes_nothing(service: Service) -> None:
    service.ingest(failing_job())
    before = service.get("/v1/jobs/llm-70b")
    again = service.send(failing_job()).json()
    assert (again["accepted"], again["duplicate"]) == (0, 23)
    assert service.worker.run_once() == 0
    assert service.get("/v1/jobs/llm-70b") == before


def test_the_good_events_of_a_batch_with_a_bad_one_stand(service: Service) -> None:
    answer = service.send([wire_event("heartbeat", 0), {**wire_event("heartbeat", 1), "at": 17}])
    assert answer.status_code == 200
    body = answer.json()
    assert (body["accepted"], body["rejected"]) == (1, 1)
    (error,) = body["errors"]
    assert (error["index"], error["code"], error["pointer"]) == (1, "wrong_type", "/events/1/at")
    assert error["id"] == wire_event("heartbeat", 1)["id"]


def test_the_same_id_with_other_content_is_a_conflict_and_the_first_stays(
    service: Service,
) -> None:
    service.ingest([{**wire_event("heartbeat", 0), "id": "e"}, wire_event("heartbeat", 5)])
    answer = service.send([{**wire_event("heartbeat", 1), "id": "e"}, wire_event("heartbeat", 5)])
    assert answer.status_code == 200
    assert answer.json()["errors"] == [
        {"index": 0, "id": "e", "code": "conflict", "pointer": "/events/0/id"}
    ]
    events = service.get("/v1/jobs/llm-70b/events")["events"]
    assert events[0]["at"] == wire_event("heartbeat", 0)["at"]


def test_an_empty_batch_is_taken(service: Service) -> None:
    answer = service.send([])
    assert (answer.status_code, answer.json()["accepted"]) == (200, 0)


def test_one_event_a_line_with_headers_around_it(service: Service) -> None:
    lines = b"\n".join(json.dumps(event).encode() for event in failing_job()) + b"\n"
    headers = {**NDJSON, "ETT-Batch-Id": "b-2", "ETT-History": "true", "ETT-Producer": "p"}
    status, body = _post(service, lines, headers)
    assert (status, body["batch_id"], body["accepted"]) == (200, "b-2", 23)
    service.settle()
    assert service.get("/v1/jobs/llm-70b")["e2e_seconds"] == 3720.0


def test_compressed_bodies_are_inflated(service: Service) -> None:
    plain = json.dumps({"events": failing_job()}).encode()
    bodies = {"gzip": gzip.compress(plain), "zstd": zstandard.compress(plain)}
    counts = [
        _post(service, body, {**JSON, "Content-Encoding": encoding})[1]["accepted"]
        for encoding, body in bodies.items()
    ]
    assert counts == [23, 0]


def test_the_project_comes_from_the_key_and_never_from_the_body(service: Service) -> None:
    assert service.send([wire_event("heartbeat", 0)], project="other").status_code == 422
    assert service.send([wire_event("heartbeat", 0, project="other")]).status_code == 422
    answer = service.client.post("/v1/events?project=other", json={"events": []})
    assert answer.json()["errors"] == [
        {"code": "unknown_parameter", "pointer": "/query/project", "allowed": []}
    ]


GOOD = json.dumps({"events": [wire()]}).encode()


def _with(**members: Any) -> bytes:
    return json.dumps({"events": [wire(**members)]}).encode()


def _nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


REFUSED_REQUESTS: dict[str, tuple[bytes, dict[str, str], int, str]] = {
    "nothing": (b"", JSON, 400, "malformed-json"),
    "half": (GOOD[:-1], JSON, 400, "malformed-json"),
    "more behind it": (GOOD + b"{}", JSON, 400, "malformed-json"),
    "not a number": (b'{"events": [], "dropped": {"x": NaN}}', JSON, 400, "malformed-json"),
    "no JSON a line": (b"a\nb\n", NDJSON, 400, "malformed-json"),
    "not UTF-8": (b'{"events": ["\xff"]}', JSON, 400, "bad-encoding"),
    "not gzip": (GOOD, {**JSON, "Content-Encoding": "gzip"}, 400, "bad-encoding"),
    "half of a gzip": (
        gzip.compress(GOOD, mtime=0)[:-9],
        {**JSON, "Content-Encoding": "gzip"},
        400,
        "bad-encoding",
    ),
    "more behind the gzip": (
        gzip.compress(GOOD, mtime=0) + b"x",
        {**JSON, "Content-Encoding": "gzip"},
        400,
        "bad-encoding",
    ),
    "not zstd": (GOOD, {**JSON, "Content-Encoding": "zstd"}, 400, "bad-encoding"),
    "two encodings": (GOOD, {**JSON, "Content-Encoding": "gzip, gzip"}, 415, "unsupported-media"),
    "another encoding": (GOOD, {**JSON, "Content-Encoding": "br"}, 415, "unsupported-media"),
    "another type": (GOOD, {"Content-Type": "text/plain"}, 415, "unsupported-media"),
    "no type": (GOOD, {}, 415, "unsupported-media"),
    "too long": (b" " * (LIMITS.max_body_bytes + 1), JSON, 413, "too-large"),
    "a bomb": (
        gzip.compress(b" " * (LIMITS.max_inflated_bytes + 1), mtime=0),
        {**JSON, "Content-Encoding": "gzip"},
        413,
        "too-large",
    ),
    "too many events": (
        json.dumps({"events": [wire()] * (LIMITS.max_batch_events + 1)}).encode(),
        JSON,
        413,
        "too-large",
    ),
    "a list": (b"[]", JSON, 422, "validation-failed"),
    "no events": (b"{}", JSON, 422, "validation-failed"),
    "an unknown member": (b'{"events": [], "evil": 1}', JSON, 422, "validation-failed"),
    "a bad sent_at": (b'{"events": [], "sent_at": "now"}', JSON, 422, "validation-failed"),
}


@ON_ONE_ENGINE
@pytest.mark.parametrize("case", REFUSED_REQUESTS)
def test_a_request_is_refused_as_a_whole(service: Service, case: str) -> None:
    body, headers, status, kind = REFUSED_REQUESTS[case]
    got, problem = _post(service, body, headers)
    assert (got, problem["type"]) == (status, f"urn:ett-service:problem:{kind}")
    assert problem["detail"]
    assert "evil" not in problem["detail"]
    if status == 413:
        assert problem["limit"] > 0


REFUSED_EVENTS: dict[str, tuple[bytes, str, str]] = {
    "unknown type": (_with(type="nap"), "unknown_type", "/type"),
    "unknown phase": (_with(type="phase_started", phase="evil"), "unknown_phase", "/phase"),
    "unknown outcome": (_with(type="job_ended", outcome="lost"), "unknown_value", "/outcome"),
    "unknown member": (_with(step=1), "unknown_member", "/step"),
    "missing member": (_with(type="progress"), "missing_member", "/step"),
    "no job": (b'{"events": [{"type": "heartbeat", "at": "2026-03-01T12:00:00Z"}]}',
               "missing_member", "/job"),
    "a slash in the job": (_with(job="a/b"), "bad_job", "/job"),
    "a dot as the job": (_with(job=".."), "bad_job", "/job"),
    "a control in the job": (_with(job="a\x00"), "bad_job", "/job"),
    "a long job": (_with(job="j" * 201), "bad_job", "/job"),
    "a bad id": (_with(id="a b"), "bad_id", "/id"),
    "a long id": (_with(id="i" * 65), "bad_id", "/id"),
    "a number as instant": (_with(at=1772366400), "wrong_type", "/at"),
    "a word as instant": (_with(at="evil"), "bad_timestamp", "/at"),
    "no offset": (_with(at="2026-03-01T12:00:00"), "timestamp_without_offset", "/at"),
    "nanoseconds": (_with(at="2026-03-01T12:00:00.123456789Z"), "bad_timestamp", "/at"),
    "the far future": (_with(at="2026-03-03T12:00:00Z"), "timestamp_out_of_range", "/at"),
    "the far past": (_with(at="0001-01-01T00:00:00Z"), "timestamp_out_of_range", "/at"),
    "a negative attempt": (_with(attempt=-1), "out_of_range", "/attempt"),
    "a boolean attempt": (_with(attempt=True), "wrong_type", "/attempt"),
    "a text attempt": (_with(attempt="1"), "wrong_type", "/attempt"),
    "a huge step": (_with(type="progress", step=2**53), "out_of_range", "/step"),
    "too large": (_with(attributes={"a": "x" * 20_000}), "too_large", ""),
    "too deep": (_with(attributes={"a": _nested(12)}), "too_deep", "/attributes"),
    "no object": (b'{"events": [null]}', "wrong_type", ""),
}  # fmt: skip


@ON_ONE_ENGINE
@pytest.mark.parametrize("case", REFUSED_EVENTS)
def test_a_batch_of_which_no_event_stands_is_422_with_a_code_and_a_pointer(
    service: Service, case: str
) -> None:
    body, code, pointer = REFUSED_EVENTS[case]
    status, problem = _post(service, body, JSON)
    assert (status, problem["accepted"], problem["rejected"]) == (422, 0, 1)
    (error,) = problem["errors"]
    assert error["index"] == 0
    assert error["code"] == code
    assert error["pointer"].startswith(f"/events/0{pointer}")
    assert next(each.sentence for each in Code if each == code) in problem["detail"]
    assert (", train_loop, " in problem["detail"]) == (code == "unknown_phase")
    assert (", phase_started, " in problem["detail"]) == (code == "unknown_type")
    assert "evil" not in json.dumps(problem)


def test_text_that_holds_a_crash_log_is_mended_and_not_refused(service: Service) -> None:
    body = (
        b'{"events": [{"type": "attempt_ended", "job": "llm-70b", "at": "2026-03-01T12:00:00Z",'
        b' "outcome": "failed", "message": "Segfault\\u0000 at \\ud800\\u001b[31m"}]}'
    )
    assert _post(service, body, JSON)[0] == 200
    (event,) = service.get("/v1/jobs/llm-70b/events")["events"]
    assert event["message"] == "Segfault\ufffd at \ufffd\ufffd[31m"


@ON_ONE_ENGINE
def test_the_key_is_checked_before_the_body_is_read(service: Service) -> None:
    huge = b"x" * (LIMITS.max_body_bytes + 1)
    answer = service.client.post(
        "/v1/events", content=huge, headers={"Authorization": "Bearer ett_wrong"}
    )
    assert answer.status_code == 401


@ON_ONE_ENGINE
def test_a_body_without_a_length_is_cut_off_at_the_limit(service: Service) -> None:
    piece = io.BytesIO(b" " * (LIMITS.max_body_bytes + 1))
    answer = service.client.post("/v1/events", content=iter(lambda: piece.read(4096), b""))
    assert answer.status_code == 413


@ON_ONE_ENGINE
def test_methods_that_are_not_there_are_405(service: Service) -> None:
    answer = service.client.put("/v1/events")
    assert answer.status_code == 405
    assert answer.headers["allow"] == "POST"
    assert answer.headers["content-type"] == "application/problem+json"


@ON_ONE_ENGINE
def test_a_closed_store_is_503_with_a_time_to_wait(database_url: str) -> None:
    with running(open_store(database_url)) as service:
        service.store.close()
        with pytest.raises(StorageUnavailable):
            service.store.write(lambda _: None)
        answer = service.send([wire_event("heartbeat", 0)])
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")


def test_events_that_a_sender_dropped_are_logged(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "ett_service.api.record.events"):
        service.send(failing_job(), dropped={"spool_full": 7})
        service.send(failing_job())
    (record,) = caplog.records

    assert record.__dict__["dropped"] == {"spool_full": 7}


def test_events_come_back_with_their_members_and_when_they_came(service: Service) -> None:
    event = wire_event("span", 3, phase="launcher_init", stage="pre_train", start=at(1), rank=0)
    service.ingest([event])
    page = service.get(EVENTS)
    received = {"received_at": rfc3339(service.clock.now_us), "attempt": 0}
    sent = {name: value for name, value in event.items() if name != "job"}
    assert page == {"job": "llm-70b", "events": [{**sent, **received}], "next_cursor": None}


def test_an_event_whose_content_is_damaged_is_named_beside_the_others(service: Service) -> None:
    service.ingest([wire(at=at(minute), id=f"beat-{minute}") for minute in range(3)])
    readable = service.get(EVENTS)["events"]
    damaged = update(schema.event).where(schema.event.c.id == "beat-1").values(body="{")
    service.store.write(lambda conn: conn.execute(damaged))

    events = service.get(EVENTS)["events"]
    rows = list(csv.DictReader(io.StringIO(service.client.get(EVENTS + "?format=csv").text)))
    trace = service.get("/v1/jobs/llm-70b/trace", 500)

    assert events[::2] == readable[::2]
    why = events[1].pop("unreadable")
    assert why.startswith("Input data was truncated")
    assert events[1] == {name: readable[1][name] for name in ("type", "id", "at", "received_at")}
    assert [(row["id"], row["unreadable"]) for row in rows] == [
        ("beat-0", ""),
        ("beat-1", why),
        ("beat-2", ""),
    ]
    assert trace["detail"].startswith("Event 'beat-1' of job 'llm-70b' cannot be read")


def test_an_offset_from_utc_comes_back_as_utc(service: Service) -> None:
    service.ingest([{**wire_event("heartbeat", 0), "at": "2026-03-01T13:00:00.5+01:00"}])
    assert service.get(EVENTS)["events"][0]["at"] == "2026-03-01T12:00:00.500000Z"


@pytest.mark.parametrize("limit", [1, 7, 22, 23, 24])
def test_pages_of_events_hold_each_event_once_in_order(service: Service, limit: int) -> None:
    sent = failing_job()
    service.ingest(sent)
    page = service.get(EVENTS, limit=limit)
    events = page["events"]
    while page["next_cursor"]:
        page = service.get(EVENTS, limit=limit, cursor=page["next_cursor"])
        assert page["events"]
        events += page["events"]
    assert {event["id"] for event in events} == {event["id"] for event in sent}
    assert len(events) == len(sent)
    assert [event["at"] for event in events] == sorted(event["at"] for event in events)


@pytest.mark.parametrize("cursor", ["abc", "WzEsMl0", "eA", "bnVsbA"])
def test_a_cursor_that_is_none_is_refused(service: Service, cursor: str) -> None:
    service.ingest([wire_event("heartbeat", 0)])
    assert service.get(EVENTS, 422, cursor=cursor)["errors"][0]["code"] == "bad_cursor"


@ON_ONE_ENGINE
def test_a_page_of_large_events_ends_at_8_mib_and_the_next_one_goes_on(service: Service) -> None:
    large = [progress(step, NOON + step, attributes={"a": "x" * 200_000}) for step in range(1, 51)]

    def write(conn: Connection) -> None:
        project_id = listing.project_id(conn, "research")
        assert project_id is not None
        accept(conn, JobKey(project_id, "large"), large)

    service.store.write(write)
    first = service.get("/v1/jobs/large/events", limit=10_000)
    rest = service.get("/v1/jobs/large/events", limit=10_000, cursor=first["next_cursor"])

    assert len(first["events"]) == 8 * (1 << 20) // 200_000
    assert rest["next_cursor"] is None
    assert [each["step"] for each in first["events"] + rest["events"]] == list(range(1, 51))
