"""Spans over OTLP/HTTP: what is stored of them, and what exporters are answered."""

import gzip
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from ett_service.ingest.otlp.mapping import VERSION
from ett_service.storage.engine.errors import StorageUnavailable
from tests.builders import otlp
from tests.builders.databases.engines import ON_ONE_ENGINE
from tests.builders.otlp import JSON, PROTOBUF, Sent, numbered
from tests.builders.servers.application import Service

JOB: dict[str, otlp.Value] = {
    "ett.job": "llm-70b",
    "dl.rank": 0,
    "host.name": "n1",
    "service.instance.id": "i-1",
}
STARTUP, BLOCK = "nv.dl.training.startup", "nv.dl.training.iter_block"
LIFE = numbered(
    Sent(STARTUP, 0, 60),
    Sent("nv.dl.training.startup.model_init", 10, 40),
    Sent(BLOCK, 60, 100, {"nv.dl.training.step": 10}),
    Sent(BLOCK, 100, 160, {"nv.dl.training.step": 20}),
    Sent("nv.dl.training.checkpoint.exposed_save", 130, 150, {"nv.dl.training.step": 20}),
    Sent("nv.dl.training.checkpoint.save", 131, 149, {"nv.dl.training.step": 20}),
    Sent("nv.mlm.checkpoint.exit_finalize", 160, 170),
)


def _export(
    service: Service, resource: Mapping[str, otlp.Value], spans: Sequence[Sent]
) -> ExportTraceServiceResponse:
    body = otlp.protobuf(resource, spans)
    answer = service.client.post("/v1/traces", content=body, headers=PROTOBUF)
    assert answer.status_code == 200, answer.content
    assert answer.headers["content-type"] == "application/x-protobuf"
    service.settle()
    return _read(answer.content)


def _read(body: bytes) -> ExportTraceServiceResponse:
    answer = ExportTraceServiceResponse()
    answer.ParseFromString(body)
    return answer


def _events(service: Service, job: str = "llm-70b") -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = service.get(f"/v1/jobs/{job}/events")["events"]
    return listed


def _told(service: Service, job: str = "llm-70b") -> list[dict[str, Any]]:
    """The events, without what the process says of its job."""
    return [event for event in _events(service, job) if event["type"] != "job"]


def _categories(service: Service, job: str = "llm-70b") -> dict[str, float]:
    categories = service.get(f"/v1/jobs/{job}")["categories"]
    return {name: seconds for name, seconds in categories.items() if seconds}


def _stages(service: Service) -> dict[str, dict[str, Any]]:
    stages = service.get("/v1/jobs/llm-70b/stages")["stages"]
    return {each["stage"]: each for each in stages if each["stage"]}


def test_the_spans_of_a_run_become_its_ledger(service: Service) -> None:
    assert _export(service, JOB, LIFE) == ExportTraceServiceResponse()
    assert _categories(service) == {
        "launcher_init": 60.0,
        "effective_training": 80.0,
        "checkpoint_blocking": 20.0,
        "shutdown": 10.0,
    }
    (attempt,) = service.get("/v1/jobs/llm-70b")["attempts"]
    assert (attempt["outcome"], attempt["last_step"]) == ("completed", 20)
    assert attempt["unsaved_training_seconds"] == 0.0


def test_an_export_that_is_sent_again_stores_nothing_new(service: Service) -> None:
    _export(service, JOB, LIFE)
    before = (_events(service), service.get("/v1/jobs/llm-70b"))
    assert _export(service, JOB, LIFE) == ExportTraceServiceResponse()
    for span in reversed(LIFE):
        assert _export(service, JOB, [span]) == ExportTraceServiceResponse()
    assert (_events(service), service.get("/v1/jobs/llm-70b")) == before


@ON_ONE_ENGINE
def test_json_says_the_same_as_protobuf(service: Service) -> None:
    body = otlp.json_body({**JOB, "ett.job": "in-json"}, LIFE)
    answer = service.client.post("/v1/traces", content=body, headers=JSON)
    assert (answer.status_code, answer.json()) == (200, {})
    assert answer.headers["content-type"] == "application/json"
    service.settle()
    _export(service, {**JOB, "ett.job": "in-protobuf"}, LIFE)
    assert _told(service, "in-json") == _told(service, "in-protobuf")


def test_a_span_that_was_open_is_continued_by_its_end(service: Service) -> None:
    _export(service, JOB, [Sent(STARTUP, 0, None)])
    kinds = [event["type"] for event in _told(service)]
    assert sorted(kinds) == ["attempt_started", "phase_started"]
    _export(service, JOB, [Sent(STARTUP, 0, 60)])
    _export(service, JOB, [Sent(STARTUP, 0, 60), Sent(BLOCK, 70, 100, number=2)])
    kinds = [event["type"] for event in _told(service)]
    assert kinds.pop(kinds.index("attempt_started"))
    assert kinds == ["phase_started", "phase_ended", "span"]
    job = service.get("/v1/jobs/llm-70b")
    assert (job["categories"]["launcher_init"], job["categories"]["unattributed"]) == (60.0, 10.0)
    assert job["quality"]["ends_without_begin"] == 0


def test_a_begin_that_comes_after_its_span_is_left_out(service: Service) -> None:
    _export(service, JOB, [Sent(BLOCK, 0, 60)])
    _export(service, JOB, [Sent(BLOCK, 0, None)])
    _export(service, JOB, [Sent(BLOCK, 70, None, number=2), Sent(BLOCK, 70, 100, number=2)])
    assert [event["type"] for event in _told(service)] == ["span", "span"]


def test_a_span_that_a_shutdown_truncated_has_not_ended(service: Service) -> None:
    cut = {"nemo.span.truncated": True, "nv.dl.training.step": 30}
    _export(service, JOB, [Sent(BLOCK, 60, 90, cut)])
    assert [event["type"] for event in _told(service)] == ["phase_started", "heartbeat"]


def test_lives_of_a_rank_are_cycles_though_nobody_counts_them(service: Service) -> None:
    for life, start in (("a", 0), ("b", 300)):
        spans = [
            Sent(STARTUP, start, start + 60, number=start + 1),
            Sent(BLOCK, start + 60, start + 200, {"dl.iteration": 20}, number=start + 2),
        ]
        _export(service, {**JOB, "nv.dl.run.uuid": life}, spans)
    job = service.get("/v1/jobs/llm-70b")
    assert [each["cycle"] for each in job["attempts"]] == [0, 1]
    assert (job["attempts"][0]["outcome"], job["quality"]["unreported_restarts"]) == ("lost", 1)
    assert job["categories"]["restart_wait"] == 100.0


def test_overlapping_spans_add_up_to_the_wall_time_and_no_more(service: Service) -> None:
    spans = numbered(
        Sent("rl.grpo.step", 0, 100, {"rl.step": 1}),
        Sent("rl.grpo.generation", 0, 60),
        Sent("rl.vllm.generate", 5, 55),
        Sent("rl.idle.refit_bubble", 60, 80),
        Sent("rl.grpo.policy_training", 70, 100),
    )
    _export(service, JOB, spans)
    assert _categories(service) == {"effective_training": 80.0, "stalled": 20.0}
    stages = _stages(service)
    assert set(stages) == {"policy_training", "rollout", "weight_sync"}
    assert sum(each["inclusive_seconds"] for each in stages.values()) == 160.0
    assert sum(each["exclusive_seconds"] for each in stages.values()) == 100.0


def test_effective_is_what_fed_an_update(service: Service) -> None:
    spans = numbered(
        Sent("rl.startup", -50, 0),
        Sent("rl.setup.load", -40, -20, {"rl.bucket": "overhead"}),
        Sent("rl.grpo.step", 0, 200, {"rl.step": 1}),
        Sent("rl.grpo.generation", 0, 60, {"rl.bucket": "productive"}),
        Sent("rl.grpo.reward_calculation", 60, 70, {"rl.bucket": "productive"}),
        Sent("rl.grpo.logging", 70, 90, {"rl.bucket": "overhead"}),
        Sent("discard_stale", 90, 95, {"rl.bucket": "wasted"}),
        Sent("rl.grpo.wait", 95, 100, {"rl.bucket": "idle"}),
        Sent("rl.grpo.policy_training", 100, 150, {"rl.bucket": "productive"}),
        Sent("rl.grpo.checkpointing", 150, 170, {"rl.step": 1, "rl.bucket": "overhead"}),
        Sent("rl.grpo.evaluate", 170, 200, {"rl.bucket": "overhead"}),
    )
    _export(service, JOB, spans)
    assert _categories(service) == {
        "launcher_init": 50.0,
        "effective_training": 120.0,
        "stalled": 30.0,
        "checkpoint_blocking": 20.0,
        "evaluation": 30.0,
    }
    assert _stages(service)["logging"]["phase"] == "stalled"


def test_unknown_spans_become_stages_and_are_counted(service: Service) -> None:
    _export(service, JOB, numbered(*LIFE, Sent("my.loss\n", 70, 71), Sent("", 71, 72)))
    stages = _stages(service)
    assert {"my.loss?", "unnamed"} <= set(stages)
    lines = service.client.get("/metrics").text.splitlines()
    counts = [line for line in lines if line.startswith("ett_otlp_spans_total")]
    assert counts == [
        'ett_otlp_spans_total{result="mapped"} 7.0',
        'ett_otlp_spans_total{result="unmapped"} 2.0',
        'ett_otlp_spans_total{result="rejected"} 0.0',
    ]


def test_what_a_process_says_of_itself_is_stored_once(service: Service) -> None:
    resource: dict[str, otlp.Value] = {
        **JOB,
        "slurm.job.id": "8041",
        "slurm.cluster.name": "oslo",
        "slurm.nnodes": 4,
        "host.gpu.count": 8,
        "nemo.user.id": "ada",
        "service.version": "1.2",
    }
    for span in LIFE:
        assert _export(service, resource, [span]) == ExportTraceServiceResponse()
    kinds = [event["type"] for event in _events(service)]
    # The other attempt_started is the begin of the process.
    assert (kinds.count("job"), kinds.count("attempt_started")) == (1, 2)
    (facts,) = (event for event in _events(service) if event["type"] == "job")
    assert facts["attributes"]["ett.otlp.mapping"] == VERSION
    job = service.get("/v1/jobs/llm-70b")
    assert (job["cluster"], job["owner"]) == ("oslo", "ada")
    (attempt,) = job["attempts"]
    assert (attempt["launch"], attempt["gpus"], attempt["code_version"]) == ("8041", 32, "1.2")


@pytest.mark.parametrize("trainer_first", [True, False])
def test_slurm_and_the_trainer_tell_of_one_attempt(service: Service, trainer_first: bool) -> None:
    record: dict[str, otlp.Value] = {"slurm.state": "NODE_FAIL", "slurm.restarts": "0"}
    of_slurm = [
        Sent("slurm.phase.deferred", -50, -40, record, number=21),
        Sent("slurm.phase.queued", -40, -10, record, number=22),
        Sent("slurm.record.allocation", -10, 180, record, number=23),
        Sent("slurm.job_setup", -10, 0, record, number=24),
        Sent("slurm.record.extern", -10, 185, record, number=25),
    ]
    exports: list[tuple[dict[str, otlp.Value], list[Sent]]] = [
        ({"slurm.job.id": "8041", "nemo.run.id": "r", "nv.dl.rank": 0}, LIFE[:-1]),
        ({"slurm.job.id": "8041", "service.name": "slurm"}, of_slurm),
    ]
    for resource, spans in exports if trainer_first else reversed(exports):
        assert _export(service, resource, spans) == ExportTraceServiceResponse()
    job = service.get("/v1/jobs/slurm-8041")
    (attempt,) = job["attempts"]
    assert (attempt["launch"], attempt["outcome"], attempt["origin"]) == ("8041", "failed", "infra")
    assert (job["queue_wait_seconds"], job["e2e_seconds"]) == (30.0, 190.0)
    assert _categories(service, "slurm-8041") == {
        "hardware_setup": 10.0,
        "launcher_init": 60.0,
        "effective_training": 80.0,
        "checkpoint_blocking": 20.0,
        "unattributed": 20.0,
    }


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
    partial = _read(answer.content).partial_success
    assert (answer.status_code, partial.rejected_spans) == (200, 6)
    assert partial.error_message == (
        "bad_id: 2, missing_member: 1, no_job: 1, timestamp_out_of_range: 1, unknown_phase: 1"
    )
    service.settle()
    assert _categories(service)["effective_training"] == 80.0


@ON_ONE_ENGINE
def test_a_span_whose_content_changed_is_rejected_and_the_first_stays(service: Service) -> None:
    _export(service, JOB, [Sent(STARTUP, 0, 60)])
    partial = _export(service, JOB, [Sent(STARTUP, 0, 50)]).partial_success
    assert (partial.rejected_spans, partial.error_message) == (1, "conflict: 1")
    assert _categories(service) == {"launcher_init": 60.0}


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
    assert _categories(service)["effective_training"] == 80.0


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
    assert _categories(service)["effective_training"] == 80.0
    assert _told(service)[0]["at"] == "2026-03-01T12:01:40.000000Z"


@ON_ONE_ENGINE
def test_a_thousand_attributes_on_a_span_are_no_reason_to_lose_it(service: Service) -> None:
    bomb: dict[str, otlp.Value] = {f"user.{number}": "x" * 20 for number in range(1000)}
    _export(service, JOB, [Sent(BLOCK, 0, 10, {**bomb, "dl.iteration": 3})])
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
    partial = _read(answer.content).partial_success
    assert (partial.rejected_spans, partial.error_message) == (2, "too_large: 1, wrong_type: 1")
    service.settle()
    assert _categories(service)["effective_training"] == 80.0


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
    partial = _read(answer.content).partial_success
    assert (answer.status_code, partial.rejected_spans) == (200, 3)
    assert partial.error_message == "wrong_type: 2, too_large: 1"
    service.settle()
    assert _categories(service)["effective_training"] == 80.0


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
    assert _categories(service)["effective_training"] == 80.0


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
def test_an_exporter_is_told_when_to_try_again(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise StorageUnavailable("gone")

    monkeypatch.setattr(service.store, "submit", fail)
    answer = service.client.post("/v1/traces", content=otlp.protobuf(JOB, LIFE), headers=PROTOBUF)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")


@ON_ONE_ENGINE
def test_an_empty_export_is_well(service: Service) -> None:
    assert _export(service, JOB, []) == ExportTraceServiceResponse()
    answer = service.client.post("/v1/traces", content=b"", headers=PROTOBUF)
    assert (answer.status_code, answer.content) == (200, b"")
    assert json.loads(service.client.post("/v1/traces", json={}).content) == {}


def test_the_same_job_id_of_another_cluster_is_rejected(service: Service) -> None:
    def resource(cluster: str) -> dict[str, otlp.Value]:
        return {"slurm.job.id": "8041", "slurm.cluster.name": cluster}

    assert _export(service, resource("alpha"), LIFE[:4]) == ExportTraceServiceResponse()
    before = _events(service, "slurm-8041")
    answer = _export(service, resource("beta"), LIFE[4:])
    assert answer.partial_success.rejected_spans == 3
    assert answer.partial_success.error_message == "other_cluster: 3"
    assert _events(service, "slurm-8041") == before
    named = {**resource("beta"), "ett.job": "beta-8041"}
    assert _export(service, named, LIFE[4:]) == ExportTraceServiceResponse()
    assert len(service.get("/v1/jobs/beta-8041")["attempts"]) == 1
