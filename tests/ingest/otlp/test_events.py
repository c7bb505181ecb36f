"""Spans to events: who speaks, and what is said of attempts."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from ett_service.ingest.otlp.events import convert
from ett_service.ingest.otlp.identity import attempt_facts, identity, job_facts
from ett_service.ingest.otlp.spans import read_protobuf
from tests.builders import otlp
from tests.builders.otlp import Sent, numbered

JOB: dict[str, otlp.Value] = {"ett.job": "llm-70b"}


def _converted(*spans: Sent, **resource: otlp.Value) -> list[dict[str, Any]]:
    return _of({**JOB, **resource}, numbered(*spans))


def _of(resource: Mapping[str, otlp.Value], spans: Sequence[Sent]) -> list[dict[str, Any]]:
    return convert(read_protobuf(otlp.protobuf(resource, spans), 100)).events


JOBSET_NAME = "k8s.pod.label.jobset.sigs.k8s.io/jobset-name"
JOBSET_UID = "k8s.pod.labels.jobset.sigs.k8s.io/jobset-uid"


@pytest.mark.parametrize(
    ("resource", "job", "launch"),
    [
        ({"ett.job": "a", "slurm.job.id": "7"}, "a", "7"),
        ({"slurm.job.id": "7", "nemo.run.id": "r"}, "slurm-7", "7"),
        ({"k8s.job.name": "w", "k8s.job.uid": "u"}, "w", "u"),
        ({"k8s.job.name": "w", "nemo.run.id": "r"}, "w", None),
        ({"ett.job": "a", "k8s.pod.uid": "p", "nemo.run.id": "r"}, "a", None),
        ({JOBSET_NAME: "w", "k8s.job.name": "w-0", "k8s.job.uid": "c"}, "w", None),
        ({JOBSET_NAME: "w", JOBSET_UID: "u", "k8s.job.uid": "c"}, "w", "u"),
        ({"dl.job.uuid": "j", "nemo.run.id": "r", "service.name": "s"}, "j", "j"),
        ({"nemo.run.id": "r", "service.name": "s"}, "r", "r"),
        ({"service.name": "s"}, "s", None),
    ],
)
def test_a_job_is_named_by_the_first_that_names_it(
    resource: dict[str, otlp.Value], job: str, launch: str | None
) -> None:
    members = identity({}, resource)
    assert members is not None
    assert (members["job"], members.get("launch")) == (job, launch)


def test_a_process_that_names_no_job_has_none() -> None:
    assert identity({}, {"service.name": "unknown_service:python", "host.name": "n1"}) is None


def test_a_span_says_more_of_itself_than_its_process_does() -> None:
    members = identity({"nvrx.cycle.index": 2}, {**JOB, "nvrx.cycle.index": 0, "dl.rank": "3"})
    assert members is not None
    assert (members["cycle"], members["rank"]) == (2, 3)


@pytest.mark.parametrize("rank", ["x", "-2", "1.5", -1, True, 2**31, "9" * 5000])
def test_a_rank_that_is_no_number_is_left_out(rank: otlp.Value) -> None:
    members = identity({}, {**JOB, "dl.rank": rank})
    assert members == {"job": "llm-70b"}


def test_a_life_of_an_instance_is_a_producer() -> None:
    lives = [
        identity({}, {**JOB, "service.instance.id": "r-rank0", "dl.run.uuid": life})
        for life in ("a", "b")
    ]
    assert [life and life["producer"] for life in lives] == ["r-rank0:a", "r-rank0:b"]


@pytest.mark.parametrize(
    ("resource", "gpus"),
    [
        ({"dl.world_size": 16}, 16),
        ({"dl.world_size": 16, "host.gpu.count": 8, "slurm.nnodes": "4"}, 32),
        ({"ett.gpus": 4, "dl.world_size": 16}, 4),
        ({"host.gpu.count": 8}, None),
        ({"dl.world_size": 10**9}, None),
    ],
)
def test_accelerators_are_those_of_the_allocation(
    resource: dict[str, otlp.Value], gpus: int | None
) -> None:
    assert attempt_facts(resource).get("gpus") == gpus


def test_facts_are_cut_to_what_a_member_can_have() -> None:
    facts = job_facts({"ett.cluster": "c" * 300, "ett.team": ""})
    assert (facts["cluster"], "team" in facts) == ("c" * 256, False)


def test_a_word_that_cannot_be_shown_is_mended_and_loses_no_span() -> None:
    members = identity({}, {**JOB, "host.name": "n\x001", "service.instance.id": "i" * 999})
    assert members == {"job": "llm-70b", "host": "n?1", "producer": "i" * 256}


def test_a_message_keeps_its_lines() -> None:
    span = Sent("rl.grpo.job", 0, 60, exception=("E", "line 1\nline 2" + "x" * 3000))
    (ended,) = _converted(span)
    assert ended["message"].startswith("line 1\nline 2x")
    assert len(ended["message"]) == 2000


def test_an_id_is_the_spans_with_a_word_for_what_is_said() -> None:
    (span, step) = _converted(Sent("dl.training.iter_block", 0, 10, {"dl.iteration": 4}))
    key = f"{1:032x}:{1:016x}"
    assert (span["id"], step["id"]) == (f"{key}:phase", f"{key}:step")


def test_a_span_that_says_its_phase_is_that_whatever_its_name() -> None:
    (span,) = _converted(Sent("dl.training.iter_block", 0, 10, {"ett.phase": "evaluation"}))
    assert (span["phase"], "stage" in span) == ("evaluation", False)
    attributes: dict[str, otlp.Value] = {"ett.phase": "shutdown", "ett.stage": "upload"}
    (part,) = _converted(Sent("x", 0, 10, attributes))
    assert (part["phase"], part["stage"]) == ("shutdown", "upload")
    (_, step) = _converted(Sent("x", 0, 10, {"ett.phase": "train_loop", "ett.step": 7}))
    assert (step["type"], step["step"]) == ("progress", 7)


def test_a_skipped_iteration_is_no_step() -> None:
    skipped: dict[str, otlp.Value] = {"dl.iteration": 4, "nv.dl.training.iteration.skipped": True}
    kinds = [event["type"] for event in _converted(Sent("dl.training.iteration", 0, 1, skipped))]
    assert kinds == ["span"]


@pytest.mark.parametrize(
    ("state", "outcome"),
    [
        ("COMPLETED", "completed"),
        ("CANCELLED by 1000", "cancelled"),
        ("NODE_FAIL", "failed"),
        ("PREEMPTED", "preempted"),
        ("RUNNING", None),
        ("", None),
    ],
)
def test_a_slurm_allocation_ends_as_its_state_says(state: str, outcome: str | None) -> None:
    attributes: dict[str, otlp.Value] = {"slurm.state": state, "slurm.restarts": "1"}
    begins, *ends = _converted(Sent("slurm.record.allocation", 5, 60, attributes))
    assert (begins["type"], begins["attempt"], begins["at"][-11:]) == (
        "attempt_started",
        1,
        ":05.000000Z",
    )
    outcomes = [(end["outcome"], end["scheduler_state"]) for end in ends]
    assert outcomes == ([] if outcome is None else [(outcome, state)])


@pytest.mark.parametrize(
    ("outcome", "outcomes"),
    [
        ("completed", ["completed"]),
        ("peer_restart", ["failed"]),
        ("excluded", []),
        ("standby", []),
    ],
)
def test_a_cycle_ends_as_it_says(outcome: str, outcomes: list[str]) -> None:
    span = Sent("nvrx.ftl.cycle", 0, 60, {"nvrx.cycle.outcome": outcome})
    assert [event["outcome"] for event in _converted(span)] == outcomes


def test_a_run_that_raised_has_failed_and_keeps_its_exception() -> None:
    span = Sent("rl.grpo.job", 0, 60, exception=("RuntimeError", "CUDA error"))
    (ended,) = _converted(span)
    assert (ended["type"], ended["outcome"]) == ("attempt_ended", "failed")
    assert (ended["exception"], ended["message"]) == ("RuntimeError", "CUDA error")


def test_any_span_can_say_how_the_attempt_ended() -> None:
    (_, ended) = _converted(Sent("main", 0, 60, {"ett.outcome": "preempted"}))
    assert (ended["type"], ended["outcome"]) == ("attempt_ended", "preempted")


def test_waste_fed_no_update_and_owns_its_time() -> None:
    owning, part = _converted(Sent("rl.grpo.generation", 0, 9, {"rl.bucket": "wasted"}))
    assert (owning["phase"], "stage" in owning) == ("stalled", False)
    assert (part["phase"], part["stage"]) == ("stalled", "rollout")


@pytest.mark.parametrize(
    ("name", "phase"), [("shuffle", "train_loop"), ("dl.training.evaluate", "evaluation")]
)
def test_a_stage_without_a_phase_is_a_part_of_the_one_that_the_name_says(
    name: str, phase: str
) -> None:
    (part, step) = _converted(Sent(name, 0, 9, {"ett.stage": "mine", "ett.step": 3}))
    assert (part["type"], part["phase"], part["stage"]) == ("span", phase, "mine")
    assert (step["type"], step["step"]) == ("progress", 3)
