"""What each type of event may say; everything else is refused by name."""

from dataclasses import fields
from typing import Any, get_args

import pytest

from ett_service.core.events import (
    EVENT_TYPES,
    AttemptEnded,
    AttemptStarted,
    CheckpointSaved,
    JobFacts,
    PhaseStarted,
    Progress,
    SpanOver,
)
from ett_service.core.words import Cause, Origin, Outcome, Phase
from ett_service.ingest.wire import AnyEvent, event_schema
from ett_service.storage.record.events import decode_body
from tests.builders.batches import accepted, read, refused
from tests.builders.clock import NOON, SECOND

REQUIRED: dict[str, dict[str, Any]] = {
    "attempt_ended": {"outcome": "failed"},
    "job_ended": {"outcome": "completed"},
    "phase_started": {"phase": "train_loop"},
    "phase_ended": {"phase": "train_loop"},
    "span": {"phase": "evaluation", "start": "2026-03-01T11:59:00Z"},
    "progress": {"step": 1},
    "checkpoint_saved": {"step": 1},
    "checkpoint_restored": {"step": 1},
}


@pytest.mark.parametrize("kind", EVENT_TYPES)
def test_each_type_needs_what_it_needs_and_no_more(kind: str) -> None:
    required = REQUIRED.get(kind, {})

    assert type(accepted(kind, **required).event) is EVENT_TYPES[kind]
    for name in ("job", "at", *required):
        assert refused(kind, **{**required, name: None}) == ("missing_member", f"/{name}")


@pytest.mark.parametrize("kind", EVENT_TYPES)
def test_each_type_has_just_the_members_of_the_core(kind: str) -> None:
    (sent,) = (each for each in get_args(AnyEvent) if each.__struct_config__.tag == kind)

    ours = {each.name for each in fields(EVENT_TYPES[kind])}
    assert set(sent.__struct_fields__) == ours | {"job"}


@pytest.mark.parametrize("kind", EVENT_TYPES)
def test_an_unknown_member_is_refused_by_name(kind: str) -> None:
    required = REQUIRED.get(kind, {})

    assert refused(kind, **required, colour=1) == ("unknown_member", "/colour")
    assert refused(kind, **required, **{"a/b~c": 1}) == ("unknown_member", "/a~1b~0c")


def test_what_every_event_may_say_is_kept() -> None:
    arrival = accepted(
        at="2026-03-01T12:00:00.5Z",
        id="e-1",
        launch="8041",
        attempt=2,
        cycle=1,
        rank=3,
        host="node-7",
        producer="p",
        mono_us=-5,
        seq=9,
        attributes={"a": [1.5, None, {"b": True}]},
    )
    event = arrival.event

    assert (event.id, event.at) == ("e-1", NOON + SECOND // 2)
    assert (event.launch, event.attempt, event.cycle) == ("8041", 2, 1)
    assert (event.rank, event.host, event.producer) == (3, "node-7", "p")
    assert (event.mono_us, event.seq) == (-5, 9)
    assert decode_body(event.type, arrival.id, arrival.at, arrival.body).attributes == {
        "a": [1.5, None, {"b": True}]
    }


def test_facts_about_the_job_are_kept() -> None:
    event = accepted(
        "job", team="nlp", gpus=64, submitted_at="2026-03-01T11:00:00Z", labels={"tier": "1"}
    ).event

    assert isinstance(event, JobFacts)
    assert (event.team, event.gpus, event.labels) == ("nlp", 64, {"tier": "1"})
    assert event.submitted_at == NOON - 3600 * SECOND


def test_an_ending_is_kept_with_its_evidence() -> None:
    event = accepted(
        "attempt_ended",
        outcome="failed",
        signal="SIGKILL",
        exit_code=-9,
        origin="infra",
        cause="oom",
        message="a\x00b",
        preempted_by="other job",
    ).event

    assert isinstance(event, AttemptEnded)
    assert (event.outcome, event.origin, event.cause) == (Outcome.FAILED, Origin.INFRA, Cause.OOM)
    assert (event.signal, event.exit_code, event.message) == (9, -9, "a\ufffdb")
    assert event.preempted_by == "other job"


def test_the_other_types_keep_what_they_say() -> None:
    started = accepted("attempt_started", gpus=8, hosts=1, reason="node failure").event
    phase = accepted("phase_started", phase="pt2_compile", stage="inductor").event
    span = accepted("span", phase="evaluation", start="2026-03-01T11:59:00Z").event
    step = accepted("progress", step=5, tokens=2**53 - 1, flops=10**20).event
    saved = accepted("checkpoint_saved", step=5, bytes=10, duration_seconds=2).event

    assert isinstance(started, AttemptStarted)
    assert (started.gpus, started.hosts, started.reason) == (8, 1, "node failure")
    assert isinstance(phase, PhaseStarted)
    assert (phase.phase, phase.stage) == (Phase.PT2_COMPILE, "inductor")
    assert isinstance(span, SpanOver)
    assert span.start == NOON - 60 * SECOND
    assert isinstance(step, Progress)
    assert (step.step, step.tokens, step.flops) == (5, 2**53 - 1, 1e20)
    assert isinstance(saved, CheckpointSaved)
    assert (saved.bytes, saved.duration_seconds) == (10, 2.0)


@pytest.mark.parametrize(
    ("kind", "members", "code", "pointer"),
    [
        ("nonsense", {}, "unknown_type", "/type"),
        ("progress", {"step": "5"}, "wrong_type", "/step"),
        ("progress", {"step": True}, "wrong_type", "/step"),
        ("progress", {"step": 5.0}, "wrong_type", "/step"),
        ("progress", {"step": -1}, "out_of_range", "/step"),
        ("progress", {"step": 2**53}, "out_of_range", "/step"),
        ("progress", {"step": 10**30}, "out_of_range", "/step"),
        ("progress", {"step": 1, "flops": -1.5}, "out_of_range", "/flops"),
        ("attempt_started", {"gpus": 1_000_001}, "out_of_range", "/gpus"),
        ("heartbeat", {"attempt": 2**31}, "out_of_range", "/attempt"),
        ("heartbeat", {"cycle": -1}, "out_of_range", "/cycle"),
        ("heartbeat", {"at": 1772366400}, "wrong_type", "/at"),
        ("heartbeat", {"at": "2026-03-01T12:00:00"}, "timestamp_without_offset", "/at"),
        ("heartbeat", {"at": "now"}, "bad_timestamp", "/at"),
        ("heartbeat", {"at": "2026-03-03T12:00:00Z"}, "timestamp_out_of_range", "/at"),
        ("heartbeat", {"job": ""}, "bad_job", "/job"),
        ("heartbeat", {"job": "x" * 201}, "bad_job", "/job"),
        ("heartbeat", {"job": "a/b"}, "bad_job", "/job"),
        ("heartbeat", {"job": 5}, "wrong_type", "/job"),
        ("heartbeat", {"id": ""}, "bad_id", "/id"),
        ("heartbeat", {"id": "x" * 65}, "bad_id", "/id"),
        ("heartbeat", {"id": "a b"}, "bad_id", "/id"),
        ("heartbeat", {"id": "a\n"}, "bad_id", "/id"),
        ("heartbeat", {"launch": "x" * 101}, "bad_length", "/launch"),
        ("heartbeat", {"host": "a\nb"}, "bad_text", "/host"),
        ("heartbeat", {"attributes": [1]}, "wrong_type", "/attributes"),
        ("heartbeat", {"attributes": {str(n): n for n in range(33)}}, "bad_length", "/attributes"),
        ("heartbeat", {"attributes": {"a": [[[[[[[1]]]]]]]}}, "too_deep", "/attributes"),
        ("job", {"labels": {"a": 1}}, "wrong_type", "/labels"),
        ("job", {"labels": {"a": "\x00"}}, "bad_text", "/labels"),
        ("job", {"labels": {"x" * 129: "a"}}, "bad_length", "/labels"),
        ("phase_started", {"phase": "lunch"}, "unknown_phase", "/phase"),
        ("phase_started", {"phase": "train_loop", "stage": ""}, "bad_length", "/stage"),
        ("attempt_ended", {"outcome": "lost"}, "unknown_value", "/outcome"),
        ("attempt_ended", {"outcome": "running"}, "unknown_value", "/outcome"),
        ("attempt_ended", {"outcome": "failed", "cause": "gremlins"}, "unknown_value", "/cause"),
        ("attempt_ended", {"outcome": "failed", "signal": "KILL"}, "unknown_value", "/signal"),
        ("attempt_ended", {"outcome": "failed", "signal": 128}, "out_of_range", "/signal"),
        ("heartbeat", {"labels": {}}, "unknown_member", "/labels"),
    ],
)
def test_what_no_event_may_say_is_refused(
    kind: str, members: dict[str, Any], code: str, pointer: str
) -> None:
    assert refused(kind, **members) == (code, pointer)


def test_null_says_the_same_as_leaving_a_member_out() -> None:
    optional = ("id", "launch", "attempt", "cycle", "rank", "host", "producer", "attributes")
    sent = '{"type":"heartbeat","job":"llm-70b","at":"2026-03-01T12:00:00Z"'
    nulls = "".join(f',"{name}":null' for name in optional)

    plain, with_nulls = read(f'{{"events":[{sent}}},{sent}{nulls}}}]}}'.encode()).arrivals
    assert plain.body == with_nulls.body


def test_the_schema_describes_every_type_and_closes_it() -> None:
    schemas = event_schema()
    kinds = [schemas[ref["$ref"].rpartition("/")[2]] for ref in schemas["Event"]["anyOf"]]

    assert {kind["properties"]["type"]["enum"][0] for kind in kinds} == set(EVENT_TYPES)
    assert all(kind["additionalProperties"] is False for kind in kinds)
    assert all({"job", "at", "type"} <= set(kind["required"]) for kind in kinds)
    assert schemas["EventBatch"]["properties"]["events"]["items"]["$ref"].endswith("/Event")
