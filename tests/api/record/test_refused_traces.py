"""Spans that are refused, and what exporters are answered."""

import gzip
import json

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from ett_service.storage.engine.errors import StorageUnavailable
from tests.api.record.test_traces import (
    BLOCK,
    JOB,
    LIFE,
    STARTUP,
    categories,
    events_of,
    export,
    read_answer,
    told,
)
from tests.builders import otlp
from tests.builders.databases.engines import ON_ONE_ENGINE
from tests.builders.otlp import JSON, PROTOBUF, Sent
from tests.builders.servers.application import Service


def test_bad_spans_are_counted_and_the_others_stand(service: Service) -> None:
    sent = otlp.request(JOB, LIFE)
    spans = sent.resource_spans[0].scope_spans[0].spans
    spans.add(trace_id=b"short", span_id=b"12345678", name=BLOCK, start_time_unix_nano=1)
    spans.add(trace_id=bytes(16), span_id=b"12345678", name=BLOCK, start_time_unix_nano=1)
    spans.add(trace_id=b"1" * 16, span_id=b"12345678", name=BLOCK)
    sent.MergeFrom(otlp.request(JOB, [Sent(BLOCK, 1e9, 1e9 + 1, number=77)]))
    sent.MergeFrom(otlp.request({"service.name": "unknown_service:python"}, [Sent(BLOCK, 0, 1)]))
    sent.MergeFrom(otlp.request(JOB, [Sent("x", 0, 1, {"ett.phase": "lunch"}, number=78)]))
    answer = service.client.post("/v1/traces", content=sent.SerializeToString(), headers=PROTOBUF)
    partial = read_answer(answer.content).partial_success
    assert (answer.status_code, partial.rejected_spans) == (200, 6)
    assert partial.error_message == (
        "bad_id: 2, missing_member: 1, no_job: 1, timestamp_out_of_range: 1, unknown_phase: 1"
    )
    service.settle()
    assert categories(service)["effective_training"] == 80.0


@ON_ONE_ENGINE
def test_a_span_whose_content_changed_is_rejected_and_the_first_stays(service: Service) -> None:
    export(service, JOB, [Sent(STARTUP, 0, 60)])
    partial = export(service, JOB, [Sent(STARTUP, 0, 50)]).partial_success
    assert (partial.rejected_spans, partial.error_message) == (1, "conflict: 1")
    assert categories(service) == {"launcher_init": 60.0}


@ON_ONE_ENGINE
@pytest.mark.parametrize("wrong", ["traceId", "startTimeUnixNano", "name", "attributes"])
def test_a_bad_span_in_json_is_counted_and_the_others_stand(service: Service, wrong: str) -> None:
    sent = otlp.in_json(JOB, LIFE)
    bad = otlp.in_json(JOB, [Sent(BLOCK, 170, 180, number=99)])["resourceSpans"][0]["scopeSpans"][0]
    bad["spans"][0][wrong] = {"deep": "wrong"} if wrong in ("name", "attributes") else "-1"
    sent["resourceSpans"][0]["scopeSpans"].append(bad)
    answer = service.client.post("/v1/traces", json=sent)
    assert (answer.status_code, answer.json()["partialSuccess"]["rejectedSpans"]) == (200, "1")
    service.settle()
    assert categories(service)["effective_training"] == 80.0


@ON_ONE_ENGINE
def test_deep_json_loses_nothing_of_the_rest(service: Service) -> None:
    deep = '{"kvlistValue":{"values":[{"key":"k","value":' * 3000 + "{}" + "}]}}" * 3000
    key = f'{{"key":"bomb","value":{deep}}},'
    body = otlp.json_body(JOB, LIFE[2:])
    body = body.replace(b'"attributes": [', b'"attributes": [' + key.encode(), 2)
    answer = service.client.post(
        "/v1/traces", content=gzip.compress(body), headers={**JSON, "Content-Encoding": "gzip"}
    )
    assert (answer.status_code, answer.json()) == (200, {})
    service.settle()
    assert categories(service)["effective_training"] == 80.0
    assert told(service)[0]["at"] == "2026-03-01T12:01:40.000000Z"


@ON_ONE_ENGINE
def test_a_thousand_attributes_on_a_span_are_no_reason_to_lose_it(service: Service) -> None:
    bomb: dict[str, otlp.Value] = {f"user.{number}": "x" * 20 for number in range(1000)}
    export(service, JOB, [Sent(BLOCK, 0, 10, {**bomb, "dl.iteration": 3})])
    (attempt,) = service.get("/v1/jobs/llm-70b")["attempts"]
    assert attempt["last_step"] == 3


STATUSES = {
    "malformed": (b"\xff\xff", PROTOBUF, 400),
    "no JSON": (b"{", JSON, 400),
    "no UTF-8": (b'{"resourceSpans": "\xff"}', JSON, 400),
    "no such media": (b"", {"Content-Type": "text/plain"}, 415),
    "no gzip": (b"{}", {**JSON, "Content-Encoding": "gzip"}, 400),
    "no such encoding": (b"{}", {**JSON, "Content-Encoding": "br"}, 415),
    "too large": (b" " * 300_000, JSON, 413),
    "too large inflated": (
        gzip.compress(b" " * 500_000),
        {**JSON, "Content-Encoding": "gzip"},
        413,
    ),
    "too many": (otlp.protobuf(JOB, [Sent("x", 0, 1)] * 201), PROTOBUF, 413),
}


@ON_ONE_ENGINE
@pytest.mark.parametrize("case", STATUSES)
def test_a_refused_request_is_answered_by_the_status_of_otlp(service: Service, case: str) -> None:
    body, headers, status = STATUSES[case]
    answer = service.client.post("/v1/traces", content=body, headers=headers)
    assert answer.status_code == status
    if headers["Content-Type"] == "application/json":
        assert list(answer.json()) == ["message"]
    else:
        assert answer.headers["content-type"] == "application/x-protobuf"
        assert answer.content[0] == 0x12
        assert answer.content[2:].decode().isprintable()


def _delimited(field: int, content: bytes) -> bytes:
    length = len(content)
    written = bytearray()
    while length > 0x7F:
        written.append(length & 0x7F | 0x80)
        length >>= 7
    return bytes((field << 3 | 2, *written, length)) + content


BOMBS = {
    "groups": b"\x0a\x00" * 100_000,
    "scopes": _delimited(1, b"\x12\x00" * 100_000),
    "spans": _delimited(1, _delimited(2, b"\x12\x00" * 100_000)),
}


@ON_ONE_ENGINE
@pytest.mark.parametrize("case", BOMBS)
def test_empty_messages_are_refused_before_they_fill_the_memory(
    service: Service, case: str
) -> None:
    headers = {**PROTOBUF, "Content-Encoding": "gzip"}
    answer = service.client.post("/v1/traces", content=gzip.compress(BOMBS[case]), headers=headers)
    assert answer.status_code == 413


@ON_ONE_ENGINE
def test_a_span_that_is_too_large_or_garbled_is_counted_and_the_others_stand(
    service: Service,
) -> None:
    bomb = _delimited(2, b"\x4a\x00" * 150_000)
    garbled = _delimited(2, b"\x0a\xff")
    body = otlp.protobuf(JOB, LIFE) + _delimited(1, _delimited(2, bomb + garbled))
    headers = {**PROTOBUF, "Content-Encoding": "gzip"}
    answer = service.client.post("/v1/traces", content=gzip.compress(body), headers=headers)
    partial = read_answer(answer.content).partial_success
    assert (partial.rejected_spans, partial.error_message) == (2, "too_large: 1, wrong_type: 1")
    service.settle()
    assert categories(service)["effective_training"] == 80.0


@ON_ONE_ENGINE
def test_a_resource_that_cannot_be_read_costs_its_own_spans_only(service: Service) -> None:
    spans = _delimited(
        2, _delimited(2, Sent(BLOCK, 0, 10, number=90).protobuf().SerializeToString())
    )
    bomb = _delimited(1, _delimited(1, b"\x0a\x00" * 150_000) + spans)
    garbled = _delimited(1, _delimited(1, b"\x0a\xff") + spans + spans)
    headers = {**PROTOBUF, "Content-Encoding": "gzip"}
    body = gzip.compress(bomb + otlp.protobuf(JOB, LIFE) + garbled)
    answer = service.client.post("/v1/traces", content=body, headers=headers)
    partial = read_answer(answer.content).partial_success
    assert (answer.status_code, partial.rejected_spans) == (200, 3)
    assert partial.error_message == "wrong_type: 2, too_large: 1"
    service.settle()
    assert categories(service)["effective_training"] == 80.0


@ON_ONE_ENGINE
@pytest.mark.parametrize(
    "attribute", ['{"key": 5}', '{"key": "k", "value": "v"}', '"k"', "long", "deep"]
)
def test_an_odd_resource_in_json_costs_its_own_spans_only(service: Service, attribute: str) -> None:
    long = json.dumps({"key": "k", "value": {"stringValue": "v" * 300_000}})
    deep = '{"key": "k", "value": ' + '{"arrayValue": ' * 9000 + "{}" + "}" * 9001
    odd = otlp.json_body({}, [Sent(BLOCK, 0, 10, number=90)]).decode()
    sent = {"long": long, "deep": deep}.get(attribute, attribute)
    odd = odd.replace('{"attributes": []}', f'{{"attributes": [{sent}]}}', 1)
    groups = odd.removesuffix("]}") + ", " + otlp.json_body(JOB, LIFE).decode().split("[", 1)[1]
    headers = {**JSON, "Content-Encoding": "gzip"}
    answer = service.client.post(
        "/v1/traces", content=gzip.compress(groups.encode()), headers=headers
    )
    assert (answer.status_code, answer.json()["partialSuccess"]["rejectedSpans"]) == (200, "1")
    service.settle()
    assert categories(service)["effective_training"] == 80.0


@ON_ONE_ENGINE
def test_a_key_that_may_not_write_is_refused_in_the_format_of_the_request(service: Service) -> None:
    body = otlp.protobuf(JOB, LIFE)
    for key, status in ((service.key(["read"]), 403), ("nonsense", 401)):
        headers = {**PROTOBUF, "Authorization": f"Bearer {key}"}
        answer = service.client.post("/v1/traces", content=body, headers=headers)
        assert (answer.status_code, answer.content[0]) == (status, 0x12)
    answer = service.client.post("/v1/traces", json={}, headers={"Authorization": "Bearer x"})
    assert (answer.status_code, list(answer.json())) == (401, ["message"])


@ON_ONE_ENGINE
def test_an_exporter_reads_when_to_try_again(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise StorageUnavailable("gone")

    monkeypatch.setattr(service.store, "submit", fail)
    answer = service.client.post("/v1/traces", content=otlp.protobuf(JOB, LIFE), headers=PROTOBUF)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")


@ON_ONE_ENGINE
def test_an_empty_export_is_well(service: Service) -> None:
    assert export(service, JOB, []) == ExportTraceServiceResponse()
    answer = service.client.post("/v1/traces", content=b"", headers=PROTOBUF)
    assert (answer.status_code, answer.content) == (200, b"")
    assert json.loads(service.client.post("/v1/traces", json={}).content) == {}


def test_the_same_job_id_of_another_cluster_is_rejected(service: Service) -> None:
    def resource(cluster: str) -> dict[str, otlp.Value]:
        return {"slurm.job.id": "8041", "slurm.cluster.name": cluster}

    assert export(service, resource("alpha"), LIFE[:4]) == ExportTraceServiceResponse()
    before = events_of(service, "slurm-8041")
    answer = export(service, resource("beta"), LIFE[4:])
    assert answer.partial_success.rejected_spans == 3
    assert answer.partial_success.error_message == "other_cluster: 3"
    assert events_of(service, "slurm-8041") == before
    named = {**resource("beta"), "ett.job": "beta-8041"}
    assert export(service, named, LIFE[4:]) == ExportTraceServiceResponse()
    assert len(service.get("/v1/jobs/beta-8041")["attempts"]) == 1
