"""What Events of Kubernetes add: why a pod waited, and what made it go."""

import itertools
from typing import Any

import pytest

from ett_service.core.words import Cause, Outcome, Owner
from ett_service.importers.kubernetes.cluster import DELETED, Cluster, Unusable
from ett_service.importers.kubernetes.cluster_events import ClusterEvents, event_of, pull
from tests.builders import kubernetes as k8s
from tests.builders.imports import Wire, ledgers_of
from tests.builders.kubernetes import events_of

JOB = k8s.owner("Job", "llm")
FULL = "0/8 nodes are available: 8 Insufficient nvidia.com/gpu."
TRAINER = "spec.containers{trainer}"


def pod(**members: Any) -> k8s.Json:
    return k8s.pod("llm-a", JOB, 0, **{"scheduled": 50, "container": k8s.running(90), **members})


def end(wire: Wire) -> dict[str, Any]:
    """The only end of an attempt."""
    (ended,) = [each for each in wire if each["type"] == "attempt_ended"]
    return ended


def stages(wire: Wire) -> dict[str, float]:
    spans = [each for each in wire if each["type"] == "span"]
    return {each["stage"]: k8s.at(each["at"]) - k8s.at(each["start"]) for each in spans}


@pytest.mark.parametrize("event", [k8s.cluster_event, k8s.newer_event])
def test_the_wait_for_a_node_says_why_from_the_schedulers_first_refusal(event: Any) -> None:
    objects = (k8s.job("llm"), pod(), event("FailedScheduling", pod(), 20, FULL))
    expected = sorted(events_of(*objects), key=lambda each: each["id"])
    edges = [each for each in expected if each.get("stage") == "unschedulable"]
    assert sorted((each["type"], each["at"]) for each in edges) == [
        ("phase_ended", "2026-03-01T12:00:50.000000Z"),
        ("phase_started", "2026-03-01T12:00:20.000000Z"),
    ]
    assert {each["attributes"]["message"] for each in edges} == {FULL}
    for order in itertools.permutations(objects):
        assert sorted(events_of(*order), key=lambda each: each["id"]) == expected
    (ledger,) = ledgers_of(expected).values()
    assert ledger.owned_waits[0].owner is Owner.SCHEDULER


def test_a_pod_that_still_waits_says_so() -> None:
    waiting = pod(scheduled=None, container=None)
    wire = events_of(
        k8s.job("llm"), waiting, k8s.cluster_event("FailedScheduling", waiting, 20, FULL)
    )
    assert [each.get("stage") for each in wire if each["type"] == "phase_started"] == [
        None,
        "unschedulable",
    ]


def test_a_pull_is_as_long_as_events_say() -> None:
    pulled = [
        k8s.cluster_event("Pulling", pod(), 55, "Pulling image", part=TRAINER),
        k8s.cluster_event("Pulled", pod(), 75, "Successfully pulled", part=TRAINER),
        k8s.cluster_event(
            "Pulled", pod(), 51, "of an init container", part="spec.initContainers{i}"
        ),
    ]
    assert stages(events_of(k8s.job("llm"), pod()))["image_pull"] == 40
    assert stages(events_of(k8s.job("llm"), pod(), *pulled))["image_pull"] == 20


def test_an_image_that_was_there_was_not_pulled() -> None:
    present = k8s.cluster_event("Pulled", pod(), 52, "already present on machine", part=TRAINER)
    assert "image_pull" not in stages(events_of(k8s.job("llm"), pod(), present))
    assert pull([]) is None


GONE = {"container": k8s.over(90, 200, 143), "deleted": 195}


@pytest.mark.parametrize(
    ("reason", "message", "outcome", "cause"),
    [
        ("Preempted", "Preempted by pod 12-ab on node n1", Outcome.PREEMPTED, Cause.PREEMPTION),
        ("Evicted", "The node was low on resource: memory", Outcome.FAILED, Cause.HOST),
        ("TaintManagerEviction", "Marking for deletion Pod a", Outcome.FAILED, Cause.HOST),
        ("NodeNotReady", "Node is not ready", Outcome.FAILED, Cause.HOST),
        ("TaintManagerEviction", "Cancelling deletion of Pod a", Outcome.CANCELLED, None),
        ("Killing", "Stopping container trainer", Outcome.CANCELLED, None),
    ],
)
def test_what_made_a_deleted_pod_go_is_known_by_its_event(
    reason: str, message: str, outcome: Outcome, cause: Cause | None
) -> None:
    gone = pod(**GONE)
    wire = events_of(k8s.job("llm"), gone, k8s.cluster_event(reason, gone, 190, message))
    (attempt,) = ledgers_of(wire)["llm"].attempts
    assert (attempt.outcome, attempt.cause) == (outcome, cause)
    (kept,) = end(wire)["attributes"]["kubernetes_events"]
    assert (kept["reason"], kept["message"]) == (reason, message)


def test_an_event_of_another_life_or_of_one_that_ended_well_decides_nothing() -> None:
    well = pod(container=k8s.over(90, 200))
    early = k8s.cluster_event("NodeNotReady", well, 190, "Node is not ready")
    assert end(events_of(k8s.job("llm"), well, early))["outcome"] == "completed"
    gone = pod(**GONE)
    late = k8s.cluster_event("Preempted", gone, 300, "Preempted by pod 12-ab on node n1")
    assert end(events_of(k8s.job("llm"), gone, late))["outcome"] == "cancelled"


@pytest.mark.parametrize("says", ["message", "related"])
def test_the_job_of_the_pod_that_took_the_place_is_named(says: str) -> None:
    gone = pod(**GONE)
    taker = k8s.pod("urgent-a", k8s.owner("Job", "urgent"), 180, scheduled=201)
    by: dict[str, Any] = {"message": f"Preempted by pod {k8s.uid('urgent-a')} on node n1"}
    by = by if says == "message" else {"related": {"kind": "Pod", "uid": k8s.uid("urgent-a")}}
    event = k8s.cluster_event("Preempted", gone, 190, **by)
    wire = events_of(k8s.job("llm"), k8s.job("urgent", 170), gone, taker, event)
    ledger = ledgers_of(wire)["llm"]
    assert [each.preempted_by for each in ledger.attempts] == ["urgent"]


def test_what_was_reported_of_a_node_stands_at_the_end_of_what_ran_there() -> None:
    gone = pod(**GONE)
    there = k8s.cluster_event("NodeNotReady", k8s.node("n1", 0), 150, "status is now: NodeNotReady")
    elsewhere = k8s.cluster_event("NodeNotReady", k8s.node("n2", 0), 150, "another")
    wire = events_of(k8s.job("llm"), gone, there, elsewhere)
    kept = end(wire)["attributes"]["kubernetes_events"]
    assert [each["message"] for each in kept] == ["status is now: NodeNotReady"]


def test_what_the_api_server_deletes_is_kept_and_what_happens_again_is_one() -> None:
    gone, cluster = pod(**GONE), Cluster()
    event = k8s.cluster_event("Preempted", gone, 190, "Preempted by pod 12-ab on node n1")
    before = events_of(k8s.job("llm"), gone, event, event, cluster=cluster)
    versions = cluster.versions()
    cluster.take(DELETED, event)
    cluster.vanish("Event", set(), 0)
    assert (events_of(cluster=cluster), cluster.versions()) == (before, versions)


def test_an_event_that_comes_later_makes_its_job_news() -> None:
    cluster = Cluster()
    events_of(k8s.job("llm"), pod(), cluster=cluster)
    before = cluster.versions()
    events_of(k8s.cluster_event("FailedScheduling", pod(), 20, FULL), cluster=cluster)
    assert cluster.versions() != before


def test_a_damaged_event_is_named_and_one_that_says_nothing_is_not_read() -> None:
    with pytest.raises(Unusable):
        Cluster().take("ADDED", {"kind": "Event", "reason": "Preempted", "metadata": {}})
    assert Cluster().take("ADDED", {"kind": "Event", "reason": "Scheduled"})


def test_of_too_many_events_the_oldest_are_let_go() -> None:
    events = ClusterEvents()
    for number in range(40):
        kept = event_of(k8s.cluster_event("BackOff", pod(), number))
        assert kept is not None
        events.take(kept)
        events.take(kept._replace(about=f"pod-{number}"))
    assert len(events.about([k8s.uid("llm-a")])) == 32
    events.forget(k8s.uid("llm-a"))
    assert events.about([k8s.uid("llm-a")]) == []
