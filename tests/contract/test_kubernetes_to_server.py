"""What is read of Kubernetes, on the real service: taken whole, once, beside the trainer's own."""

import pytest

from ett_service.importers.kubernetes.cluster import Cluster
from tests.builders import kubernetes as k8s
from tests.builders.databases.engines import ON_ONE_ENGINE
from tests.builders.kubernetes import events_of
from tests.builders.servers.application import Service

JOB = k8s.owner("Job", "llm")
LLM = k8s.uid("llm")
WAIT = k8s.workload("wl", JOB, 0, k8s.condition("QuotaReserved", 100))
STATES = (
    (k8s.job("llm"), WAIT),
    (k8s.pod("a", JOB, 110),),
    (k8s.pod("a", JOB, 110, scheduled=120, container=k8s.running(150)),),
    (k8s.pod("a", JOB, 110, scheduled=120, container=k8s.over(150, 400, 1)),),
    (k8s.pod("b", JOB, 410, scheduled=411, container=k8s.running(420)),),
    (k8s.pod("b", JOB, 410, scheduled=411, container=k8s.over(420, 900)),),
    (k8s.job("llm", conditions=[k8s.condition("Complete", 901)]),),
)
"""A cluster as a watcher sees it, look by look."""

SECOND_POD = 4


@ON_ONE_ENGINE
@pytest.mark.parametrize("is_pod_kept", [True, False], ids=["kept", "deleted"])
@pytest.mark.parametrize("starts_anew_at", range(len(STATES)))
def test_a_watcher_that_begins_anew_at_any_moment_changes_nothing(
    service: Service, starts_anew_at: int, is_pod_kept: bool
) -> None:
    cluster, there = Cluster(), dict[str, k8s.Json]()
    for number, state in enumerate(STATES):
        there |= {each["metadata"]["uid"]: each for each in state}
        if number > SECOND_POD and not is_pod_kept:
            there.pop(k8s.uid("a"), None)
            there[LLM] = {**there[LLM], "status": {**there[LLM]["status"], "failed": 1}}
        if number == starts_anew_at:
            cluster = Cluster()
        service.ingest(events_of(*there.values(), cluster=cluster))
    job = service.get("/v1/jobs/llm")
    assert (job["state"], job["queue_wait_seconds"], job["failures"]) == ("finished", 100.0, 1)
    assert [(each["launch"], each["cycle"], each["outcome"]) for each in job["attempts"]] == [
        (LLM, 0, "failed"),
        (LLM, 1, "completed"),
    ]
    categories = {name: value for name, value in job["categories"].items() if value}
    assert {name: categories[name] for name in ("scheduling", "hardware_setup")} == {
        "scheduling": 20.0 + 1.0,
        "hardware_setup": 30.0 + 9.0,
    }
