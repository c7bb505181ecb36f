"""Runs that are instrumented with OpenTelemetry, exported by its own SDK to a real server."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Tracer

from tests.builders.clock import NOON, SECOND
from tests.builders.otlp import Value
from tests.builders.servers.ett import Server

pytestmark = pytest.mark.xdist_group("stories")

ACCELERATORS = 16


class Process:
    """One process with a tracer of its own; instants are seconds after noon."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def span(self, name: str, start: float, end: float, **attributes: Value) -> None:
        """Record a span; an attribute's dots are written as two underscores."""
        named = {key.replace("__", "."): value for key, value in attributes.items()}
        span = self._tracer.start_span(name, start_time=_nanoseconds(start), attributes=named)
        span.end(_nanoseconds(end))


def _nanoseconds(seconds: float) -> int:
    return (NOON + round(seconds * SECOND)) * 1000


@contextmanager
def exporting(
    server: Server,
    resource: Mapping[str, Value],
    compression: Compression = Compression.Gzip,
) -> Iterator[Process]:
    """Export what the process records, as the variables of OpenTelemetry would set it up."""
    exporter = OTLPSpanExporter(
        endpoint=f"{server.url}/v1/traces",
        headers={"authorization": f"Bearer {server.key}"},
        compression=compression,
    )
    provider = TracerProvider(resource=Resource(resource), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    yield Process(provider.get_tracer("trainer"))
    assert provider.force_flush()
    provider.shutdown()


def _resource(prefix: str, cycle: int, **more: Value) -> dict[str, Value]:
    return {
        "service.name": "megatron-lm",
        "service.instance.id": "run-rank0",
        "nemo.run.id": "run",
        "nv.dl.run.uuid": f"life-{cycle}",
        "slurm.job.id": "8041",
        f"{prefix}dl.rank": "0",
        f"{prefix}dl.world_size": ACCELERATORS,
        f"{prefix}nvrx.cycle.index": cycle,
        "host.name": "n1",
        **more,
    }


def _startup(process: Process, prefix: str, start: float, restored: int | None) -> None:
    name = f"{prefix}dl.training.startup"
    process.span(name, start, start + 60)
    process.span(f"{name}.imports", start, start + 10)
    process.span(f"{name}.model_init", start + 20, start + 50)
    if restored is not None:
        step = {"nv__dl__training__step": restored}
        process.span(f"{prefix}dl.training.checkpoint.load", start + 30, start + 50, **step)


def _train(process: Process, prefix: str, start: float, steps: range) -> None:
    """Train a step a second, one pass each ten steps."""
    for step in steps:
        begin = start + step - steps.start
        attributes = {"dl__iteration" if not prefix else "nv__dl__training__step": step + 10}
        process.span(f"{prefix}dl.training.iter_block", begin, begin + 10, **attributes)


def _save(process: Process, prefix: str, start: float, step: int) -> None:
    attributes = {"nv__dl__training__step": step}
    process.span(f"{prefix}dl.training.checkpoint.exposed_save", start, start + 5, **attributes)
    process.span(f"{prefix}dl.training.checkpoint.save", start + 1, start + 5, **attributes)


def _agent(server: Server, prefix: str) -> None:
    """Tell of two cycles as NVRx does: it outlives them, so that each span names its own."""
    resource = _resource(prefix, 0, **{"service.name": "nvrx.ft_launcher"})
    own = {"nv.dl.rank", "dl.rank", "nv.nvrx.cycle.index", "nvrx.cycle.index", "nv.dl.run.uuid"}
    kept = {key: value for key, value in resource.items() if key not in own}
    with exporting(server, {**kept, "service.instance.id": "nvrx-agent-n1"}) as agent:
        ftl = f"{prefix}nvrx.ftl"
        first, second = ({"nv__nvrx__cycle__index": cycle} for cycle in (0, 1))
        agent.span(f"{ftl}.cycle_start", 0, 0, **first)
        agent.span(f"{ftl}.rendezvous", 0, 20, **first)
        agent.span(f"{ftl}.health_check", 5, 10, **first)
        agent.span(f"{ftl}.worker_launch", 20, 25, **first)
        agent.span(f"{ftl}.fault", 290, 290, **first, nv__nvrx__ftl__cycle__state="FAILED")
        agent.span(f"{ftl}.run", 25, 290, **first)
        agent.span(f"{ftl}.teardown", 290, 300, **first)
        agent.span(f"{ftl}.cycle", 0, 300, **first, nv__nvrx__cycle__outcome="failed")
        agent.span(f"{ftl}.cycle_start", 310, 310, **second)
        agent.span(f"{ftl}.rendezvous", 310, 330, **second)
        agent.span(f"{ftl}.cycle", 310, 620, **second, nv__nvrx__cycle__outcome="completed")


@pytest.mark.parametrize("prefix", ["", "nv."])
def test_a_megatron_run_with_a_restart(server: Server, prefix: str) -> None:
    with exporting(server, _resource(prefix, 0)) as trainer:
        _startup(trainer, prefix, 30, None)
        _train(trainer, prefix, 90, range(0, 100, 10))
        _save(trainer, prefix, 190, 100)
        _train(trainer, prefix, 195, range(100, 190, 10))
        trainer.span(f"{prefix}dl.training.iter_block", 285, 290, nemo__span__truncated=True)
    _agent(server, prefix)
    with exporting(server, _resource(prefix, 1), Compression.NoCompression) as trainer:
        _startup(trainer, prefix, 330, 100)
        _train(trainer, prefix, 390, range(100, 300, 10))
        trainer.span(f"{prefix}dl.training.evaluate", 590, 600)
        trainer.span(f"{prefix}mlm.checkpoint.exit_finalize", 600, 610)
    job = server.reaches("/v1/jobs/slurm-8041", lambda answer: answer["categories"]["evaluation"])
    assert [(each["cycle"], each["outcome"]) for each in job["attempts"]] == [
        (0, "failed"),
        (1, "completed"),
    ]
    assert _categories(job) == {
        "launcher_init": 165.0,
        "effective_training": 305.0,
        "repeated_training": 90.0,
        "checkpoint_blocking": 5.0,
        "evaluation": 10.0,
        "shutdown": 20.0,
        "restart_wait": 10.0,
        "unattributed": 15.0,
    }
    assert (job["e2e_seconds"], job["failures"]) == (620.0, 1)
    assert [each["gpus"] for each in job["attempts"]] == [ACCELERATORS] * 2
    assert job["recoveries"][0]["repeated_seconds"] == 90.0


def _categories(job: Mapping[str, Any]) -> dict[str, float]:
    return {name: seconds for name, seconds in job["categories"].items() if seconds}


def test_a_reinforcement_learning_run(server: Server) -> None:
    resource = {"ett.job": "grpo", "service.name": "nemo-rl", "service.instance.id": "driver"}
    with exporting(server, resource) as driver:
        driver.span("rl.startup", 0, 50)
        driver.span("rl.setup.workers", 10, 40)
        for step in range(3):
            start = 50 + 100 * step
            driver.span("rl.grpo.step", start, start + 100, rl__step=step + 1)
            driver.span("rl.grpo.generation", start, start + 40)
            driver.span("rl.vllm.generate", start, start + 35, rl__bucket="productive")
            driver.span("rl.grpo.reward_calculation", start + 40, start + 50)
            driver.span("rl.idle.buffer_starvation", start + 50, start + 65, rl__bucket="idle")
            driver.span("rl.grpo.policy_training", start + 65, start + 90)
            driver.span("rl.idle.refit_bubble", start + 90, start + 100, rl__bucket="idle")
        driver.span("rl.grpo.generation", 350, 380, rl__bucket="wasted")
        driver.span("rl.grpo.checkpointing", 380, 395, rl__step=3)
        driver.span("rl.grpo.job", 0, 400)
    with exporting(server, {**resource, "service.instance.id": "collector"}) as collector:
        for step in range(3):
            collector.span("rl.idle.generation_limit_pause", 60 + 100 * step, 90 + 100 * step)
    job = server.reaches("/v1/jobs/grpo", lambda answer: answer["e2e_seconds"] >= 400)
    assert _categories(job) == {
        "launcher_init": 50.0,
        "effective_training": 3 * 75.0,
        "stalled": 3 * 25.0 + 30.0,
        "checkpoint_blocking": 15.0,
        "unattributed": 5.0,
    }
    (attempt,) = job["attempts"]
    assert (attempt["outcome"], attempt["last_step"]) == ("completed", 3)
    stages = server.get("/v1/jobs/grpo/stages")["stages"]
    inclusive = {
        (each["phase"], each["stage"]): each["inclusive_seconds"]
        for each in stages
        if each["stage"]
    }
    assert inclusive[("train_loop", "reward")] == 30.0
    assert inclusive[("stalled", "waiting")] == 45.0
    assert inclusive[("stalled", "weight_sync")] == 30.0
    assert inclusive[("stalled", "rollout")] == 30.0
