"""The lives of a job's pods, the cycles of its attempts that they make, and how these ended.

A life is one run of the trainer's container in one pod. The pods of a job live together: a pod
that is made anew, or a container that begins again, while its place has had a life in the present
cycle begins the next one, and the others join it. How a cycle ended, and why, its pods, its job and
Kueue say.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ett_service.core.words import Outcome
from ett_service.importers.kubernetes.cluster_events import ClusterEvent
from ett_service.importers.kubernetes.objects import (
    Condition,
    Pod,
    Root,
    Slot,
    Terminated,
    restart_attempt,
)
from ett_service.importers.kubernetes.quota import Eviction

END_OF_SECOND = 999_999
"""Added to the whole second of an end: what a process said in that second comes before it."""

AttemptKey = tuple[str, int]
"""``(launch, attempt)``"""


@dataclass(slots=True)
class Life:
    """One run of the trainer's container. Instants are microseconds since the Unix epoch."""

    pod: Pod
    restart: int  #: how often the container had begun before in this pod
    begins: int  #: when the pod was made, or the life before had ended
    started: int | None = None
    ended: Terminated | None = None
    gone_at: int | None = None  #: when the pod was gone, where nothing says how the life ended

    @property
    def name(self) -> str:
        """What events of it are named after: it is the same whoever reads it, and when."""
        return f"{self.pod.meta.uid}:{self.restart}" if self.restart else self.pod.meta.uid

    @property
    def over_at(self) -> int | None:
        """When it was over, None while it is not."""
        if self.ended is not None and self.ended.finished is not None:
            return self.ended.finished + END_OF_SECOND
        return self.gone_at

    def update(self, pod: Pod) -> None:
        """Take in the pod as it is now. What was read once stays."""
        is_present = self.restart == pod.restarts
        ended = pod.ended if is_present else pod.ended_before
        started = pod.started if is_present else None
        self.pod = pod
        self.ended = self.ended or ended
        if self.started is None:
            self.started = ended.started if started is None and ended else started
        if is_present and self.over_at is None and pod.is_over:
            self.gone_at = _over_at(pod)

    def leave(self, at: int) -> None:
        """Note that the pod is gone."""
        if self.over_at is None:
            self.gone_at = at


def _over_at(pod: Pod) -> int:
    """When a pod was over of which no container says so."""
    conditions = pod.conditions
    disruption = conditions.get("DisruptionTarget") or conditions.get("Ready")
    return (disruption.at if disruption else pod.meta.created) + END_OF_SECOND


@dataclass(slots=True)
class Cycle:
    """Lives that belong together, by their places."""

    number: int
    lives: dict[Slot, Life] = field(default_factory=dict)

    @property
    def begin(self) -> int:
        """When the first of them began."""
        return min(life.begins for life in self.lives.values())


@dataclass(slots=True)
class Attempt:
    """The cycles of one launch and attempt, in their order."""

    key: AttemptKey
    cycles: list[Cycle] = field(default_factory=list)


class Attempts:
    """The attempts of one job, as its pods show them."""

    def __init__(self, uid: str) -> None:
        self._uid = uid
        self._lives: dict[str, dict[int, Life]] = {}  #: by pod
        self._slots: dict[str, Slot] = {}
        self.by_key: dict[AttemptKey, Attempt] = {}

    def __iter__(self) -> Iterator[Attempt]:
        return iter(self.by_key.values())

    @property
    def pods(self) -> Iterator[Pod]:
        """The pods, as they were seen last."""
        return (lives[max(lives)].pod for lives in self._lives.values())

    def take(self, pod: Pod, root: Root | None, evictions: int) -> None:
        """Take in a pod. Those that were made before are to come before.

        *evictions* are those of the job that no pod shows any more: they count where the first
        pod of an attempt is seen.
        """
        uid = pod.meta.uid
        lives = self._lives.setdefault(uid, {})
        for life in lives.values():
            if life.restart >= pod.restarts - 1:
                life.update(pod)
        for restart in (pod.restarts - 1, pod.restarts):
            if restart <= max(lives, default=-1):
                continue
            life = _born(pod, restart)
            for elder in lives.values():
                elder.leave(life.begins)
            lives[restart] = life
            self._place(life, root, evictions)

    def leave(self, uid: str, at: int) -> None:
        """Note that a pod is gone since *at*."""
        for life in self._lives.get(uid, {}).values():
            life.leave(at)

    def _place(self, life: Life, root: Root | None, evictions: int) -> None:
        pod = life.pod
        key = (pod.claims.launch or self._uid, pod.claims.attempt or 0)
        attempt = self.by_key.setdefault(key, Attempt(key))
        restarts = 0 if pod.claims.attempt is not None else restart_attempt(pod.meta)
        if not attempt.cycles:
            before = restarts + evictions + self._failed_before(root)
            attempt.cycles.append(Cycle(before + life.restart))
        cycle = attempt.cycles[-1]
        slot = self._slots.get(pod.meta.uid) or self._slot(pod, cycle, root)
        self._slots[pod.meta.uid] = slot
        if slot in cycle.lives:
            cycle = Cycle(max(cycle.number + 1, restarts))
            attempt.cycles.append(cycle)
        cycle.lives[slot] = life

    def _failed_before(self, root: Root | None) -> int:
        """How many pods of a job of one pod had failed that are not there any more."""
        if root is None or root.pods != 1:
            return 0
        return max(0, root.failed_pods - sum(pod.has_failed for pod in self.pods))

    @staticmethod
    def _slot(pod: Pod, cycle: Cycle, root: Root | None) -> Slot:
        if pod.slot is not None:
            return pod.slot
        for slot, life in cycle.lives.items():
            if life.over_at is not None or life.pod.meta.deleted is not None:
                return slot
        if root is not None and root.pods is not None and len(cycle.lives) >= root.pods > 0:
            return next(iter(cycle.lives))
        return ("", str(len(cycle.lives)))


def _born(pod: Pod, restart: int) -> Life:
    begins, before = None, pod.ended_before
    if restart and restart == pod.restarts:
        begins = (before and before.finished) or pod.started
    elif restart:
        begins = before and before.started
    life = Life(pod, restart, begins or pod.meta.created)
    life.update(pod)
    return life


Members = dict[str, Any]

_PREEMPTIONS = frozenset({"PreemptionByScheduler", "EvictionByEvictionAPI"})
_EVICTIONS: Mapping[str, Outcome] = {
    "Preempted": Outcome.PREEMPTED,
    "PodsReadyTimeout": Outcome.FAILED,
    "AdmissionCheck": Outcome.FAILED,
    "NodeFailures": Outcome.FAILED,
}
"""By the reason of an eviction; for all others somebody stopped the job or its queue."""

_NO_STATES = frozenset({"", "Completed", "Error", "ContainerStatusUnknown"})
"""Reasons of a container that say no more than its exit code."""

_PREEMPTOR = re.compile(r"\(UID: ([0-9A-Za-z-]+)(?:, JobUID: ([0-9A-Za-z-]+))?\)")


class RootEnd(NamedTuple):
    """How a job ended."""

    at: int
    outcome: Outcome
    reason: str
    message: str


def root_end(conditions: Mapping[str, Condition]) -> RootEnd | None:
    """Return how a job ended by its own conditions."""
    for name, outcome in (
        ("Complete", Outcome.COMPLETED),
        ("Completed", Outcome.COMPLETED),
        ("Succeeded", Outcome.COMPLETED),
        ("Failed", Outcome.FAILED),
    ):
        each = conditions.get(name)
        if each is not None and each.status == "True":
            return RootEnd(each.at + END_OF_SECOND, outcome, each.reason, each.message)
    return None


def ending(
    cycle: Cycle,
    evictions: Iterable[Eviction],
    end: RootEnd | None,
    disruptions: Mapping[str, Condition],
) -> Members:
    """Return how a cycle whose lives are over ended: the first thing that went wrong decides.

    *disruptions* are those that Events tell, by the uids of pods.
    """
    over_at = max(life.over_at or 0 for life in cycle.lives.values())
    eviction = _eviction(cycle, over_at, evictions)
    lives = sorted(cycle.lives.values(), key=lambda life: (life.over_at or over_at, life.name))
    wrong = next((life for life in lives if _went_wrong(life, disruptions)), None)
    if eviction and (wrong is None or eviction.at <= (wrong.over_at or over_at)):
        outcome = _EVICTIONS.get(eviction.reason, Outcome.CANCELLED)
        return {
            "outcome": outcome.value,
            "scheduler_state": eviction.reason,
            "message": eviction.message,
            "reason": "evicted by Kueue",
        }
    if wrong is not None:
        return _wrong(wrong, disruptions)
    if all(life.ended and not life.ended.exit_code for life in lives):
        return {"outcome": Outcome.COMPLETED.value, "exit_code": 0}
    return _by_root(end)


def _eviction(cycle: Cycle, over_at: int, evictions: Iterable[Eviction]) -> Eviction | None:
    begin = cycle.begin
    return next((each for each in evictions if begin <= each.at <= over_at), None)


def _went_wrong(life: Life, disruptions: Mapping[str, Condition]) -> bool:
    """Whether a life ended by itself, or was ended, and not because its pod was deleted."""
    pod = life.pod
    was_followed = life.restart < pod.restarts
    if (
        _disruption(life, disruptions) is not None
        or pod.reason
        or (was_followed and life.ended is None)
    ):
        return True
    if pod.meta.deleted is not None and life.restart == pod.restarts:
        ended = life.ended
        died_before = ended and ended.finished is not None and ended.finished < pod.meta.deleted
        return bool(died_before and ended and ended.exit_code)
    return bool(life.ended and life.ended.exit_code) or _never_began(life)


def _never_began(life: Life) -> bool:
    return life.started is None and life.pod.is_over


def _disruption(life: Life, by_event: Mapping[str, Condition]) -> Condition | None:
    if life.restart != life.pod.restarts:
        return None
    each = life.pod.conditions.get("DisruptionTarget")
    if each is not None and each.status == "True":
        return each
    has_ended_well = life.ended is not None and not life.ended.exit_code
    each = None if has_ended_well else by_event.get(life.pod.meta.uid)
    is_of_life = each is not None and life.begins <= each.at <= (life.over_at or each.at)
    return each if is_of_life else None


def _wrong(life: Life, disruptions: Mapping[str, Condition]) -> Members:
    pod, ended, disruption = life.pod, life.ended, _disruption(life, disruptions)
    reasons = [
        disruption.reason if disruption else "",
        ended.reason if ended else "",
        pod.reason,
        "" if life.started else pod.waits_for,
    ]
    messages = [ended.message if ended else "", disruption.message if disruption else ""]
    is_preempted = disruption is not None and disruption.reason in _PREEMPTIONS
    outcome = Outcome.PREEMPTED if is_preempted else Outcome.FAILED
    return {
        "outcome": outcome.value,
        "exit_code": ended.exit_code if ended else None,
        "scheduler_state": next((each for each in reasons if each not in _NO_STATES), None),
        "message": next((each for each in [*messages, pod.message] if each), None),
    }


def _by_root(end: RootEnd | None) -> Members:
    """Of pods that were deleted: the job is over, or somebody stopped it."""
    if end is None:
        return {"outcome": Outcome.CANCELLED.value, "reason": "its pods were deleted"}
    if end.outcome is Outcome.COMPLETED:
        return {"outcome": Outcome.COMPLETED.value}
    return {
        "outcome": end.outcome.value,
        "scheduler_state": end.reason or None,
        "message": end.message or None,
    }


def preemptor(message: str, events: Iterable[ClusterEvent]) -> tuple[str, ...]:
    """Return the uids of the Workload, job or pod that took a place, as far as known."""
    match = _PREEMPTOR.search(message)
    if match:
        return tuple(uid for uid in match.groups() if uid and uid != "UNKNOWN")
    preemptors = (each.preemptor for each in events if each.reason == "Preempted")
    return tuple(dict.fromkeys(filter(None, preemptors)))
