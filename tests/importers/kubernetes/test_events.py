"""What a job on Kubernetes went through, as a ledger."""

import itertools
from typing import Any

import pytest

from ett_service.core.ledger.results import JobLedger
from ett_service.core.words import Category, Cause, Outcome
from ett_service.importers.kubernetes.cluster import Cluster
from tests.builders import kubernetes as k8s
from tests.builders.imports import Wire, ledgers_of, seconds
from tests.builders.kubernetes import events_of

JOB = k8s.owner("Job", "llm")
SET = k8s.owner("JobSet", "llm")
COMPLETE = k8s.condition("Complete", 901)
ADMITTED = (k8s.condition("QuotaReserved", 100), k8s.condition("Admitted", 110))

RETRIED = (
    k8s.job("llm", conditions=[COMPLETE]),
    k8s.workload("wl", JOB, 0, *ADMITTED),
    k8s.pod(
        "llm-a",
        JOB,
        111,
        scheduled=120,
        conditions=[k8s.condition("PodReadyToStartContainers", 125)],
        initContainerStatuses=k8s.init(130, 140),
        container=k8s.over(150, 500, 137, "OOMKilled"),
    ),
    k8s.pod("llm-b", JOB, 510, scheduled=512, container=k8s.over(530, 900)),
)
"""A job that waited for quota, was killed once, and whose pod was made anew."""


def folded(wire: Wire) -> JobLedger:
    """The ledger of the only job."""
    (ledger,) = ledgers_of(wire).values()
    return ledger


def stages(wire: Wire) -> dict[str, float]:
    """The length of each stage that is told as a span."""
    spans = [each for each in wire if each["type"] == "span"]
    return {each["stage"]: k8s.at(each["at"]) - k8s.at(each["start"]) for each in spans}


def of_type(wire: Wire, kind: str) -> Wire:
    """The events of one type."""
    return [each for each in wire if each["type"] == kind]


def test_the_waits_of_a_job_lie_apart() -> None:
    wire = events_of(*RETRIED)
    ledger = folded(wire)
    assert ledger.queue_wait_us == 100_000_000
    assert seconds(ledger)[Category.SCHEDULING] == 20 + 2
    assert seconds(ledger)[Category.HARDWARE_SETUP] == 30 + 18
    first = stages([each for each in wire if not each.get("cycle")])
    assert first == {
        "admission_checks": 10,
        "network_and_volumes": 5,
        "init_containers": 10,
        "image_pull": 10,
    }


def test_a_pod_that_is_made_anew_is_the_next_cycle() -> None:
    attempts = folded(events_of(*RETRIED)).attempts
    keys = [(each.launch, each.attempt, each.cycle, each.outcome, each.cause) for each in attempts]
    assert keys == [
        (k8s.uid("llm"), 0, 0, Outcome.FAILED, Cause.OOM),
        (k8s.uid("llm"), 0, 1, Outcome.COMPLETED, None),
    ]
    assert [each.gpus for each in attempts] == [8, 8]


def test_the_same_objects_in_any_order_are_the_same_events() -> None:
    expected = sorted(events_of(*RETRIED), key=lambda each: each["id"])
    for objects in itertools.permutations(RETRIED):
        assert sorted(events_of(*objects), key=lambda each: each["id"]) == expected


def test_what_is_seen_again_is_the_same_again() -> None:
    cluster = Cluster()
    assert events_of(*RETRIED, cluster=cluster) == events_of(*RETRIED, cluster=cluster)


def test_a_wait_for_a_node_that_was_made_meanwhile_is_the_start_of_that_node() -> None:
    pod = k8s.pod("llm-a", JOB, 10, scheduled=200, container=k8s.running(220), node="new")
    wire = events_of(k8s.job("llm"), pod, k8s.node("old", 0), k8s.node("new", 150))
    assert stages(wire)["node_start"] == 190
    assert "node_start" not in stages(events_of(k8s.job("llm"), pod, k8s.node("new", 0)))


def test_the_end_of_a_pod_that_was_replaced_before_is_its_own() -> None:
    first = k8s.pod("llm-a", JOB, 0, scheduled=1, container=k8s.over(2, 130, 143), deleted=100)
    second = k8s.pod("llm-b", JOB, 101, scheduled=102, container=k8s.running(103))
    (ended,) = of_type(events_of(k8s.job("llm"), first, second), "attempt_ended")
    assert ended["cycle"] == 0


def test_the_end_of_a_pod_ends_also_what_began_inside_it_and_was_not_seen() -> None:
    wire = events_of(
        k8s.job("llm"), k8s.pod("a", JOB, 0, scheduled=1, container=k8s.over(2, 99, 137))
    )
    inside = {"job": "llm", "launch": k8s.uid("llm"), "at": k8s.instant(50)}
    wire += [{"type": "attempt_started", "id": "agent", "cycle": 1, **inside}]
    attempts = folded(wire).attempts
    assert [(each.cycle, each.outcome) for each in attempts] == [
        (0, Outcome.LOST),
        (1, Outcome.FAILED),
    ]


def test_evidence_that_the_control_plane_forgets_stands_at_the_end() -> None:
    ended, _ = of_type(events_of(*RETRIED), "attempt_ended")
    evidence = ended["attributes"]
    assert (evidence["pods"], evidence["nodes"]) == (["llm-a"], ["n1"])
    assert (evidence["workload"], evidence["pod_uids"]) == ("wl", [k8s.uid("llm-a")])
    assert (ended["scheduler_state"], ended["exit_code"]) == ("OOMKilled", 137)


def test_a_gang_waits_for_its_last_pod() -> None:
    def worker(index: int, scheduled: float, started: float) -> k8s.Json:
        labels = k8s.jobset_labels("llm", index)
        container = k8s.running(started)
        name = f"w{index}"
        return k8s.pod(name, SET, 10, scheduled=scheduled, container=container, labels=labels)

    cluster = Cluster()
    wire = events_of(k8s.jobset("llm"), worker(0, 20, 30), cluster=cluster)
    assert [each["type"] for each in wire] == ["job", "phase_started"]
    ledger = folded(events_of(worker(1, 50, 90), cluster=cluster))
    assert seconds(ledger)[Category.SCHEDULING] == 40
    assert seconds(ledger)[Category.HARDWARE_SETUP] == 40
    (attempt,) = ledger.attempts
    assert (attempt.gpus, attempt.launch) == (16, k8s.uid("llm"))


def test_a_container_that_begins_again_in_its_pod_is_a_cycle_without_a_new_setup() -> None:
    first = k8s.pod("llm-a", JOB, 0, scheduled=10, container=k8s.running(20))
    again = k8s.running(130, restarts=1, last=k8s.life(20, 100, 1))
    cluster = Cluster()
    events_of(k8s.job("llm"), first, cluster=cluster)
    wire = events_of(k8s.pod("llm-a", JOB, 0, scheduled=10, container=again), cluster=cluster)
    ledger = folded(wire)
    outcomes = [(each.cycle, each.outcome) for each in ledger.attempts]
    assert outcomes == [(0, Outcome.FAILED), (1, Outcome.LOST)]
    assert round(seconds(ledger)[Category.RESTART_WAIT]) == 29
    assert seconds(ledger)[Category.HARDWARE_SETUP] == 10


def _trainer(launch: str) -> Wire:
    """What a trainer tells of its two lives, as its client does."""
    wire: Wire = []
    for life, (begin, end) in enumerate([(152, 499), (533, 898)]):
        identity = {"job": "llm", "launch": launch, "rank": 0, "producer": f"life-{life}"}

        def say(kind: str, at: float, **members: Any) -> None:
            name = {"type": kind, "id": f"t{len(wire)}", "at": k8s.instant(at)}
            wire.append({**name, **identity, **members})  # noqa: B023 -- it is called in here only

        say("attempt_started", begin, gpus=8)
        say("phase_started", begin, phase="launcher_init")
        say("phase_started", begin + 20, phase="train_loop")
        for at in range(begin + 30, end, 10):
            say("progress", at, step=at)
        say("checkpoint_saved", begin + 100, step=begin + 100)
        if life == 1:
            say("phase_ended", end, phase="train_loop")
            say("attempt_ended", end, outcome="completed")
    return wire


@pytest.mark.parametrize("launch", [k8s.uid("llm"), ""], ids=["of-the-job", "of-nobody"])
def test_trainer_and_cluster_report_one_job(launch: str) -> None:
    of_cluster, of_trainer = events_of(*RETRIED), _trainer(launch)
    ledger = folded(of_cluster + of_trainer)
    assert [(each.launch, each.attempt, each.cycle) for each in ledger.attempts] == [
        (k8s.uid("llm"), 0, 0),
        (k8s.uid("llm"), 0, 1),
    ]
    assert [each.cause for each in ledger.attempts] == [Cause.OOM, None]
    for category in (Category.SCHEDULING, Category.HARDWARE_SETUP, Category.RESTART_WAIT):
        assert seconds(ledger)[category] == seconds(folded(of_cluster))[category]
    trained = seconds(folded(of_trainer))[Category.LAUNCHER_INIT]
    assert seconds(ledger)[Category.LAUNCHER_INIT] == trained
    assert folded(list(reversed(of_cluster + of_trainer))) == ledger


def test_a_trainer_that_is_given_its_pods_uid_meets_it_there() -> None:
    env = [{"name": "ETT_LAUNCH", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}]
    pods = [
        k8s.pod("llm-a", JOB, 0, scheduled=10, container=k8s.over(20, 100, 1), env=env),
        k8s.pod("llm-b", JOB, 110, scheduled=115, container=k8s.running(120), env=env),
    ]
    attempts = folded(events_of(k8s.job("llm"), *pods)).attempts
    assert [each.launch for each in attempts] == [k8s.uid("llm-a"), k8s.uid("llm-b")]
    assert [each.cycle for each in attempts] == [0, 0]


def test_a_job_without_accelerators_that_says_nothing_of_itself_is_left_out() -> None:
    assert events_of(k8s.job("backup", gpus=0)) == []
    env = [{"name": "ETT_JOB", "value": "small"}]
    (facts,) = events_of(k8s.job("backup", gpus=0, env=env))
    assert (facts["job"], facts["name"]) == ("small", "backup")


def test_signs_of_life_are_the_same_for_a_while_and_end_with_the_pod() -> None:
    cluster, every = Cluster(), 600_000_000
    events_of(k8s.job("llm"), k8s.pod("llm-a", JOB, 0, scheduled=1), cluster=cluster)
    now = int(k8s.at(k8s.instant(60))) * 1_000_000
    (sign,) = cluster.heartbeats(k8s.uid("llm"), now, every)
    assert sign["type"] == "heartbeat"
    (again,) = cluster.heartbeats(k8s.uid("llm"), now + 1_000_000, every)
    assert again == sign
    events_of(k8s.pod("llm-a", JOB, 0, scheduled=1, container=k8s.over(2, 3)), cluster=cluster)
    assert cluster.heartbeats(k8s.uid("llm"), now, every) == []
