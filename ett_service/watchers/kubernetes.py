"""A Kubernetes cluster, watched: what its objects say, and which jobs have changed since.

Each kind of object has a thread that lists it and then follows its changes; between two looks the
jobs that changed are found by the versions that they have in the cluster as known so far.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Final, Protocol

from ett_service.importers.importer import Fact, ImportedRun
from ett_service.importers.kubernetes.cluster import Cluster, Unusable
from ett_service.importers.kubernetes.templates import Json
from ett_service.watchers.watcher import Snapshot, Unavailable

ALIVE_EVERY_S: Final = 600
"""How often an attempt sends a heartbeat: well within the silence after which it is lost."""

_PATH: Final = Path("kubernetes")


class Stream(Protocol):
    """One kind of object, listed and followed."""

    trouble: str  #: why it is not up to date; empty where it is
    has_stopped: bool  #: whether its thread has ended, which only a fault of ours does

    def start(self) -> None:
        """List and follow it in a thread of its own."""

    def wait(self, patience_s: float) -> bool:
        """Wait until all objects of the kind were listed once; False if that takes longer."""

    def stop(self) -> None:
        """Follow it no longer."""


class Feed:
    """Where streams put what they see, from any thread."""

    def __init__(self, cluster: Cluster, now: Callable[[], float] = time.time) -> None:
        self.cluster = cluster
        self.lock = Lock()
        self._now = now

    def take(self, changes: Sequence[tuple[str, Json]]) -> list[str]:
        """Take in changes in their order; return what is wrong with those that are damaged."""
        seen_at, wrong = int(self._now() * 1e6), []
        with self.lock:
            for change, thing in changes:
                try:
                    self.cluster.take(change, thing, seen_at)
                except Unusable as error:
                    wrong.append(str(error))
        return wrong

    def vanish(self, kind: str, present: set[str]) -> None:
        """Note that there are no other objects of *kind* than those *present*, by uid."""
        with self.lock:
            self.cluster.vanish(kind, present, int(self._now() * 1e6))


@dataclass(slots=True)
class Kubernetes:
    """The jobs of one cluster."""

    feed: Feed
    streams: Sequence[Stream]
    patience_s: float = 60.0
    say: Callable[[str], None] = lambda _: None
    now: Callable[[], float] = time.time
    name: str = "Kubernetes"
    _is_started: bool = False
    _troubles: tuple[str, ...] = ()
    _refused: set[str] = field(default_factory=set)  #: jobs whose refusal was said
    _versions: dict[str, int] = field(default_factory=dict)

    def look(self) -> Snapshot:
        """Return what there is; see :class:`Look`.

        Raises:
            Unavailable: where the cluster was not yet listed.
            RuntimeError: where a stream has stopped: better no watcher than one that misses a kind.
        """
        if not self._is_started:
            for stream in self.streams:
                stream.start()
            self._is_started = True
        if any(stream.has_stopped for stream in self.streams):
            raise RuntimeError("a kind of object is not followed any more")
        due = time.monotonic() + self.patience_s
        waiting = [each for each in self.streams if not each.wait(max(0, due - time.monotonic()))]
        if waiting:
            raise Unavailable(waiting[0].trouble or "Kubernetes did not answer")
        self._say_troubles()
        with self.feed.lock:
            self._versions = self.feed.cluster.versions()
        turn = int(self.now()) // ALIVE_EVERY_S
        marks = {uid: hash((version, turn)) for uid, version in self._versions.items()}
        return Snapshot(marks, is_whole=True)

    def stop(self) -> None:
        """Follow no kind any longer."""
        for stream in self.streams:
            stream.stop()

    def _say_troubles(self) -> None:
        troubles = tuple(sorted({each.trouble for each in self.streams if each.trouble}))
        for trouble in troubles:
            if trouble not in self._troubles:
                self.say(f"{trouble}; nothing is lost, it is tried again")
        self._troubles = troubles

    def runs(self, jobs: Iterable[str]) -> list[ImportedRun]:
        """Return all that *jobs* of the latest look say."""
        news = list(jobs)
        with self.feed.lock:
            self._forget(self._versions.keys() - set(news))
            return [run for uid in news if (run := self._run(uid)) is not None]

    def _forget(self, sent: Iterable[str]) -> None:
        """Let go of jobs that are gone and were sent: they are no news any more."""
        for uid in sent:
            if self.feed.cluster.is_gone(uid):
                self.feed.cluster.forget(uid)
                self._refused.discard(uid)

    def _run(self, uid: str) -> ImportedRun | None:
        cluster, every_us = self.feed.cluster, ALIVE_EVERY_S * 1_000_000
        if why := cluster.refusal(uid):
            if uid not in self._refused:
                self._refused.add(uid)
                self.say(f"refused: {why}")
            return None
        signs = cluster.heartbeats(uid, int(self.now() * 1e6), every_us)
        events = [*cluster.events(uid), *signs]
        if not events:
            return None
        return ImportedRun(_PATH, events[0]["job"], tuple(Fact(event) for event in events))
