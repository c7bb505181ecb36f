"""How a job waited for quota: what Kueue, or the suspended job itself, went through.

An object has each condition at its last transition only. A watcher sees them all, so they are
collected; of what is seen late only that is used which cannot be a later transition. PodsReady is
not used at all: it turns true anew after a recovery, and pods say themselves when they began.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ett_service.importers.kubernetes.objects import Condition, Meta, Workload


class Eviction(NamedTuple):
    """Kueue took the quota back."""

    at: int
    reason: str
    message: str


@dataclass(slots=True)
class Wait:
    """A wait for quota. Instants are microseconds since the Unix epoch."""

    begin: int
    reserved_at: int | None = None
    admitted_at: int | None = None
    is_first: bool = False  #: whether the job had never begun before


@dataclass(slots=True)
class Quota:
    """The transitions of a Workload."""

    workload: Workload
    waits: list[Wait] = field(default_factory=list)
    evictions: list[Eviction] = field(default_factory=list)

    def take(self, workload: Workload) -> None:
        """Take in the Workload as it is now."""
        self.workload = workload
        conditions = workload.conditions
        if not self.waits:
            is_first = not workload.evictions
            self.waits.append(Wait(_first_begin(workload), is_first=is_first))
        if (evicted := _turned(conditions, "Evicted")) and not self._is_seen(evicted):
            self.evictions.append(Eviction(evicted.at, evicted.reason, evicted.message))
        requeued = _turned(conditions, "Evicted") or _turned(conditions, "Requeued")
        wait = self.waits[-1]
        if requeued and wait.reserved_at is not None and requeued.at >= wait.reserved_at:
            wait = Wait(requeued.at)
            self.waits.append(wait)
        self._admit(wait, conditions)

    def evictions_before(self, instant: int) -> int:
        """Count the evictions before *instant*, those included that left no more than a count."""
        later = sum(eviction.at >= instant for eviction in self.evictions)
        return max(0, self.workload.evictions - later)

    def _is_seen(self, evicted: Condition) -> bool:
        return any(each.at == evicted.at for each in self.evictions)

    @staticmethod
    def _admit(wait: Wait, conditions: Mapping[str, Condition]) -> None:
        reserved = _turned(conditions, "QuotaReserved")
        if reserved is None or reserved.at < wait.begin:
            return
        if wait.reserved_at is None:
            wait.reserved_at = reserved.at
        admitted = _turned(conditions, "Admitted")
        if wait.admitted_at is None and admitted and admitted.at >= wait.reserved_at:
            wait.admitted_at = admitted.at


def _turned(conditions: Mapping[str, Condition], name: str) -> Condition | None:
    condition = conditions.get(name)
    return condition if condition is not None and condition.status == "True" else None


def _first_begin(workload: Workload) -> int:
    """When the wait began that is seen first: an earlier one may have left no trace."""
    if not workload.evictions:
        return workload.meta.created
    conditions = workload.conditions
    mark = _turned(conditions, "Evicted") or _turned(conditions, "Requeued")
    return mark.at if mark else workload.meta.created


@dataclass(slots=True)
class Suspension:
    """What a job says itself of the times in which it was suspended."""

    waits: list[Wait] = field(default_factory=list)

    def take(self, meta: Meta, conditions: Mapping[str, Condition]) -> None:
        """Take in the job as it is now."""
        suspended = conditions.get("Suspended")
        if suspended is None:
            return
        is_on = suspended.status == "True"
        if not self.waits or (is_on and self.waits[-1].reserved_at is not None):
            at_first = not self.waits and not is_on
            begin = meta.created if at_first else suspended.at
            self.waits.append(Wait(begin, is_first=not self.waits))
        if not is_on and self.waits[-1].reserved_at is None:
            self.waits[-1].reserved_at = suspended.at
