"""Spans over OTLP/HTTP: what is stored of them, and what exporters are answered."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from ett_service.ingest.otlp.mapping import VERSION
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


def export(
    service: Service, resource: Mapping[str, otlp.Value], spans: Sequence[Sent]
) -> ExportTraceServiceResponse:
    body = otlp.protobuf(resource, spans)
    answer = service.client.post("/v1/traces", content=body, headers=PROTOBUF)
    assert answer.status_code == 200, answer.content
    assert answer.headers["content-type"] == "application/x-protobuf"
    service.settle()
    return read_answer(answer.content)


def read_answer(body: bytes) -> ExportTraceServiceResponse:
    answer = ExportTraceServiceResponse()
    answer.ParseFromString(body)
    return answer


def events_of(service: Service, job: str = "llm-70b") -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = service.get(f"/v1/jobs/{job}/events")["events"]
    return listed


def told(service: Service, job: str = "llm-70b") -> list[dict[str, Any]]:
    """The events, without what the process says of its job."""
    return [event for event in events_of(service, job) if event["type"] != "job"]


def categories(service: Service, job: str = "llm-70b") -> dict[str, float]:
    spent = service.get(f"/v1/jobs/{job}")["categories"]
    return {name: seconds for name, seconds in spent.items() if seconds}


def _stages(service: Service) -> dict[str, dict[str, Any]]:
    stages = service.get("/v1/jobs/llm-70b/stages")["stages"]
    return {each["stage"]: each for each in stages if each["stage"]}


def test_the_spans_of_a_run_become_its_ledger(service: Service) -> None:
    assert export(service, JOB, LIFE) == ExportTraceServiceResponse()
    assert categories(service) == {
        "launcher_init": 60.0,
        "effective_training": 80.0,
        "checkpoint_blocking": 20.0,
        "shutdown": 10.0,
    }
    (attempt,) = service.get("/v1/jobs/llm-70b")["attempts"]
    assert (attempt["outcome"], attempt["last_step"]) == ("completed", 20)
    assert attempt["unsaved_training_seconds"] == 0.0


def test_an_export_that_is_sent_again_stores_nothing_new(service: Service) -> None:
    export(service, JOB, LIFE)
    before = (events_of(service), service.get("/v1/jobs/llm-70b"))
    assert export(service, JOB, LIFE) == ExportTraceServiceResponse()
    for span in reversed(LIFE):
        assert export(service, JOB, [span]) == ExportTraceServiceResponse()
    assert (events_of(service), service.get("/v1/jobs/llm-70b")) == before


@ON_ONE_ENGINE
def test_json_says_the_same_as_protobuf(service: Service) -> None:
    body = otlp.json_body({**JOB, "ett.job": "in-json"}, LIFE)
    answer = service.client.post("/v1/traces", content=body, headers=JSON)
    assert (answer.status_code, answer.json()) == (200, {})
    assert answer.headers["content-type"] == "application/json"
    service.settle()
    export(service, {**JOB, "ett.job": "in-protobuf"}, LIFE)
    assert told(service, "in-json") == told(service, "in-protobuf")


def test_a_span_that_was_open_is_continued_by_its_end(service: Service) -> None:
    export(service, JOB, [Sent(STARTUP, 0, None)])
    kinds = [event["type"] for event in told(service)]
    assert sorted(kinds) == ["attempt_started", "phase_started"]
    export(service, JOB, [Sent(STARTUP, 0, 60)])
    export(service, JOB, [Sent(STARTUP, 0, 60), Sent(BLOCK, 70, 100, number=2)])
    kinds = [event["type"] for event in told(service)]
    assert kinds.pop(kinds.index("attempt_started"))
    assert kinds == ["phase_started", "phase_ended", "span"]
    job = service.get("/v1/jobs/llm-70b")
    assert (job["categories"]["launcher_init"], job["categories"]["unattributed"]) == (60.0, 10.0)
    assert job["quality"]["ends_without_begin"] == 0


def test_a_begin_that_comes_after_its_span_is_left_out(service: Service) -> None:
    export(service, JOB, [Sent(BLOCK, 0, 60)])
    export(service, JOB, [Sent(BLOCK, 0, None)])
    export(service, JOB, [Sent(BLOCK, 70, None, number=2), Sent(BLOCK, 70, 100, number=2)])
    assert [event["type"] for event in told(service)] == ["span", "span"]


def test_a_span_that_a_shutdown_truncated_has_not_ended(service: Service) -> None:
    cut = {"nemo.span.truncated": True, "nv.dl.training.step": 30}
    export(service, JOB, [Sent(BLOCK, 60, 90, cut)])
    assert [event["type"] for event in told(service)] == ["phase_started", "heartbeat"]


def test_lives_of_a_rank_are_cycles_though_nobody_counts_them(service: Service) -> None:
    for life, start in (("a", 0), ("b", 300)):
        spans = [
            Sent(STARTUP, start, start + 60, number=start + 1),
            Sent(BLOCK, start + 60, start + 200, {"dl.iteration": 20}, number=start + 2),
        ]
        export(service, {**JOB, "nv.dl.run.uuid": life}, spans)
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
    export(service, JOB, spans)
    assert categories(service) == {"effective_training": 80.0, "stalled": 20.0}
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
    export(service, JOB, spans)
    assert categories(service) == {
        "launcher_init": 50.0,
        "effective_training": 120.0,
        "stalled": 30.0,
        "checkpoint_blocking": 20.0,
        "evaluation": 30.0,
    }
    assert _stages(service)["logging"]["phase"] == "stalled"


def test_unknown_spans_become_stages_and_are_counted(service: Service) -> None:
    export(service, JOB, numbered(*LIFE, Sent("my.loss\n", 70, 71), Sent("", 71, 72)))
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
        assert export(service, resource, [span]) == ExportTraceServiceResponse()
    kinds = [event["type"] for event in events_of(service)]
    # The other attempt_started is the begin of the process.
    assert (kinds.count("job"), kinds.count("attempt_started")) == (1, 2)
    (facts,) = (event for event in events_of(service) if event["type"] == "job")
    assert facts["attributes"]["ett.otlp.mapping"] == VERSION
    job = service.get("/v1/jobs/llm-70b")
    assert (job["cluster"], job["owner"]) == ("oslo", "ada")
    (attempt,) = job["attempts"]
    assert (attempt["launch"], attempt["gpus"], attempt["code_version"]) == ("8041", 32, "1.2")


@pytest.mark.parametrize("trainer_first", [True, False])
def test_slurm_and_the_trainer_report_one_attempt(service: Service, trainer_first: bool) -> None:
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
        assert export(service, resource, spans) == ExportTraceServiceResponse()
    job = service.get("/v1/jobs/slurm-8041")
    (attempt,) = job["attempts"]
    assert (attempt["launch"], attempt["outcome"], attempt["origin"]) == ("8041", "failed", "infra")
    assert (job["queue_wait_seconds"], job["e2e_seconds"]) == (30.0, 190.0)
    assert categories(service, "slurm-8041") == {
        "hardware_setup": 10.0,
        "launcher_init": 60.0,
        "effective_training": 80.0,
        "checkpoint_blocking": 20.0,
        "unattributed": 20.0,
    }
