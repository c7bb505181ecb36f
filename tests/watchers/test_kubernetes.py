"""What is sent of a cluster, and how often."""

import time
from collections.abc import Iterable

import pytest

from ett_service.importers.importer import ImportedRun
from ett_service.importers.kubernetes.cluster import Cluster
from ett_service.watchers.kubernetes import ALIVE_EVERY_S, Feed, Kubernetes
from ett_service.watchers.watcher import Unavailable, Watcher
from tests.builders import kubernetes as k8s

JOB = k8s.owner("Job", "llm")
POD = k8s.pod("llm-a", JOB, 1, scheduled=2, container=k8s.running(3))
OVER = k8s.pod("llm-a", JOB, 1, scheduled=2, container=k8s.over(3, 9))


class Listed:
    """A stream of a kind whose objects the test puts in itself."""

    def __init__(self, *, is_listed: bool = True) -> None:
        self.trouble = "" if is_listed else "no answer"
        self.has_stopped = False
        self.starts = 0
        self._is_listed = is_listed

    def start(self) -> None:
        self.starts += 1

    def wait(self, patience_s: float) -> bool:
        return self._is_listed and patience_s >= 0

    def stop(self) -> None:
        self.has_stopped = True


class Sender:
    """A service that can be out of reach."""

    def __init__(self) -> None:
        self.sent: list[list[str]] = []
        self.is_reached = True

    def __call__(self, runs: Iterable[ImportedRun]) -> None:
        kinds = [event["type"] for run in runs for event in run.events]
        if not self.is_reached:
            raise Unavailable("the service does not answer")
        self.sent.append(kinds)


class World:
    """A watcher of a cluster, with a clock that the test moves."""

    def __init__(self) -> None:
        self.now = float(3000 * ALIVE_EVERY_S)
        self.said: list[str] = []
        self.feed = Feed(Cluster(), self._time)
        self.stream = Listed()
        source = Kubernetes(self.feed, [self.stream], say=self.said.append, now=self._time)
        self.send = Sender()
        self.watcher = Watcher(source, self.send, self.said.append, 30)

    def _time(self) -> float:
        return self.now

    def put(self, *things: k8s.Json, change: str = "MODIFIED") -> None:
        assert self.feed.take([(change, thing) for thing in things]) == []

    def poll(self) -> list[str]:
        """The types of what one more look sends."""
        self.watcher.try_to_poll()
        return self.send.sent[-1]


@pytest.fixture
def world() -> World:
    made = World()
    made.put(k8s.job("llm"), POD)
    return made


ALL = [
    "job", "phase_started", "phase_ended", "attempt_started", "phase_started", "phase_ended",
    "span", "heartbeat",
]  # fmt: skip


def test_what_did_not_change_is_not_sent_again(world: World) -> None:
    assert world.poll() == ALL
    assert world.poll() == []


def test_a_sign_of_life_is_all_that_is_sent_of_a_job_that_merely_runs(world: World) -> None:
    world.poll()
    world.poll()
    world.now += ALIVE_EVERY_S
    assert world.poll() == ["heartbeat"]
    assert world.poll() == []


def test_what_did_not_arrive_is_sent_until_it_does(world: World) -> None:
    world.send.is_reached = False
    assert not world.watcher.try_to_poll()
    world.now += ALIVE_EVERY_S
    assert not world.watcher.try_to_poll()
    world.send.is_reached = True
    assert world.poll() == ALL
    assert world.poll() == []


def test_a_job_that_is_over_and_gone_is_forgotten_once_it_was_sent(world: World) -> None:
    world.poll()
    world.put(OVER, k8s.job("llm"), change="DELETED")
    world.send.is_reached = False
    assert not world.watcher.try_to_poll()
    assert not world.watcher.try_to_poll()
    world.send.is_reached = True
    assert world.poll()[-2:] == ["attempt_ended", "job_ended"]
    world.poll()
    assert world.feed.cluster.versions() == {}
    assert world.poll() == []


def test_a_cluster_that_does_not_answer_is_no_empty_cluster() -> None:
    source = Kubernetes(Feed(Cluster()), [Listed(is_listed=False)], patience_s=0)
    with pytest.raises(Unavailable, match="no answer"):
        source.look()


def test_a_stream_that_has_stopped_ends_the_watcher(world: World) -> None:
    world.poll()
    world.stream.has_stopped = True
    with pytest.raises(RuntimeError, match="not followed"):
        world.watcher.try_to_poll()


def test_trouble_is_reported_when_it_begins(world: World) -> None:
    world.poll()
    world.stream.trouble = "pods: broken"
    world.poll()
    world.poll()
    assert [each for each in world.said if "broken" in each] == [
        "pods: broken; nothing is lost, it is tried again"
    ]
    assert world.stream.starts == 1


def test_changes_are_seen_when_they_come_unless_a_clock_is_given() -> None:
    feed = Feed(Cluster())
    feed.take([("ADDED", k8s.job("llm")), ("ADDED", POD), ("DELETED", POD)])
    ended = k8s.all_events(feed.cluster)[-1]
    assert abs(k8s.at(ended["at"]) - time.time()) < 60


def test_a_watcher_that_ends_follows_nothing_any_longer() -> None:
    world = World()
    world.watcher.source.stop()
    assert world.stream.has_stopped


def test_a_job_with_the_name_of_one_in_another_namespace_is_refused_and_said_once(
    world: World,
) -> None:
    world.poll()
    other = k8s.job("llm", 30)
    other["metadata"] |= {"namespace": "vision", "uid": "uid-of-the-other"}
    world.put(other)
    assert world.poll() == []
    world.put(other)
    assert world.poll() == []
    (refusal,) = [line for line in world.said if "refused" in line]
    assert "Job llm of namespace vision is called llm as one of namespace research" in refusal
    assert refusal.endswith("tell them apart by --name '{namespace}-{name}'")
