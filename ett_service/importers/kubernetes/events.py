"""What one job on Kubernetes went through, as events of the wire.

Every event is named after an object's uid and the transition that it tells, so that whoever reads
the same objects later, or sees more of them, tells the same again.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ett_service.core.intervals import rfc3339
from ett_service.core.words import Outcome, Phase
from ett_service.importers.importer import WireEvent, clean
from ett_service.importers.kubernetes.cluster_events import ClusterEvent, evidence_of, node, pull
from ett_service.importers.kubernetes.lives import (
    Attempt,
    Attempts,
    Cycle,
    Life,
    RootEnd,
    ending,
    preemptor,
    root_end,
)
from ett_service.importers.kubernetes.objects import QUEUE, Pod, Root
from ett_service.importers.kubernetes.quota import Eviction, Quota, Suspension, Wait

_MOST_NAMED = 16
_MOST_MACHINES = 1_000_000


@dataclass(slots=True)
class Job:
    """All that is known of one job."""

    kind: str
    uid: str
    name: str
    namespace: str
    attempts: Attempts
    root: Root | None = None
    quotas: dict[str, Quota] = field(default_factory=dict)  #: by the Workload's uid
    suspension: Suspension = field(default_factory=Suspension)
    gone_at: int | None = None
    version: int = 0  #: how often it was seen to change

    @property
    def end(self) -> RootEnd | None:
        """How the job ended, None while it has not."""
        by_itself = root_end(self.root.conditions) if self.root else None
        if by_itself is not None or self.gone_at is None:
            return by_itself
        return RootEnd(self.gone_at, Outcome.CANCELLED, "Deleted", "")

    @property
    def is_training(self) -> bool:
        """Whether it is to be recorded: it has accelerators, or says who it is."""
        if self.root is not None and self.root.is_training:
            return True
        return any(pod.asks.gpus or pod.claims.job for pod in self.attempts.pods)

    @property
    def waits(self) -> list[tuple[str, str, Wait]]:
        """The waits for quota, each with what tells it and its stage."""
        by_queue = [
            (uid, "quota", wait) for uid, quota in self.quotas.items() for wait in quota.waits
        ]
        if by_queue or (self.root and QUEUE in self.root.meta.labels):
            return by_queue
        return [(self.uid, "suspended", wait) for wait in self.suspension.waits]

    @property
    def evictions(self) -> list[Eviction]:
        """The evictions by Kueue, in their order."""
        return sorted(each for quota in self.quotas.values() for each in quota.evictions)


class Speaker:
    """Writes events of one attempt's cycle, or of the whole job."""

    def __init__(self, job: str, attempt: Attempt | None = None, number: int | None = None) -> None:
        self._members: WireEvent = {"job": job}
        if attempt is not None:
            launch, restart = attempt.key
            self._members |= {"launch": launch, "attempt": restart}
        if number is not None:
            self._members["cycle"] = number

    def event(self, kind: str, name: str, at: int, /, **members: Any) -> WireEvent:
        """Return an event of this *kind* at *at*; members that are None are left out."""
        stated = {key: value for key, value in members.items() if value is not None}
        return {
            "type": kind,
            "id": f"k8s:{name}"[:64],
            **self._members,
            "at": rfc3339(at),
            **stated,
        }


class Surroundings(NamedTuple):
    """What is known of the cluster around a job."""

    cluster: str | None
    name_of: Callable[[str], str | None]  #: the name of the job of which an object has this uid
    node_made_at: Callable[[str], int | None]  #: when the node of this name was made
    events_about: Callable[[Iterable[str]], list[ClusterEvent]]  #: by uids, and by ``node``


def events_of(job: Job, name: str, around: Surroundings) -> Iterator[WireEvent]:
    """Return all events of *job*, called *name*."""
    whole = Speaker(name)
    if job.root is not None:
        yield _facts(job, job.root, whole, around.cluster)
    for teller, stage, wait in job.waits:
        yield from _queued(Speaker(name, *_next_cycle(job, wait)), teller, stage, wait)
    for attempt in job.attempts:
        for index, cycle in enumerate(attempt.cycles):
            yield from _CycleEvents(job, name, attempt, index, cycle).all(around)
    if (end := job.end) is not None:
        yield whole.event(
            "job_ended",
            f"{job.uid}:over",
            end.at,
            outcome=end.outcome.value,
            scheduler_state=(end.reason or None) if end.outcome is Outcome.FAILED else None,
            message=(end.message or None) if end.outcome is Outcome.FAILED else None,
        )


def _facts(job: Job, root: Root, whole: Speaker, cluster: str | None) -> WireEvent:
    labels = {"kubernetes_kind": job.kind, "kubernetes_namespace": job.namespace}
    if queue := root.meta.labels.get(QUEUE):
        labels["kueue_queue"] = clean(queue)
    return whole.event(
        "job",
        f"{job.uid}:facts",
        root.meta.created,
        name=job.name,
        team=job.namespace or None,
        cluster=cluster,
        hardware=root.asks.hardware,
        image=root.asks.image,
        gpus=min(root.asks.gpus, _MOST_MACHINES) or None,
        submitted_at=rfc3339(root.meta.created),
        labels=labels,
    )


def _next_cycle(job: Job, wait: Wait) -> tuple[Attempt, int]:
    """Return the attempt and cycle that a wait is for: the first one to begin after it began."""
    later = [
        (cycle.begin, attempt.key, attempt, cycle.number)
        for attempt in job.attempts
        for cycle in attempt.cycles
        if cycle.begin >= wait.begin
    ]
    if later:
        _, _, attempt, number = min(later)
        return attempt, 0 if wait.is_first else number
    attempts = list(job.attempts)
    if attempts:
        return attempts[-1], attempts[-1].cycles[-1].number + 1
    claims = job.root.claims if job.root else None
    key = ((claims and claims.launch) or job.uid, (claims and claims.attempt) or 0)
    before = sum(quota.evictions_before(wait.begin + 1) for quota in job.quotas.values())
    return Attempt(key), before


def _queued(speaker: Speaker, teller: str, stage: str, wait: Wait) -> Iterator[WireEvent]:
    instants = [("phase_started", "q", wait.begin)]
    if wait.reserved_at is not None:
        instants.append(("phase_ended", "r", wait.reserved_at))
    for kind, mark, at in instants:
        name = f"{teller}:{mark}{wait.begin // 1_000_000}"
        phase = Phase.QUEUED.value
        yield speaker.event(kind, name, at, phase=phase)
        yield speaker.event(kind, f"{name}:s", at, phase=phase, stage=stage)


class _CycleEvents:
    """Writes the events of one cycle."""

    def __init__(self, job: Job, name: str, attempt: Attempt, index: int, cycle: Cycle) -> None:
        self._job = job
        self._name = name
        self._attempt = attempt
        self._index = index
        self._cycle = cycle
        self._lives = sorted(cycle.lives.values(), key=lambda life: (life.begins, life.name))
        self._new = [life for life in self._lives if not life.restart]
        self._speaker = Speaker(name, attempt, cycle.number)

    def all(self, around: Surroundings) -> Iterator[WireEvent]:
        if self._new:
            yield from self._placement(around)
        elif began := [life for life in self._lives if life.started is not None]:
            first = min(began, key=lambda life: (life.started or 0, life.name))
            yield self._started(first, first.started or 0)
        yield from self._end(around)

    def _placement(self, around: Surroundings) -> Iterator[WireEvent]:
        first, wait = self._new[0], self._wait()
        begin = first.begins if wait is None else wait.reserved_at or first.begins
        yield self._edge("phase_started", first, "new", begin, Phase.SCHEDULING)
        if wait is not None and wait.admitted_at is not None and wait.admitted_at > begin:
            yield self._stage(
                first, "checks", Phase.SCHEDULING, "admission_checks", begin, wait.admitted_at
            )
        refused = self._refusal(around)
        if refused is not None:
            yield self._unschedulable("phase_started", refused, max(begin, refused.at))
        if self._missing > 0 or not all(_scheduled(life) for life in self._new):
            return
        last = max(self._new, key=lambda life: (_scheduled(life) or 0, life.name))
        placed_at = max(_scheduled(last) or 0, begin)
        made_at = around.node_made_at(last.pod.node) if last.pod.node else None
        if made_at is not None and last.begins < made_at <= placed_at:
            yield self._stage(last, "node", Phase.SCHEDULING, "node_start", last.begins, placed_at)
        if refused is not None:
            yield self._unschedulable("phase_ended", refused, max(placed_at, refused.at))
        yield self._edge("phase_ended", last, "placed", placed_at, Phase.SCHEDULING)
        yield self._started(first, begin)
        yield self._edge("phase_started", last, "setup", placed_at, Phase.HARDWARE_SETUP)
        if all(life.started is not None for life in self._new):
            yield from self._set_up(placed_at, around)

    def _refusal(self, around: Surroundings) -> ClusterEvent | None:
        """Return the first that the scheduler said of why there is no node."""
        cluster_events = around.events_about(life.pod.meta.uid for life in self._new)
        return next((each for each in cluster_events if each.reason == "FailedScheduling"), None)

    def _unschedulable(self, kind: str, refused: ClusterEvent, at: int) -> WireEvent:
        name = f"{refused.about}:{'nodes' if kind == 'phase_ended' else 'none'}"
        message = {"message": refused.message}
        phase = Phase.SCHEDULING.value
        return self._speaker.event(
            kind, name, at, phase=phase, stage="unschedulable", attributes=message
        )

    def _set_up(self, placed_at: int, around: Surroundings) -> Iterator[WireEvent]:
        slowest = max(self._new, key=lambda life: (life.started or 0, life.name))
        ready_at = max(slowest.started or 0, placed_at)
        yield self._edge("phase_ended", slowest, "ready", ready_at, Phase.HARDWARE_SETUP)
        pulled = pull(around.events_about([slowest.pod.meta.uid]))
        for stage, start, end in _stages(slowest, pulled):
            yield self._stage(slowest, stage[:5], Phase.HARDWARE_SETUP, stage, start, end)

    def _wait(self) -> Wait | None:
        """Return the wait for quota that this cycle came out of."""
        begin = self._cycle.begin
        before = [other.begin for other in self._attempt.cycles[: self._index]]
        waits = [
            wait
            for _, _, wait in self._job.waits
            if wait.reserved_at is not None
            and max(before, default=-1) < wait.reserved_at <= begin
            and not (wait.is_first and self._cycle.number)
        ]
        return max(waits, key=lambda wait: wait.begin) if waits else None

    @property
    def _missing(self) -> int:
        """How many pods are still to come."""
        pods = self._job.root.pods if self._job.root else None
        if pods is None:
            return 0
        elders = {
            slot
            for cycle in self._attempt.cycles[: self._index]
            for slot, life in cycle.lives.items()
            if slot not in self._cycle.lives and life.over_at is None
        }
        return pods - len(self._cycle.lives) - len(elders)

    def _started(self, first: Life, at: int) -> WireEvent:
        pods = [life.pod for life in self._lives]
        root = self._job.root
        gpus = root.asks.gpus if root and root.pods else sum(pod.asks.gpus for pod in pods)
        gpus, hosts = min(gpus, _MOST_MACHINES), len({pod.node for pod in pods if pod.node})
        return self._speaker.event(
            "attempt_started",
            f"{first.name}:{hosts}h{gpus}",  # pods that come later make it more
            at,
            gpus=gpus or None,
            hosts=hosts or None,
            attributes=_evidence(pods),
        )

    def _end(self, around: Surroundings) -> Iterator[WireEvent]:
        followers = self._attempt.cycles[self._index + 1 :]
        over = [life for life in self._lives if life.over_at is not None]
        is_whole = self._missing <= 0 or self._job.end is not None or bool(self._job.evictions)
        if not over or not (followers or (is_whole and len(over) == len(self._lives))):
            return
        last = max(over, key=lambda life: (life.over_at or 0, life.name))
        at = last.over_at or 0
        cluster_events = self._cluster_events(around)
        disruptions = {each.about: each.disruption for each in cluster_events if each.disruption}
        members = ending(self._cycle, self._job.evictions, self._job.end, disruptions)
        # What the pod's own launcher counted besides is the last to have begun by then.
        is_last = all(cycle.begin > at for cycle in followers)
        speaker = Speaker(self._name, self._attempt) if is_last else self._speaker
        evidence = _evidence([life.pod for life in self._lives])
        if workload := next(iter(self._job.quotas.values()), None):
            meta = workload.workload.meta
            evidence |= {"workload": clean(meta.name), "workload_uid": meta.uid}
        if kept := evidence_of(cluster_events, self._cycle.begin, at):
            evidence["kubernetes_events"] = kept
        taker = preemptor(members.get("message") or "", cluster_events)
        if taker and members["outcome"] == Outcome.PREEMPTED.value:
            evidence["preemptor_uids"] = list(taker)
            members["preempted_by"] = next(filter(None, map(around.name_of, taker)), None)
        yield speaker.event(
            "attempt_ended", f"{self._lives[0].name}:end", at, **members, attributes=evidence
        )

    def _cluster_events(self, around: Surroundings) -> list[ClusterEvent]:
        """Return the Events about the pods, their nodes, their Workloads and the job."""
        pods = [life.pod for life in self._lives]
        nodes = {node(pod.node) for pod in pods if pod.node}
        others = (*sorted(nodes), *self._job.quotas, self._job.uid)
        return around.events_about([*dict.fromkeys(pod.meta.uid for pod in pods), *others])

    def _edge(self, kind: str, life: Life, mark: str, at: int, phase: Phase) -> WireEvent:
        return self._speaker.event(kind, f"{life.name}:{mark}", at, phase=phase.value)

    def _stage(
        self, life: Life, mark: str, phase: Phase, stage: str, start: int, end: int
    ) -> WireEvent:
        return self._speaker.event(
            "span",
            f"{life.name}:{mark}",
            end,
            phase=phase.value,
            stage=stage,
            start=rfc3339(start),
        )


def _scheduled(life: Life) -> int | None:
    """When the pod got its node."""
    condition = life.pod.conditions.get("PodScheduled")
    if condition is not None and condition.status == "True":
        return condition.at
    return life.started


def _stages(life: Life, pulled: tuple[int, int] | None) -> Iterator[tuple[str, int, int]]:
    """Return what a pod's start on its node consisted of: stage, begin and end.

    Images were *pulled* when Events say so; without them it is what the other stages leave.
    """
    placed, started = _scheduled(life), life.started
    conditions, init = life.pod.conditions, life.pod.init
    sandbox = conditions.get("PodReadyToStartContainers")
    marks = [placed or 0]
    if sandbox is not None and sandbox.status == "True" and placed is not None:
        marks.append(sandbox.at)
        yield "network_and_volumes", placed, max(placed, sandbox.at)
    if init is not None and init[1] is not None:
        marks.append(init[1])
        yield "init_containers", init[0], init[1]
    if pulled is not None and pulled[0] < pulled[1]:
        yield "image_pull", *pulled
    elif pulled is None and started is not None and max(marks) <= started:
        yield "image_pull", max(marks), started


def _evidence(pods: Sequence[Pod]) -> dict[str, Any]:
    """Return where the pods ran: the control plane forgets that once they are deleted."""
    named = pods[:_MOST_NAMED]
    return {
        "namespace": pods[0].meta.namespace,
        "pods": [pod.meta.name for pod in named],
        "pod_uids": [pod.meta.uid for pod in named],
        "nodes": sorted({pod.node for pod in named if pod.node}),
        "pod_count": len(pods),
    }


def heartbeats(job: Job, name: str, now_us: int, every_us: int) -> Iterator[WireEvent]:
    """Return a sign of each attempt that has a living pod; it is the same one for *every_us*."""
    for attempt in job.attempts:
        cycle = attempt.cycles[-1]
        living = [life for life in cycle.lives.values() if life.over_at is None]
        if living and job.end is None:
            at = now_us // every_us * every_us
            mark = f"{living[0].name}:alive{at // 1_000_000}"
            yield Speaker(name, attempt, cycle.number).event("heartbeat", mark, at)
