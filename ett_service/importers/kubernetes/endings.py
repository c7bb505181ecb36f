"""How a cycle ended, and why, by what its pods, its job and Kueue say."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ett_service.core.words import Outcome
from ett_service.importers.kubernetes.cluster_events import ClusterEvent
from ett_service.importers.kubernetes.lives import END_OF_SECOND, Cycle, Life
from ett_service.importers.kubernetes.objects import Condition
from ett_service.importers.kubernetes.quota import Eviction

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
