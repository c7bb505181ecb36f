"""What the template of a pod says."""

import pytest

from ett_service.importers.kubernetes.objects import pod_of, root_of
from ett_service.importers.kubernetes.templates import Claims
from tests.builders import kubernetes as k8s

JOB = k8s.owner("Job", "llm")


def field(name: str, path: str) -> k8s.Json:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


IDENTITY = [
    {"name": "ETT_JOB", "value": "big"},
    field("ETT_LAUNCH", "metadata.labels['batch.kubernetes.io/controller-uid']"),
    field("ETT_ATTEMPT", "metadata.annotations['retry']"),
]


def test_a_pod_says_who_its_trainer_will_say_it_is() -> None:
    labels = {"batch.kubernetes.io/controller-uid": "u-1"}
    pod = k8s.pod("a", JOB, 0, env=IDENTITY, labels=labels)
    pod["metadata"]["annotations"] = {"retry": "3"}
    assert pod_of(pod).claims == Claims("big", "u-1", 3)


def test_what_only_the_running_container_knows_is_left_open() -> None:
    env = [{"name": "ETT_JOB", "value": "$(NAME)-x"}, field("ETT_LAUNCH", "spec.nodeName")]
    assert pod_of(k8s.pod("a", JOB, 0, env=env)).claims == Claims()


def test_a_job_says_before_it_has_pods_what_they_will_say() -> None:
    root = root_of(k8s.job("llm", env=IDENTITY))
    assert root.claims == Claims("big", k8s.uid("llm"), None)


@pytest.mark.parametrize(
    ("name", "gpus"),
    [
        ("nvidia.com/gpu", 8),
        ("amd.com/gpu", 8),
        ("google.com/tpu", 8),
        ("habana.ai/gaudi", 8),
        ("nvidia.com/mig-1g.5gb", 8),
        ("cpu", 0),
        ("ephemeral-storage", 0),
    ],
)
def test_accelerators_are_counted_whoever_made_them(name: str, gpus: int) -> None:
    job = k8s.job("llm", pods=4)
    container = job["spec"]["template"]["spec"]["containers"][1]
    container["resources"] = {"limits": {name: "8"}}
    assert root_of(job).asks.gpus == 4 * gpus


@pytest.mark.parametrize("name", ["a/b", "..", "\n"])
def test_a_name_that_could_not_be_stored_is_none(name: str) -> None:
    env = [{"name": "ETT_JOB", "value": name}]
    assert pod_of(k8s.pod("a", JOB, 0, env=env)).claims.job is None
