"""Events of Kubernetes: what its parts said of pods, jobs and nodes.

The API server deletes them after an hour, and with them why a pod waited or had to go. They are
kept for as long as the job is, whichever of the two APIs they come from.
"""

import re
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any, Final, NamedTuple

from ett_service.core.intervals import rfc3339
from ett_service.importers.importer import clean
from ett_service.importers.kubernetes.objects import Condition, instant, usable_uid
from ett_service.importers.kubernetes.templates import Json

_REASONS: Final = frozenset(
    {"FailedScheduling", "Preempted", "Evicted", "TaintManagerEviction", "Pulling", "Pulled",
     "BackOff", "Failed", "FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox",
     "Killing", "Unhealthy", "OOMKilling", "SystemOOM", "NodeNotReady", "NodeNotSchedulable",
     "NodeShutdown", "Rebooted", "FailedCreate", "BackoffLimitExceeded", "DeadlineExceeded"}
)  # fmt: skip
_OF_KUEUE: Final = "Evicted"  #: its reasons begin with it: ``EvictedDueToPreempted``

_DISRUPTIONS: Final[Mapping[str, str]] = {
    "Preempted": "PreemptionByScheduler",
    "Evicted": "Evicted",
    "TaintManagerEviction": "DeletionByTaintManager",
    "NodeNotReady": "NodeNotReady",
}
"""Reasons for which a pod has to go, and what a condition of the pod calls them."""

_CONTAINERS: Final = "spec.containers{"
_PREEMPTOR: Final = re.compile(r"Preempted by pod:? ([0-9A-Za-z-]{1,40})\b")
_LONGEST_MESSAGE: Final = 300
_MOST_OF_ONE: Final = 32
_MOST_SHOWN: Final = 16
_MOST_OBJECTS: Final = 50_000


class ClusterEvent(NamedTuple):
    """An Event. The instant is in microseconds since the Unix epoch."""

    at: int  #: when it happened first
    reason: str
    message: str
    uid: str
    about: str  #: the uid of an object; of a node ``node/`` and its name
    field: str  #: the part of the object, such as ``spec.containers{trainer}``
    related: str  #: the uid of another object that has to do with it, empty for none

    @property
    def evidence(self) -> dict[str, str]:
        """What is worth keeping of it."""
        return {"reason": self.reason, "at": rfc3339(self.at), "message": self.message}

    @property
    def disruption(self) -> Condition | None:
        """The condition that a pod has if the Event made it go, None if it did not."""
        reason = _DISRUPTIONS.get(self.reason)
        if reason is None or self.message.startswith("Cancelling"):
            return None
        return Condition(self.at, "True", reason, self.message)

    @property
    def preemptor(self) -> str:
        """The uid of what took the place, empty where it is not said."""
        match = _PREEMPTOR.search(self.message)
        return self.related or (match[1] if match else "")


def node(name: str) -> str:
    """Return what Events about the node of this name are about."""
    return f"node/{name}"


def event_of(thing: Json) -> ClusterEvent | None:
    """Read an Event of the core or of ``events.k8s.io``; None for one that is not kept.

    Raises KeyError, TypeError, ValueError or AttributeError for junk.
    """
    reason = str(thing.get("reason") or "")
    if reason not in _REASONS and not reason.startswith(_OF_KUEUE):
        return None
    about: Json = thing.get("involvedObject") or thing["regarding"]
    at = _first_instant(thing)
    message = clean(str(thing.get("message") or thing.get("note") or ""), _LONGEST_MESSAGE)
    is_node = about.get("kind") == "Node"
    return ClusterEvent(
        at,
        clean(reason),
        message,
        usable_uid(thing["metadata"]["uid"]),
        node(str(about["name"])) if is_node else usable_uid(about["uid"]),
        str(about.get("fieldPath") or ""),
        str((thing.get("related") or {}).get("uid") or ""),
    )


def _first_instant(thing: Json) -> int:
    texts = (
        thing.get("firstTimestamp"),
        thing.get("deprecatedFirstTimestamp"),
        thing.get("eventTime"),
        thing["metadata"].get("creationTimestamp"),
    )
    text: Any = next(filter(None, texts))
    return instant(text if isinstance(text, str) else text.isoformat())


class ClusterEvents:
    """The Events of one cluster, by what they are about; of too many the oldest are let go."""

    def __init__(self) -> None:
        self._by_object: dict[str, dict[str, ClusterEvent]] = {}

    def take(self, event: ClusterEvent) -> None:
        """Keep an Event; of one that happened again its first instant stays."""
        events = self._by_object.setdefault(event.about, {})
        if len(events) < _MOST_OF_ONE:
            events.setdefault(event.uid, event)
        if len(self._by_object) > _MOST_OBJECTS:
            del self._by_object[next(iter(self._by_object))]

    def about(self, names: Iterable[str]) -> list[ClusterEvent]:
        """Return the Events about objects, in the order in which they happened."""
        events = (self._by_object.get(name, {}).values() for name in names)
        return sorted(chain.from_iterable(events))

    def forget(self, name: str) -> None:
        """Let go of the Events about an object."""
        self._by_object.pop(name, None)


def pull(events: Iterable[ClusterEvent]) -> tuple[int, int] | None:
    """Return when a pod's images were pulled, of equal instants where they were there.

    None where its Events do not say so.
    """
    own = [each for each in events if each.field.startswith(_CONTAINERS)]
    begun = [each.at for each in own if each.reason == "Pulling"]
    ended = [each.at for each in own if each.reason == "Pulled"]
    if not ended:
        return None
    begin = min(begun, default=max(ended))
    return begin, max(begin, *ended)


def evidence_of(events: Iterable[ClusterEvent], begin: int, end: int) -> list[dict[str, str]]:
    """Return what Events said from *begin* to *end*, the latest of too many."""
    return [each.evidence for each in events if begin <= each.at <= end][-_MOST_SHOWN:]
