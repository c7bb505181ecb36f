"""Objects of Kubernetes as its API server writes them. Instants are seconds after ``START``."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from ett_service.importers.importer import WireEvent
from ett_service.importers.kubernetes.cluster import ADDED, Cluster

Json = dict[str, Any]

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
NAMESPACE = "research"
JOBSET = "jobset.sigs.k8s.io"


def instant(seconds: float) -> str:
    """Write an instant as Kubernetes does: whole seconds in UTC."""
    return (START + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def uid(name: str) -> str:
    """Return a uid that is made from a name, to be recognised."""
    return (name.encode().hex() + "0" * 32)[:36]


def meta(name: str, created: float, owner: Json | None = None, **members: Any) -> Json:
    """Return the metadata of an object."""
    owners = {"ownerReferences": [owner]} if owner else {}
    return {
        "name": name,
        "namespace": NAMESPACE,
        "uid": uid(name),
        "creationTimestamp": instant(created),
        "resourceVersion": "1",
        **owners,
        **members,
    }


def owner(kind: str, name: str) -> Json:
    """Return a reference to the controller of an object."""
    return {"kind": kind, "name": name, "uid": uid(name), "controller": True, "apiVersion": "v1"}


def condition(
    name: str, at: float, status: str = "True", reason: str = "", message: str = ""
) -> Json:
    """Return a condition."""
    return {
        "type": name,
        "status": status,
        "lastTransitionTime": instant(at),
        "reason": reason,
        "message": message,
    }


def template(gpus: int = 8, env: Sequence[Json] = ()) -> Json:
    """Return the pods' template: a log shipper, and the trainer."""
    return {
        "metadata": {},
        "spec": {
            "containers": [
                {"name": "logs", "image": "logs:1"},
                {
                    "name": "trainer",
                    "image": "trainer:1",
                    "env": list(env),
                    "resources": {"limits": {"nvidia.com/gpu": str(gpus)}},
                },
            ],
            "nodeSelector": {"nvidia.com/gpu.product": "H100"},
        },
    }


def job(
    name: str,
    created: float = 0,
    *,
    pods: int = 1,
    gpus: int = 8,
    conditions: Sequence[Json] = (),
    env: Sequence[Json] = (),
    **members: Any,
) -> Json:
    """Return a Job."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": meta(name, created, **members),
        "spec": {"parallelism": pods, "completions": pods, "template": template(gpus, env)},
        "status": {"conditions": list(conditions)},
    }


def jobset(
    name: str,
    created: float = 0,
    *,
    workers: int = 2,
    conditions: Sequence[Json] = (),
    env: Sequence[Json] = (),
    restarts: int = 0,
    **members: Any,
) -> Json:
    """Return a JobSet of one group of workers."""
    spec = {"parallelism": workers, "completions": workers, "template": template(env=env)}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": meta(name, created, **members),
        "spec": {
            "replicatedJobs": [{"name": "workers", "replicas": 1, "template": {"spec": spec}}]
        },
        "status": {"conditions": list(conditions), "restarts": restarts},
    }


def jobset_labels(name: str, index: int, restart: int = 0) -> dict[str, str]:
    """Return the labels of a pod of a JobSet."""
    return {
        f"{JOBSET}/jobset-name": name,
        f"{JOBSET}/jobset-uid": uid(name),
        f"{JOBSET}/replicatedjob-name": "workers",
        f"{JOBSET}/job-index": "0",
        f"{JOBSET}/restart-attempt": str(restart),
        "batch.kubernetes.io/job-completion-index": str(index),
    }


def waiting(reason: str = "ContainerCreating", restarts: int = 0) -> Json:
    """Return the status of a trainer's container that has not begun."""
    return _container({"waiting": {"reason": reason}}, restarts)


def running(started: float, restarts: int = 0, last: Json | None = None) -> Json:
    """Return the status of one that runs; *last* is its life before."""
    return _container({"running": {"startedAt": instant(started)}}, restarts, last)


def over(started: float, ended: float, code: int = 0, reason: str = "", restarts: int = 0) -> Json:
    """Return the status of one that has ended."""
    return _container({"terminated": life(started, ended, code, reason)}, restarts)


def life(started: float, ended: float, code: int = 0, reason: str = "") -> Json:
    """Return one run of a container."""
    return {
        "startedAt": instant(started),
        "finishedAt": instant(ended),
        "exitCode": code,
        "reason": reason or ("Error" if code else "Completed"),
    }


def _container(state: Json, restarts: int, last: Json | None = None) -> Json:
    before = {"lastState": {"terminated": last}} if last else {}
    return {"name": "trainer", "restartCount": restarts, "state": state, **before}


def init(started: float, ended: float) -> list[Json]:
    """Return the statuses of init containers that are over."""
    return [{"name": "init", "state": {"terminated": life(started, ended)}}]


def pod(
    name: str,
    of: Json | None,
    created: float,
    *,
    scheduled: float | None = None,
    container: Json | None = None,
    conditions: Sequence[Json] = (),
    deleted: float | None = None,
    **members: Any,
) -> Json:
    """Return a pod as far as it has come.

    *members* are its ``labels``, ``env`` and ``node``, and any of its status.
    """
    container = container or waiting()
    placed = [] if scheduled is None else [condition("PodScheduled", scheduled)]
    gone = {} if deleted is None else {"deletionTimestamp": instant(deleted)}
    labels, env = members.pop("labels", {}), members.pop("env", ())
    node = members.pop("node", "n1")
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta(name, created, of, labels=labels, **gone),
        "spec": {
            **template(env=env)["spec"],
            **({"nodeName": node} if scheduled is not None else {}),
        },
        "status": {
            "phase": _phase(container["state"]),
            "conditions": [*placed, *conditions],
            "containerStatuses": [{"name": "logs", "restartCount": 0, "state": {}}, container],
            **members,
        },
    }


def _phase(state: Json) -> str:
    if "terminated" in state:
        return "Failed" if state["terminated"]["exitCode"] else "Succeeded"
    return "Running" if "running" in state else "Pending"


def workload(name: str, of: Json, created: float, *conditions: Json, **status: Any) -> Json:
    """Return a Workload of Kueue."""
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "Workload",
        "metadata": meta(name, created, of),
        "spec": {"queueName": "research"},
        "status": {"conditions": list(conditions), **status},
    }


def cluster_event(reason: str, about: Json, at: float, message: str = "", **members: Any) -> Json:
    """Return an Event of the core about an object."""
    meta_of = about["metadata"]
    name = f"{meta_of['name']}.{reason}{at:g}"
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": meta(name, at),
        "involvedObject": {
            "kind": about["kind"], "name": meta_of["name"], "uid": meta_of["uid"],
            "fieldPath": members.pop("part", ""),
        },
        "reason": reason,
        "message": message,
        "firstTimestamp": instant(at),
        "lastTimestamp": instant(at + 1),
        "count": 2,
        **members,
    }  # fmt: skip


def newer_event(reason: str, about: Json, at: float, message: str = "", **members: Any) -> Json:
    """Return the same as ``events.k8s.io`` has it."""
    older = cluster_event(reason, about, at, message, **members)
    left = ("involvedObject", "message", "firstTimestamp", "lastTimestamp", "count")
    renamed = {"apiVersion": "events.k8s.io/v1", "regarding": older["involvedObject"]}
    times = {"eventTime": instant(at).replace("Z", ".000000Z"), "deprecatedFirstTimestamp": None}
    kept = {name: value for name, value in older.items() if name not in left}
    return {**kept, **renamed, **times, "note": message}


def node(name: str, created: float) -> Json:
    """Return a node."""
    made = {**meta(name, created), "namespace": ""}
    return {"apiVersion": "v1", "kind": "Node", "metadata": made, "status": {"images": ["many"]}}


def dump(*objects: Json) -> Json:
    """Return what ``kubectl get -o json`` prints of objects."""
    return {"apiVersion": "v1", "items": list(objects), "kind": "List", "metadata": {}}


def at(text: str) -> float:
    """Return an instant as seconds since the Unix epoch."""
    return datetime.fromisoformat(text).timestamp()


def events_of(*objects: Json, cluster: Cluster | None = None) -> list[WireEvent]:
    """Return all events of a cluster after objects are seen at once."""
    cluster = cluster or Cluster()
    for each in objects:
        cluster.take(ADDED, each)
    return all_events(cluster)


def all_events(cluster: Cluster) -> list[WireEvent]:
    """Return all that there is to say of a cluster."""
    return [event for uid in cluster.versions() for event in cluster.events(uid)]
