"""What is read of an object."""

import pytest

from ett_service.importers.kubernetes.objects import instant, root_of
from tests.builders import kubernetes as k8s


def test_a_jobset_has_the_pods_of_all_its_groups() -> None:
    jobset = k8s.jobset("llm", workers=4)
    jobset["spec"]["replicatedJobs"][0]["replicas"] = 2
    root = root_of(jobset)
    assert (root.pods, root.asks.gpus, root.asks.hardware) == (8, 64, "H100")


def test_a_pytorch_job_has_a_master_and_workers() -> None:
    template = k8s.template(gpus=8)
    root = root_of(
        {
            "kind": "PyTorchJob",
            "metadata": k8s.meta("llm", 0),
            "spec": {
                "pytorchReplicaSpecs": {
                    "Master": {"replicas": 1, "template": template},
                    "Worker": {"replicas": 3, "template": template},
                }
            },
        }
    )
    assert (root.pods, root.asks.gpus, root.is_training) == (4, 32, True)


def test_an_instant_has_a_zone() -> None:
    assert instant("2026-03-01T12:00:00Z") == instant("2026-03-01T14:00:00.000000+02:00")
    with pytest.raises(ValueError, match="zone"):
        instant("2026-03-01T12:00:00")
