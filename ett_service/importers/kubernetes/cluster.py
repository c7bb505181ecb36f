"""A cluster as its objects and their changes tell it, and the events of the jobs in it.

This is all that the watcher and the importer of dumps share, and all that they differ from is
where the objects come from. It reads no clock: whoever feeds it says when a change was seen.
"""

from collections.abc import Collection

from ett_service.core.errors import EttError
from ett_service.importers.importer import WireEvent, clean
from ett_service.importers.kubernetes.cluster_events import ClusterEvents, event_of
from ett_service.importers.kubernetes.events import Job, Surroundings, events_of, heartbeats
from ett_service.importers.kubernetes.lives import Attempts
from ett_service.importers.kubernetes.objects import (
    JOBSET_NAME,
    JOBSET_UID,
    ROOTS,
    Meta,
    Owner,
    Pod,
    Root,
    Workload,
    meta_of,
    pod_of,
    root_of,
    workload_of,
)
from ett_service.importers.kubernetes.quota import Quota
from ett_service.importers.kubernetes.templates import Json

NAMES = ("name", "namespace", "cluster", "kind")
DEFAULT_NAME = "{name}"

ADDED, MODIFIED, DELETED = "ADDED", "MODIFIED", "DELETED"


class Unusable(EttError):
    """An object lacks what every object has, or has something else there; the message says it."""


class Cluster:
    """The jobs of one cluster.

    Args:
        name: what the cluster is called in facts about its jobs.
        job: a name for all jobs, where they are to be one.
        template: what jobs are called that do not say it themselves, of ``NAMES``.
    """

    def __init__(
        self, name: str | None = None, job: str | None = None, template: str = DEFAULT_NAME
    ) -> None:
        self._name = name
        self._job = job
        self._template = template
        self._namespaces: dict[str, str] = {}  #: of the jobs whose names were made here
        self._jobs: dict[str, Job] = {}
        self._jobset_of: dict[str, str] = {}  #: uid of a TrainJob to that of its JobSet
        self._jobsets: dict[tuple[str, str], str] = {}  #: namespace and name to uid
        self._nodes: dict[str, int] = {}  #: when each was made, by name
        self._kinds: dict[str, str] = {}  #: of every object that is there, by uid
        self._pods: dict[str, str] = {}  #: uid of a pod to that of its job
        self._new_pods: dict[str, Pod] = {}
        self._waiting: dict[str, Pod] = {}  #: pods whose job is not known yet
        self._workloads: dict[str, Workload] = {}  #: those whose job is not known yet
        self._events = ClusterEvents()

    def take(self, change: str, thing: Json, seen_at: int | None = None) -> bool:
        """Take in an object, or a change of one that was seen at *seen_at*, in microseconds.

        False for an object of a kind that says nothing of jobs.

        Raises:
            Unusable: where it is damaged.
        """
        try:
            return self._take(change, thing, seen_at)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise Unusable(clean(f"no whole object: {type(error).__name__} {error}")) from None

    def _take(self, change: str, thing: Json, seen_at: int | None) -> bool:
        kind = thing["kind"]
        if kind == "Pod":
            self._take_pod(pod_of(thing), change, seen_at)
        elif kind in ROOTS:
            self._take_root(root_of(thing), change, seen_at)
        elif kind == "Node":
            self._take_node(meta_of(thing), change)
        elif kind == "Event":
            self._take_event(thing, change)
        elif kind == "Workload" and str(thing.get("apiVersion", "")).startswith("kueue."):
            self._take_workload(workload_of(thing), change)
        else:
            return False
        return True

    def _take_node(self, node: Meta, change: str) -> None:
        if change == DELETED:
            self._nodes.pop(node.name, None)
        else:
            self._nodes[node.name] = node.created

    def _take_event(self, thing: Json, change: str) -> None:
        """What an Event says outlives it: the API server deletes it after an hour."""
        event = event_of(thing)
        if event is None or change == DELETED:
            return
        self._events.take(event)
        job = self._jobs.get(self._pods.get(event.about, event.about))
        if job is not None:
            job.version += 1

    def _take_pod(self, pod: Pod, change: str, seen_at: int | None) -> None:
        uid = pod.meta.uid
        if self._root_of(pod) is None:
            if _is_of_older_jobset(pod) and change != DELETED:
                self._waiting[uid] = pod
            return
        self._note(pod.meta, change)
        self._waiting.pop(uid, None)
        if uid in self._pods:
            self._settle_pod(pod)
        else:
            self._new_pods[uid] = pod
        if change == DELETED:
            self._settle_pods()
            if (job := self._jobs.get(self._pods.get(uid, ""))) is not None:
                job.attempts.leave(uid, pod.meta.deleted or seen_at or _last_instant(pod))

    def _note(self, meta: Meta, change: str) -> None:
        if change == DELETED:
            self._kinds.pop(meta.uid, None)
        else:
            self._kinds[meta.uid] = meta.kind

    def _root_of(self, pod: Pod) -> Owner | None:
        """Return the job of a pod, None where it is not known yet, or where it has none."""
        labels, owner = pod.meta.labels, pod.meta.owner
        if uid := labels.get(JOBSET_UID):
            return Owner("JobSet", uid, clean(labels.get(JOBSET_NAME, uid)))
        if owner is None:
            return Owner("Pod", pod.meta.uid, pod.meta.name) if pod.claims.job else None
        if _is_of_older_jobset(pod):
            name = labels[JOBSET_NAME]
            uid = self._jobsets.get((pod.meta.namespace, name))
            return Owner("JobSet", uid, name) if uid else None
        return owner if owner.kind in ROOTS or pod.claims.job else None

    def _settle_pods(self) -> None:
        """Give the pods that are new to their jobs, those that were made first before others."""
        new, self._new_pods = self._new_pods, {}
        for pod in sorted(new.values(), key=lambda pod: (pod.meta.created, pod.meta.name)):
            self._settle_pod(pod)

    def _settle_pod(self, pod: Pod) -> None:
        owner = self._root_of(pod)
        if owner is None:
            return
        job = self._job_of(owner, pod.meta.namespace)
        self._pods[pod.meta.uid] = job.uid
        evictions = sum(quota.evictions_before(pod.meta.created) for quota in job.quotas.values())
        job.attempts.take(pod, job.root, evictions)

    def _job_of(self, owner: Owner, namespace: str) -> Job:
        job = self._jobs.get(owner.uid)
        if job is None:
            job = Job(owner.kind, owner.uid, owner.name, namespace, Attempts(owner.uid))
            self._jobs[owner.uid] = job
        job.version += 1
        return job

    def _take_root(self, root: Root, change: str, seen_at: int | None) -> None:
        meta = root.meta
        self._note(meta, change)
        if meta.owner is not None and meta.owner.kind == "JobSet":
            return
        if meta.kind == "JobSet":
            self._jobsets[meta.namespace, meta.name] = meta.uid
            if meta.owner is not None and meta.owner.kind == "TrainJob":
                self._jobset_of[meta.owner.uid] = meta.uid
        job = self._job_of(Owner(meta.kind, meta.uid, meta.name), meta.namespace)
        job.root = root
        job.suspension.take(meta, root.conditions)
        if change == DELETED:
            job.gone_at = meta.deleted or seen_at or meta.created

    def _take_workload(self, workload: Workload, change: str) -> None:
        self._note(workload.meta, change)
        owner = workload.meta.owner
        if owner is None or owner.kind not in ROOTS:
            return
        uid = self._jobset_of.get(owner.uid, owner.uid)
        if uid not in self._jobs or (owner.kind == "TrainJob" and uid == owner.uid):
            self._workloads[workload.meta.uid] = workload
            return
        self._workloads.pop(workload.meta.uid, None)
        job = self._jobs[uid]
        from_kueue = job.quotas.get(workload.meta.uid)
        if from_kueue is None:
            from_kueue = job.quotas[workload.meta.uid] = Quota(workload)
        from_kueue.take(workload)
        job.version += 1

    def vanish(self, kind: str, present: Collection[str], seen_at: int) -> None:
        """Note that no other objects of *kind* than those *present*, by uid, are there any more."""
        gone = [uid for uid, each in self._kinds.items() if each == kind and uid not in present]
        for uid in gone:
            del self._kinds[uid]
            job = self._jobs.get(self._pods.get(uid, uid))
            if job is None:
                continue
            job.version += 1
            if kind == "Pod":
                job.attempts.leave(uid, seen_at)
            elif job.uid == uid:
                job.gone_at = seen_at

    def settle(self) -> None:
        """Put the changes so far in order: those that come now are later."""
        for pod in list(self._waiting.values()):
            self._take_pod(pod, MODIFIED, None)
        for workload in list(self._workloads.values()):
            self._take_workload(workload, MODIFIED)
        self._settle_pods()

    def versions(self) -> dict[str, int]:
        """Return the jobs to record, by uid: another number for each that was seen to change."""
        self.settle()
        return {
            job.uid: job.version
            for job in self._jobs.values()
            if job.is_training and job.kind != "TrainJob"
        }

    def name_of(self, uid: str) -> str:
        """Return the name of a job."""
        return self._name_of(self._jobs[uid])

    def events(self, uid: str) -> list[WireEvent]:
        """Return all that is known of a job; what was returned before is the same again."""
        job = self._jobs[uid]
        around = Surroundings(self._name, self._name_by_uid, self._nodes.get, self._events.about)
        return list(events_of(job, self._name_of(job), around))

    def heartbeats(self, uid: str, now_us: int, every_us: int) -> list[WireEvent]:
        """Return a sign of each attempt that lives; the same one for all calls in *every_us*."""
        job = self._jobs[uid]
        return list(heartbeats(job, self._name_of(job), now_us, every_us))

    def is_gone(self, uid: str) -> bool:
        """Whether nothing of a job is there any more."""
        job = self._jobs[uid]
        return job.gone_at is not None and not any(
            pod.meta.uid in self._kinds for pod in job.attempts.pods
        )

    def forget(self, uid: str) -> None:
        """Let go of a job."""
        job = self._jobs.pop(uid)
        for pod in job.attempts.pods:
            self._pods.pop(pod.meta.uid, None)
            self._events.forget(pod.meta.uid)
        for about in (uid, *job.quotas):
            self._events.forget(about)

    def _name_by_uid(self, uid: str) -> str | None:
        """Return the name of the job with this uid, or with a Workload or a pod of this uid."""
        job = self._jobs.get(self._jobset_of.get(uid, self._pods.get(uid, uid)))
        if job is None:
            job = next((each for each in self._jobs.values() if uid in each.quotas), None)
        return None if job is None else self._name_of(job)

    def _name_of(self, job: Job) -> str:
        """Return what *job* is called: as its trainers say, else as it is called here."""
        if self._job is not None:
            return self._job
        if claimed := _claimed(job):
            return claimed
        values = (job.name, job.namespace, self._name or "", job.kind)
        made = self._template.format_map(dict(zip(NAMES, values, strict=True)))
        return clean(made).replace("/", "_") or job.name

    def refusal(self, uid: str) -> str:
        """Return why a job cannot be recorded, empty where it can: it has another one's name."""
        job = self._jobs[uid]
        if self._job is not None or _claimed(job):
            return ""
        name = self._name_of(job)
        namespace = self._namespaces.setdefault(name, job.namespace)
        if namespace == job.namespace:
            return ""
        return (
            f"{job.kind} {job.name} of namespace {job.namespace} is called {name} as one of "
            f"namespace {namespace}: tell them apart by --name '{{namespace}}-{{name}}'"
        )


def _claimed(job: Job) -> str | None:
    """Return what its trainers call a job."""
    by_pods = next((pod.claims.job for pod in job.attempts.pods if pod.claims.job), None)
    return by_pods or (job.root and job.root.claims.job) or None


def _is_of_older_jobset(pod: Pod) -> bool:
    """Whether a pod is of a JobSet that tells its pods its name only."""
    labels = pod.meta.labels
    return JOBSET_NAME in labels and JOBSET_UID not in labels


def _last_instant(pod: Pod) -> int:
    """The latest that a pod says of itself."""
    return max([pod.meta.created, *(each.at for each in pod.conditions.values())])
