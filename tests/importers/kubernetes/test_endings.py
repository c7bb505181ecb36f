"""How an attempt ended, and why."""

import pytest

from ett_service.core.words import Cause, Outcome
from ett_service.importers.kubernetes.cluster import Cluster
from tests.builders import kubernetes as k8s
from tests.builders.imports import Wire, ledgers_of
from tests.builders.kubernetes import events_of

JOB = k8s.owner("Job", "llm")


def disrupted(reason: str) -> k8s.Json:
    return k8s.condition("DisruptionTarget", 90, reason=reason, message=f"by {reason}")


def ended(container: k8s.Json, **pod: object) -> k8s.Json:
    return k8s.pod("llm-a", JOB, 0, scheduled=5, container=container, **pod)  # type: ignore[arg-type]


KILLED = k8s.over(10, 100, 137)


@pytest.mark.parametrize(
    ("pod", "outcome", "cause"),
    [
        (ended(k8s.over(10, 100)), Outcome.COMPLETED, None),
        (ended(k8s.over(10, 100, 137, "OOMKilled")), Outcome.FAILED, Cause.OOM),
        (
            ended(KILLED, conditions=[disrupted("PreemptionByScheduler")], deleted=91),
            Outcome.PREEMPTED,
            Cause.PREEMPTION,
        ),
        (
            ended(KILLED, conditions=[disrupted("DeletionByTaintManager")], deleted=91),
            Outcome.FAILED,
            Cause.HOST,
        ),
        (ended(KILLED, reason="NodeShutdown"), Outcome.FAILED, Cause.HOST),
        (ended(KILLED, deleted=70), Outcome.CANCELLED, None),
    ],
    ids=["well", "memory", "preempted", "node-lost", "shutdown", "deleted"],
)
def test_the_end_of_a_pod_says_outcome_and_cause(
    pod: k8s.Json, outcome: Outcome, cause: Cause | None
) -> None:
    (attempt,) = ledgers_of(events_of(k8s.job("llm"), pod))["llm"].attempts
    assert (attempt.outcome, attempt.cause) == (outcome, cause)


def test_a_container_that_began_again_had_failed_whatever_is_known_of_it() -> None:
    first = k8s.pod("a", JOB, 0, scheduled=5, container=k8s.running(10))
    again = k8s.pod("a", JOB, 0, scheduled=5, container=k8s.running(90, restarts=1))
    cluster = Cluster()
    events_of(k8s.job("llm"), first, cluster=cluster)
    attempts = ledgers_of(events_of(again, cluster=cluster))["llm"].attempts
    assert [each.outcome for each in attempts] == [Outcome.FAILED, Outcome.LOST]


def _ends(wire: Wire) -> list[tuple[str, str]]:
    return [(each["type"], each["outcome"]) for each in wire if "outcome" in each]


def test_the_first_pod_that_fails_decides_and_not_those_that_are_torn_down() -> None:
    owner = k8s.owner("JobSet", "llm")

    def worker(index: int, code: int, at: float, deleted: float | None) -> k8s.Json:
        labels = k8s.jobset_labels("llm", index)
        container = k8s.over(10, at, code)
        return k8s.pod(
            f"w{index}", owner, 0, scheduled=5, container=container, labels=labels, deleted=deleted
        )

    wire = events_of(k8s.jobset("llm"), worker(0, 143, 60, 55), worker(1, 42, 50, None))
    (ended_,) = [each for each in wire if each["type"] == "attempt_ended"]
    assert (ended_["outcome"], ended_["exit_code"]) == ("failed", 42)


def test_a_job_says_itself_how_it_ended() -> None:
    failed = k8s.condition("Failed", 101, reason="DeadlineExceeded", message="too long")
    wire = events_of(k8s.job("llm", conditions=[failed]), ended(KILLED, deleted=99))
    assert _ends(wire) == [("attempt_ended", "failed"), ("job_ended", "failed")]
    ledger = ledgers_of(wire)["llm"]
    assert [each.cause for each in ledger.attempts] == [Cause.SCHEDULER_TIMEOUT]


def test_a_pod_that_never_began_says_what_it_waited_for() -> None:
    pod = k8s.pod("llm-a", JOB, 0, scheduled=5, container=k8s.waiting("ImagePullBackOff"))
    pod["status"]["phase"] = "Failed"
    (attempt,) = ledgers_of(events_of(k8s.job("llm"), pod))["llm"].attempts
    assert (attempt.outcome, attempt.cause) == (Outcome.FAILED, Cause.DEPENDENCY)
