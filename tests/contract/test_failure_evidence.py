"""Real output, states and agents' reports get the origins and causes that they had before."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ett_service.core.events import AttemptEnded
from ett_service.core.ledger.attempt_results import Classification, classify
from ett_service.core.words import Cause, Origin, Outcome
from ett_service.ingest.wire import Limits

END = Limits().max_event_bytes  # of an output no more than that arrives
STATES = {
    "COMPLETED": (Origin.UNKNOWN, Cause.UNKNOWN),
    "FAILED": (Origin.UNKNOWN, Cause.UNKNOWN),
    "CANCELLED": (Origin.USER, Cause.UNKNOWN),
    "OUT_OF_MEMORY": (Origin.USER, Cause.OOM),
    "TIMEOUT": (Origin.USER, Cause.SCHEDULER_TIMEOUT),
}


def judged(*events: AttemptEnded) -> Classification:
    return classify(Outcome.FAILED, events[0], [(event.at, event) for event in events])


def test_of_megatrons_output_only_the_time_limit_names_a_cause(corpus: Path) -> None:
    outputs = sorted((corpus / "megatron_out").glob("*.out"))
    limited = 0
    for path in outputs:
        end = path.read_text("utf-8", "replace")[-END:]
        verdict = judged(AttemptEnded(id="e", at=0, outcome=Outcome.FAILED, message=end))
        is_limited = "DUE TO TIME LIMIT" in end
        limited += is_limited

        assert (verdict.cause is Cause.SCHEDULER_TIMEOUT) == is_limited, path.name
        assert is_limited or verdict.evidence.rule == "none", path.name
    assert (len(outputs), limited) == (10, 2)


@pytest.mark.parametrize("state", STATES)
def test_a_state_of_sacct_keeps_its_cause(corpus: Path, state: str) -> None:
    listings = [
        path.read_bytes().decode("utf-8", "replace")
        for path in (corpus / "slurm_gcm").glob("*sacct*.txt")
    ]
    fields = {
        field
        for listing in listings
        for line in listing.splitlines()
        for field in line.split("|")
        if field.split(" ")[0] == state
    }

    assert fields
    for field in fields:
        verdict = judged(AttemptEnded(id="e", at=0, outcome=Outcome.FAILED, scheduler_state=field))
        assert (verdict.origin, verdict.cause) == STATES[state], field


def worker_failures(corpus: Path) -> Iterator[list[AttemptEnded]]:
    """The ends of the workers that a torchrun agent reported, a list a cycle."""
    path = corpus / "torch_samples" / "agent_monitor_workers_failures.jsonl"
    for line in path.read_text("utf-8").splitlines():
        failures = json.loads(line).get("failures")
        if failures:
            yield [
                AttemptEnded(
                    id=rank,
                    at=failure["t"],
                    rank=int(rank),
                    outcome=Outcome.FAILED,
                    exit_code=failure["exitcode"],
                    message=failure["msg"],
                )
                for rank, failure in failures.items()
            ]


def test_an_agents_report_names_the_worker_that_began_it(corpus: Path) -> None:
    crashed, killed = (judged(*ends) for ends in worker_failures(corpus))

    assert (crashed.origin, crashed.cause) == (Origin.USER, Cause.USER_CODE)
    assert crashed.evidence.event_id == "1"
    assert (killed.origin, killed.cause) == (Origin.UNKNOWN, Cause.UNKNOWN)
    assert killed.evidence.event_id == "0"


def test_a_worker_that_its_agent_saw_killed_is_named_before_a_peer_that_missed_it() -> None:
    missed = AttemptEnded(
        id="peer", at=0, rank=0, outcome=Outcome.FAILED, message="Connection reset by peer"
    )
    seen = AttemptEnded(
        id="agent",
        at=1,
        outcome=Outcome.FAILED,
        signal=9,
        message="killed from outside, the first of its node to die",
    )
    memory = AttemptEnded(
        id="kernel",
        at=2,
        outcome=Outcome.FAILED,
        signal=9,
        message="oom_kill of the control group rose by 1: out of memory",
    )

    assert judged(missed, seen).evidence.event_id == "agent"
    assert judged(missed, seen, memory).cause is Cause.OOM
