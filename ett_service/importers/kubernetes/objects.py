"""Objects of Kubernetes, as its API writes them, read into what the mapping needs of them."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from sys import intern
from typing import Any, NamedTuple

from ett_service.importers.importer import clean
from ett_service.importers.kubernetes.templates import (
    Asks,
    Claims,
    Json,
    asks_of,
    claims_of,
    count,
    main_container,
)

Slot = tuple[str, ...]
"""The place of a pod among those of its job; a pod that replaces another one has the same."""

JOB_UID = "batch.kubernetes.io/controller-uid"
JOB_NAME = "batch.kubernetes.io/job-name"
INDEX = "batch.kubernetes.io/job-completion-index"
JOBSET_UID = "jobset.sigs.k8s.io/jobset-uid"
JOBSET_NAME = "jobset.sigs.k8s.io/jobset-name"
JOBSET_RESTART = "jobset.sigs.k8s.io/restart-attempt"
JOBSET_IN_PLACE = "jobset.sigs.k8s.io/in-place-restart-attempt"
QUEUE = "kueue.x-k8s.io/queue-name"

_JOBSET_PLACE = ("jobset.sigs.k8s.io/replicatedjob-name", "jobset.sigs.k8s.io/job-index", INDEX)
_PYTORCH_PLACE = ("training.kubeflow.org/replica-type", "training.kubeflow.org/replica-index")
_UID = re.compile(r"[0-9A-Za-z-]{1,40}")
_LONGEST_MESSAGE = 2000
_LARGEST_CODE = 1 << 32


class Condition(NamedTuple):
    """A condition at its last transition."""

    at: int  #: microseconds since the Unix epoch
    status: str  #: ``True``, ``False`` or ``Unknown``
    reason: str
    message: str


class Terminated(NamedTuple):
    """How a container ended."""

    started: int | None
    finished: int | None
    exit_code: int
    reason: str
    message: str


class Owner(NamedTuple):
    """The object that controls another one."""

    kind: str
    uid: str
    name: str


@dataclass(frozen=True, slots=True)
class Meta:
    """What every object says of itself."""

    kind: str
    uid: str
    name: str
    namespace: str
    created: int
    deleted: int | None
    owner: Owner | None
    labels: Mapping[str, str] = field(hash=False)
    annotations: Mapping[str, str] = field(hash=False)


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod and its trainer's container: the one with accelerators, else the first."""

    meta: Meta
    claims: Claims
    asks: Asks
    slot: Slot | None  #: None where pods of the job are interchangeable
    node: str | None
    conditions: Mapping[str, Condition] = field(hash=False)
    init: tuple[int, int | None] | None  #: when the first init container began, the last ended
    restarts: int
    started: int | None  #: of the container's present life
    ended: Terminated | None  #: of the present life
    ended_before: Terminated | None  #: of the life before
    waits_for: str  #: why the container waits, such as ``ImagePullBackOff``
    reason: str  #: why the pod is over, where its kubelet says so
    message: str
    is_over: bool
    has_failed: bool


@dataclass(frozen=True, slots=True)
class Root:
    """A job as its user submitted it: a Job, JobSet, TrainJob or PyTorchJob."""

    meta: Meta
    claims: Claims
    asks: Asks  #: of all pods together
    pods: int | None  #: how many run at once; None where it does not say
    conditions: Mapping[str, Condition] = field(hash=False)
    failed_pods: int
    is_training: bool


@dataclass(frozen=True, slots=True)
class Workload:
    """What Kueue says of a job."""

    meta: Meta
    conditions: Mapping[str, Condition] = field(hash=False)
    queue: str
    evictions: int  #: how many have been, at least


@lru_cache(maxsize=65536)
def instant(text: str) -> int:
    """Return an instant in microseconds since the Unix epoch. Raises ValueError for any other."""
    read = datetime.fromisoformat(text)
    if read.tzinfo is None:
        raise ValueError("an instant without a zone")
    delta = read - _EPOCH
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _at(value: Any) -> int | None:
    return None if not value else instant(value if isinstance(value, str) else value.isoformat())


def usable_uid(value: str) -> str:
    """Return the uid of an object. Raises TypeError or ValueError for what is none."""
    if _UID.fullmatch(value) is None:
        raise ValueError("no usable uid")
    return value


def _name(value: str) -> str:
    name = clean(value)
    if "/" in name or name in ("", ".", ".."):
        raise ValueError("no usable name")
    return name


def _words(value: Json | None) -> dict[str, str]:
    # Thousands of pods bear the same names, and most of them the same words.
    return {
        intern(name): intern(text) for name, text in (value or {}).items() if isinstance(text, str)
    }


def meta_of(thing: Json) -> Meta:
    """Read the metadata. Raises KeyError, TypeError, ValueError or AttributeError for junk."""
    meta = thing["metadata"]
    created = _at(meta["creationTimestamp"])
    if created is None:
        raise ValueError("no creationTimestamp")
    owner = next(
        (each for each in meta.get("ownerReferences") or () if each.get("controller")), None
    )
    return Meta(
        kind=str(thing.get("kind", "")),
        uid=usable_uid(meta["uid"]),
        name=_name(meta["name"]),
        namespace=clean(str(meta.get("namespace", ""))),
        created=created,
        deleted=_at(meta.get("deletionTimestamp")),
        owner=owner and Owner(str(owner["kind"]), usable_uid(owner["uid"]), _name(owner["name"])),
        labels=_words(meta.get("labels")),
        annotations=_words(meta.get("annotations")),
    )


def conditions_of(thing: Json) -> dict[str, Condition]:
    """Read the conditions that have an instant."""
    return {
        intern(str(each["type"])): Condition(
            instant_of,
            intern(str(each.get("status", ""))),
            intern(clean(str(each.get("reason") or ""))),
            clean(str(each.get("message") or ""), _LONGEST_MESSAGE),
        )
        for each in (thing.get("status") or {}).get("conditions") or ()
        if (instant_of := _at(each.get("lastTransitionTime"))) is not None
    }


def pod_of(thing: Json) -> Pod:
    """Read a pod. Raises what :func:`meta_of` raises."""
    meta, spec, status = meta_of(thing), thing["spec"], thing.get("status") or {}
    if uid := meta.labels.get(JOBSET_UID):
        _name(meta.labels.get(JOBSET_NAME, usable_uid(uid)))
    main = main_container(spec)
    statuses = status.get("containerStatuses") or ()
    own: Json = next((each for each in statuses if each["name"] == main["name"]), {})
    state = own.get("state") or {}
    running = state.get("running") or {}
    return Pod(
        meta=meta,
        claims=claims_of(spec, meta.labels, meta.annotations, _own_fields(meta)),
        asks=asks_of(spec),
        slot=_slot(meta),
        node=clean(spec.get("nodeName") or "") or None,
        conditions=conditions_of(thing),
        init=_init(status),
        restarts=max(count(own.get("restartCount")), _number(meta.annotations, JOBSET_IN_PLACE)),
        started=_at(running.get("startedAt")),
        ended=_terminated(state.get("terminated")),
        ended_before=_terminated((own.get("lastState") or {}).get("terminated")),
        waits_for=clean(str((state.get("waiting") or {}).get("reason") or "")),
        reason=clean(str(status.get("reason") or "")),
        message=clean(str(status.get("message") or ""), _LONGEST_MESSAGE),
        is_over=status.get("phase") in ("Succeeded", "Failed"),
        has_failed=status.get("phase") == "Failed",
    )


def _number(words: Mapping[str, str], name: str) -> int:
    text = str(words.get(name, ""))
    return int(text) if text.isascii() and text.isdigit() and len(text) < 7 else 0  # noqa: PLR2004


def restart_attempt(meta: Meta) -> int:
    """Return how often the JobSet of a pod had been made anew when it was made."""
    return _number(meta.labels, JOBSET_RESTART)


def _own_fields(meta: Meta) -> dict[str, str]:
    return {
        "metadata.uid": meta.uid,
        "metadata.name": meta.name,
        "metadata.namespace": meta.namespace,
    }


def _slot(meta: Meta) -> Slot | None:
    for names in (_JOBSET_PLACE, _PYTORCH_PLACE, (INDEX,)):
        places = tuple(str(meta.labels.get(name, meta.annotations.get(name, ""))) for name in names)
        if places[0]:
            return places
    return None


def _init(status: Json) -> tuple[int, int | None] | None:
    states = [each.get("state") or {} for each in status.get("initContainerStatuses") or ()]
    over = [ended for each in states if (ended := _terminated(each.get("terminated")))]
    begun = [ended.started for ended in over if ended.started is not None]
    begun += [at for each in states if (at := _at((each.get("running") or {}).get("startedAt")))]
    ends = [ended.finished for ended in over if ended.finished is not None]
    return (min(begun), max(ends, default=None)) if begun else None


def _terminated(state: Json | None) -> Terminated | None:
    if not state:
        return None
    return Terminated(
        _at(state.get("startedAt")),
        _at(state.get("finishedAt")),
        _exit_code(state.get("exitCode", 0)),
        clean(str(state.get("reason") or "")),
        clean(str(state.get("message") or ""), _LONGEST_MESSAGE),
    )


def _exit_code(value: Any) -> int:
    code = int(value)
    if abs(code) > _LARGEST_CODE:
        raise ValueError("no exit code")
    return code


class _Part(NamedTuple):
    """Pods of one template."""

    pods: int
    template: Json
    labels: Mapping[str, str]


def root_of(thing: Json) -> Root:
    """Read a job. Raises what :func:`meta_of` raises."""
    meta, status = meta_of(thing), thing.get("status") or {}
    parts = list(_PARTS[meta.kind](meta, thing["spec"]))
    claims, asks = Claims(), Asks()
    for part in parts:
        spec = part.template["spec"]
        words = {**((part.template.get("metadata") or {}).get("labels") or {}), **part.labels}
        claims = _first_of(
            claims, claims_of(spec, words, {}, {"metadata.namespace": meta.namespace})
        )
        own = asks_of(spec)
        asks = Asks(
            asks.gpus + part.pods * own.gpus,
            asks.hardware or own.hardware,
            asks.image if asks.gpus else own.image,
        )
    return Root(
        meta=meta,
        claims=claims,
        asks=asks,
        pods=sum(part.pods for part in parts) if parts else None,
        conditions=conditions_of(thing),
        failed_pods=count(status.get("failed")) if meta.kind == "Job" else 0,
        is_training=meta.kind != "Job" or asks.gpus > 0 or claims != Claims(),
    )


def _first_of(claims: Claims, others: Claims) -> Claims:
    return Claims(
        claims.job or others.job,
        claims.launch or others.launch,
        others.attempt if claims.attempt is None else claims.attempt,
    )


def _of_job(meta: Meta, spec: Json) -> Iterator[_Part]:
    labels = {JOB_UID: meta.uid, JOB_NAME: meta.name, "controller-uid": meta.uid}
    yield _Part(_parallel(spec), spec["template"], {**labels, "job-name": meta.name})


def _parallel(spec: Json) -> int:
    parallelism = spec.get("parallelism")
    return 1 if parallelism is None else count(parallelism)


def _of_jobset(meta: Meta, spec: Json) -> Iterator[_Part]:
    for group in spec["replicatedJobs"]:
        job, replicas = group["template"]["spec"], group.get("replicas")
        pods = (1 if replicas is None else count(replicas)) * _parallel(job)
        yield _Part(pods, job["template"], {JOBSET_UID: meta.uid, JOBSET_NAME: meta.name})


def _of_pytorch_job(meta: Meta, spec: Json) -> Iterator[_Part]:
    for group in spec["pytorchReplicaSpecs"].values():
        replicas = group.get("replicas")
        pods = 1 if replicas is None else count(replicas)
        yield _Part(pods, group["template"], {"training.kubeflow.org/job-name": meta.name})


def _of_train_job(_: Meta, __: Json) -> Iterator[_Part]:
    """Its pods are those of its JobSet, by a template that lies elsewhere."""
    return iter(())


_PARTS = {
    "Job": _of_job,
    "JobSet": _of_jobset,
    "PyTorchJob": _of_pytorch_job,
    "TrainJob": _of_train_job,
}
ROOTS = frozenset(_PARTS)
"""Kinds that users submit."""


def workload_of(thing: Json) -> Workload:
    """Read a Workload of Kueue. Raises what :func:`meta_of` raises."""
    status = thing.get("status") or {}
    conditions = conditions_of(thing)
    stats = (status.get("schedulingStats") or {}).get("evictions") or ()
    seen = int(any(name in conditions for name in ("Evicted", "Requeued", "Preempted")))
    return Workload(
        meta=meta_of(thing),
        conditions=conditions,
        queue=str((thing.get("spec") or {}).get("queueName") or ""),
        evictions=max(
            sum(count(each.get("count")) for each in stats),
            count((status.get("requeueState") or {}).get("count")),
            seen,
        ),
    )
