"""Waiting for quota: each wait once, however often its conditions turn."""

from ett_service.core.words import Outcome
from ett_service.importers.kubernetes.cluster import ADDED, MODIFIED, Cluster
from ett_service.importers.kubernetes.objects import workload_of
from ett_service.importers.kubernetes.quota import Quota, Wait
from tests.builders import kubernetes as k8s
from tests.builders.imports import ledgers_of
from tests.builders.kubernetes import events_of

JOB = k8s.owner("Job", "llm")
HOUR, WEEK = 3600, 7 * 86_400
DAY_OF = k8s.at(k8s.instant(0))


def workload(*conditions: k8s.Json, **status: object) -> k8s.Json:
    return k8s.workload("wl", JOB, 0, *conditions, **status)


def waits(*states: k8s.Json) -> list[tuple[float, float | None]]:
    """Begin and end of each wait, in seconds, of a Workload that is seen in these states."""
    quota = Quota(workload_of(states[0]))
    for state in states:
        quota.take(workload_of(state))
    return [(_seconds(wait), _reserved(wait)) for wait in quota.waits]


def _seconds(wait: Wait) -> float:
    return wait.begin / 1e6 - DAY_OF


def _reserved(wait: Wait) -> float | None:
    return None if wait.reserved_at is None else wait.reserved_at / 1e6 - DAY_OF


RESERVED = k8s.condition("QuotaReserved", 100)
READY = k8s.condition("PodsReady", 200, reason="Started")
EVICTED = k8s.condition("Evicted", HOUR, reason="Preempted")


def test_pods_that_are_ready_anew_after_a_recovery_lengthen_no_wait() -> None:
    recovering = k8s.condition("PodsReady", WEEK, "False", "WaitForRecovery")
    recovered = k8s.condition("PodsReady", WEEK + 60, reason="Recovered")
    states = [workload(RESERVED, READY), workload(RESERVED, recovering)]
    assert waits(*states, workload(RESERVED, recovered)) == [(0, 100)]
    assert waits(workload(RESERVED, recovered)) == [(0, 100)]


def test_a_workload_that_was_evicted_waits_anew() -> None:
    evicted = workload(k8s.condition("QuotaReserved", HOUR, "False"), EVICTED)
    again = workload(
        k8s.condition("QuotaReserved", 2 * HOUR), k8s.condition("Evicted", 2 * HOUR, "False")
    )
    assert waits(workload(RESERVED), evicted, again) == [(0, 100), (HOUR, 2 * HOUR)]


def test_a_quota_that_is_not_yet_given_back_ends_no_later_wait() -> None:
    assert waits(workload(RESERVED), workload(RESERVED, EVICTED)) == [(0, 100), (HOUR, None)]


def test_a_workload_that_was_queued_anew_once_waits_anew_once() -> None:
    requeued = k8s.condition("Requeued", HOUR + 60)
    evicted = workload(k8s.condition("QuotaReserved", HOUR, "False"), EVICTED, requeued)
    again = workload(k8s.condition("QuotaReserved", 2 * HOUR), requeued)
    assert waits(workload(RESERVED), evicted, again, again) == [(0, 100), (HOUR, 2 * HOUR)]


def test_of_a_wait_that_is_seen_too_late_nothing_is_made_up() -> None:
    again = workload(
        k8s.condition("QuotaReserved", 2 * HOUR),
        k8s.condition("Evicted", 2 * HOUR, "False"),
        k8s.condition("Requeued", HOUR + 60),
        requeueState={"count": 1},
    )
    assert waits(again) == [(HOUR + 60, 2 * HOUR)]


def test_whoever_took_the_place_is_named() -> None:
    taker = k8s.uid("urgent")
    message = f"Preempted to accommodate a workload (UID: x, JobUID: {taker}) due to priority"
    cluster = Cluster()
    pod = k8s.pod("llm-a", JOB, 110, scheduled=120, container=k8s.running(130))
    events_of(k8s.job("llm"), k8s.job("urgent"), workload(RESERVED), pod, cluster=cluster)
    off = k8s.condition("QuotaReserved", HOUR, "False")
    evicted = k8s.condition("Evicted", HOUR, reason="Preempted", message=message)
    cluster.take(MODIFIED, workload(off, evicted))
    killed = k8s.over(130, HOUR + 30, 143)
    cluster.take(
        "DELETED", k8s.pod("llm-a", JOB, 110, scheduled=120, container=killed, deleted=HOUR + 1)
    )
    wire = k8s.all_events(cluster)
    (ended,) = [each for each in wire if each["type"] == "attempt_ended"]
    assert (ended["outcome"], ended["preempted_by"]) == (Outcome.PREEMPTED, "urgent")
    assert ended["scheduler_state"] == "Preempted"
    assert ended["attributes"]["preemptor_uids"] == ["x", taker]
    ledger = ledgers_of([each for each in wire if each["job"] == "llm"])["llm"]
    assert [each.outcome for each in ledger.attempts] == [Outcome.PREEMPTED]
    (waiting,) = [each for each in wire if each.get("cycle") == 1 and "stage" not in each]
    assert (waiting["type"], waiting["phase"]) == ("phase_started", "queued")


def test_a_job_that_is_suspended_waits_until_it_is_resumed() -> None:
    cluster = Cluster()
    resumed = k8s.condition("Suspended", 300, "False", "JobResumed")
    cluster.take(ADDED, k8s.job("llm", conditions=[k8s.condition("Suspended", 0)]))
    cluster.take(MODIFIED, k8s.job("llm", conditions=[resumed]))
    cluster.take(ADDED, k8s.pod("llm-a", JOB, 301, scheduled=310, container=k8s.running(320)))
    wire = k8s.all_events(cluster)
    ledger = ledgers_of(wire)["llm"]
    assert ledger.queue_wait_us == 300_000_000
    stages = {each.get("stage") for each in wire if each.get("phase") == "queued"}
    assert stages == {None, "suspended"}
