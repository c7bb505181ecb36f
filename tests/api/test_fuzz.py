"""Nothing that a client can send makes the service fail: never a 5xx, whatever comes."""

import json
import string
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ett_service.core.events import EVENT_TYPES
from tests.builders import otlp
from tests.builders.jobs import failing_job
from tests.builders.otlp import Sent, numbered
from tests.builders.servers.application import Service

DESCRIPTION = Path(__file__).parents[2] / "docs" / "openapi.json"

QUIET = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)

texts = st.text(max_size=12) | st.sampled_from(
    ["\x00", "\ud800", "..", "a/b", "\u202e", "1e999", "-1", "9" * 30, "'; DROP TABLE job; --", "%"]
)
leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | texts
    | st.sampled_from(["2026-03-01T12:00:00Z", "2026-02-30T00:00:00Z", "9999-12-31T23:59:59Z"])
)
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3)
)
members = st.sampled_from(
    ["type", "job", "at", "id", "launch", "attempt", "cycle", "rank", "producer", "mono_us",
     "attributes", "phase", "stage", "start", "step", "outcome", "signal", "gpus", "labels",
     "message", "submitted_at"]
)  # fmt: skip


def _near(kind: str, changes: dict[str, Any]) -> dict[str, Any]:
    return {"type": kind, "job": "llm-70b", "at": "2026-03-01T12:00:00Z", **changes}


near_events = st.builds(
    _near, st.sampled_from(sorted(EVENT_TYPES)), st.dictionaries(members, values, max_size=4)
)
good_members = st.fixed_dictionaries(
    {},
    optional={
        "mono_us": st.integers(-(2**53) + 1, 2**53 - 1),
        "producer": st.sampled_from(["p", "q"]),
        "rank": st.integers(0, 2**31 - 1),
        "attempt": st.integers(0, 2**31 - 1),
        "cycle": st.integers(0, 2**31 - 1),
        "at": st.sampled_from(
            ["1970-01-01T00:00:00Z", "2026-03-02T11:00:00Z", "2026-03-01T12:00:00.5+14:00"]
        ),
    },
)
good_kinds = st.sampled_from(
    [
        {"type": "attempt_started", "gpus": 1_000_000},
        {"type": "job", "gpus": 1_000_000},
        {"type": "progress", "step": 2**53 - 1},
        {"type": "phase_started", "phase": "train_loop"},
        {"type": "attempt_ended", "outcome": "failed"},
        {"type": "heartbeat"},
    ]
)


def _good(kind: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    return {"job": "llm-70b", "at": "2026-03-01T12:00:00Z", **kind, **changes}


good_events = st.builds(_good, good_kinds, good_members)
sent_at = st.sampled_from(
    [None, "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2026-03-01T13:00:00Z"]
)


def _post(service: Service, body: bytes, **headers: str) -> int:
    sent = {"Content-Type": "application/json", **headers}
    answer = service.client.post("/v1/events", content=body, headers=sent)
    assert answer.status_code < 500, answer.text
    return answer.status_code


@QUIET
@given(st.lists(near_events, max_size=4), st.dictionaries(texts, values, max_size=2))
def test_no_batch_of_almost_events_makes_it_fail(
    service: Service, events: list[dict[str, Any]], around: dict[str, Any]
) -> None:
    _post(service, json.dumps({**around, "events": events}).encode())
    service.settle()


@QUIET
@given(st.binary(max_size=200) | values.map(lambda value: json.dumps(value).encode()), texts)
def test_no_body_and_no_encoding_makes_it_fail(service: Service, body: bytes, word: str) -> None:
    plain = "".join(letter for letter in word if letter in string.printable[:94])
    _post(service, body)
    _post(service, body, **{"Content-Encoding": "gzip"})
    _post(service, body, **{"Content-Type": f"application/x-ndjson; {plain}"})


@settings(QUIET, max_examples=12)
@given(st.lists(good_events, min_size=1, max_size=6), sent_at)
def test_every_page_of_a_job_can_be_read_whatever_was_sent(
    service: Service, events: list[dict[str, Any]], sent: str | None
) -> None:
    around = {"producer": "p"} if sent is None else {"producer": "p", "sent_at": sent}
    _post(service, json.dumps({"events": events, **around}).encode())
    service.settle()
    for path in ("", "/ledger", "/events", "/stages", "/ranks", "/trace"):
        assert service.client.get(f"/v1/jobs/llm-70b{path}").status_code == 200
    for path, form in (("summary", "parquet"), ("jobs/top", "json")):
        query = {"from": "1999-01-01T00:00:00Z", "format": form}
        assert service.client.get(f"/v1/fleet/{path}", params=query).status_code == 200
    assert service.client.get("/metrics").status_code == 200
    assert service.client.get("/v1/jobs").status_code == 200


SPANS = otlp.protobuf({"ett.job": "llm-70b"}, numbered(*[Sent("dl.training.iter_block", 0, 9)] * 3))
otlp_members = st.sampled_from(
    ["traceId", "spanId", "name", "startTimeUnixNano", "endTimeUnixNano", "attributes", "status",
     "events"]
)  # fmt: skip
named = st.sampled_from(
    ["ett.job", "ett.phase", "ett.stage", "ett.step", "ett.outcome", "dl.rank", "rl.bucket",
     "nemo.span.truncated", "slurm.job.id", "service.instance.id", "host.gpu.count"]
)  # fmt: skip
otlp_values = st.builds(
    lambda kind, value: {kind: value},
    st.sampled_from(["stringValue", "intValue", "doubleValue", "boolValue", "kvlistValue"]),
    leaves,
)
otlp_attributes = st.lists(
    st.builds(lambda key, value: {"key": key, "value": value}, named, otlp_values), max_size=3
)


def _export(service: Service, body: bytes, media: dict[str, str]) -> None:
    answer = service.client.post("/v1/traces", content=body, headers=media)
    assert answer.status_code in (200, 400, 413), answer.content


@QUIET
@given(otlp_attributes, otlp_attributes, st.dictionaries(otlp_members, values, max_size=2))
def test_no_span_in_json_makes_it_fail(
    service: Service,
    of_resource: list[dict[str, Any]],
    of_span: list[dict[str, Any]],
    changes: dict[str, Any],
) -> None:
    sent = otlp.in_json({"ett.job": "llm-70b"}, [Sent("rl.grpo.step", 0, 9, {"rl.step": 2})])
    (group,) = sent["resourceSpans"]
    group["resource"]["attributes"] += of_resource
    (span,) = group["scopeSpans"][0]["spans"]
    span["attributes"] += of_span
    span.update(changes)
    _export(service, json.dumps(sent).encode(), otlp.JSON)
    service.settle()


@QUIET
@given(st.integers(0, len(SPANS) - 1), st.binary(max_size=4))
def test_no_change_of_a_span_in_protobuf_makes_it_fail(
    service: Service, place: int, other: bytes
) -> None:
    _export(service, SPANS[:place] + other + SPANS[place + len(other) :], otlp.PROTOBUF)
    _export(service, SPANS[:place], otlp.PROTOBUF)
    service.settle()


bodies = st.dictionaries(
    st.sampled_from(
        ["at", "end", "kind", "title", "labels", "id", "cause", "origin", "why", "from", "to",
         "windows", "evil", "until", "cohort", "phase", "verdict"]
    ),
    values | st.sampled_from(["deploy", "network", "infra", "because", "real", "pt2_compile"]),
    max_size=6,
)  # fmt: skip


@QUIET
@given(
    st.sampled_from(
        [("POST", "/v1/markers"), ("PUT", "/v1/jobs/llm-70b/exclusion"),
         ("PUT", "/v1/jobs/llm-70b/attempts/0/verdict"), ("POST", "/v1/regressions/mutes"),
         ("POST", "/v1/regressions/x/triage"), ("POST", "/v1/regressions/x/mute")]
    ),
    bodies,
)  # fmt: skip
def test_nothing_that_people_say_makes_it_fail(
    service: Service, route: tuple[str, str], members: dict[str, Any]
) -> None:
    body, media = json.dumps(members), {"Content-Type": "application/json"}
    answer = service.client.request(*route, content=body, headers=media)
    assert answer.status_code in (200, 201, 400, 404, 409, 422), answer.text
    assert service.client.get("/v1/markers").status_code == 200


PLACES = {"job": "llm-70b", "number": 0, "attempt_id": "0-0", "regression_id": "x", "name": "x"}
DECLARED = {
    path.format_map(PLACES): [each["name"] for each in route["get"]["parameters"]]
    for path, route in json.loads(DESCRIPTION.read_text("utf-8"))["paths"].items()
    if any(each["in"] == "query" for each in route.get("get", {}).get("parameters", ()))
}
"""The parameters of each route that reads, those of its path among them."""

words = texts.filter(str.isascii) | st.sampled_from(
    ["0", "1", "9007199254740993", "-0.5", "nan", "true", "csv", "team", "team:", ":", "-job",
     "day", "e2e_seconds", "1d", "2026-03-01T12:00:00Z", "0001-01-01T00:00:00Z", "MQ", "WzEsMl0"]
)  # fmt: skip


@pytest.mark.parametrize("path", DECLARED)
def test_no_query_makes_it_fail(service: Service, path: str) -> None:
    service.ingest(failing_job())

    @settings(QUIET, max_examples=20)
    @given(st.dictionaries(st.sampled_from(DECLARED[path]), words, min_size=1, max_size=2))
    def check(query: dict[str, str]) -> None:
        answer = service.client.get(path, params=query)
        assert answer.status_code in (200, 404, 422), answer.text

    check()


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "PATCH", "OPTIONS", "TRACE", "DELETE"])
def test_no_method_makes_it_fail(service: Service, method: str) -> None:
    for path in ("/", "/v1/events", "/v1/jobs", "/v1/keys/x", "/metrics", "/docs", "/%00"):
        assert service.client.request(method, path).status_code < 500
