"""The official client, on an API server that pages, chunks, forgets, breaks off and refuses."""

import time
from collections.abc import Callable, Iterator
from typing import ClassVar

import pytest
from kubernetes import client

from ett_service.importers.kubernetes.cluster import Cluster
from ett_service.watchers.kubernetes import Feed, Kubernetes
from ett_service.watchers.kubernetes_api import KINDS, Api, KindStream
from ett_service.watchers.watcher import Unavailable
from tests.builders import kubernetes as k8s
from tests.builders.kubernetes_api import TOKEN, ApiServer, api_server

JOB = k8s.owner("Job", "llm")
POD = k8s.pod("llm-a", JOB, 1, scheduled=2, container=k8s.running(3))
LLM = k8s.uid("llm")


class Watch:
    """A watcher's source on a server, and what it said."""

    streams: ClassVar[list[KindStream]] = []  #: of all that were made

    def __init__(self, server: ApiServer, token: str = TOKEN) -> None:
        self.said: list[str] = []
        configuration = client.Configuration(
            host=server.url, api_key={"authorization": f"Bearer {token}"}
        )
        api = Api(client.ApiClient(configuration))
        self.feed = Feed(Cluster())
        streams = [KindStream(api, kind, self.feed, self.said.append, 0.01) for kind in KINDS]
        self.source = Kubernetes(self.feed, streams, say=self.said.append)
        self.streams.extend(streams)

    def events(self) -> list[tuple[str, str]]:
        """Type, and phase or outcome, of all that is known."""
        self.source.look()
        with self.feed.lock:
            wire = k8s.all_events(self.feed.cluster)
        return [(each["type"], str(each.get("phase", each.get("outcome")))) for each in wire]

    def stages(self) -> set[str]:
        """The stages that are known."""
        self.source.look()
        with self.feed.lock:
            return {each.get("stage", "") for each in k8s.all_events(self.feed.cluster)}


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with api_server() as state:
        yield state
        while Watch.streams:
            Watch.streams.pop().stop()


def eventually(holds: Callable[[], bool]) -> None:
    """Wait until something holds; only what never comes fails."""
    due = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < due
        time.sleep(0.01)


def test_what_is_there_is_listed_in_pages_and_what_happens_then_is_followed(
    server: ApiServer,
) -> None:
    server.page = 2
    server.put(*(k8s.job(f"j{number}") for number in range(5)), k8s.job("llm"))
    watch = Watch(server)
    assert [kind for kind, _ in watch.events()] == ["job"] * 6
    server.put(POD)
    eventually(lambda: ("phase_ended", "hardware_setup") in watch.events())
    server.put(k8s.pod("llm-a", JOB, 1, scheduled=2, container=k8s.over(3, 9, 1)))
    eventually(lambda: ("attempt_ended", "failed") in watch.events())
    assert server.listed("Job") == 1


def test_of_nodes_no_more_than_the_metadata_is_read(server: ApiServer) -> None:
    server.put(k8s.node("n1", 0), k8s.job("llm"), POD)
    watch = Watch(server)
    watch.events()
    server.put(k8s.node("n2", 5))
    later = k8s.pod("llm-b", JOB, 1, scheduled=7, container=k8s.running(8), node="n2")
    server.put(later)
    eventually(lambda: "node_start" in watch.stages())


def test_evidence_in_the_last_word_of_a_deleted_pod_is_kept(server: ApiServer) -> None:
    server.put(k8s.job("llm"), POD)
    watch = Watch(server)
    watch.events()
    message = [k8s.condition("DisruptionTarget", 8, reason="PreemptionByScheduler")]
    server.delete(
        k8s.pod("llm-a", JOB, 1, scheduled=2, container=k8s.over(3, 9, 143), conditions=message)
    )
    eventually(lambda: ("attempt_ended", "preempted") in watch.events())


def test_the_last_word_of_an_event_that_is_deleted_with_its_pod_is_kept(server: ApiServer) -> None:
    preempted = k8s.cluster_event("Preempted", POD, 8, "Preempted by pod 12-ab on node n1")
    server.put(k8s.job("llm"), POD)
    watch = Watch(server)
    watch.events()
    server.put(preempted)
    server.delete(preempted)
    eventually(lambda: watch.feed.cluster.versions()[LLM] > 2)
    server.delete(k8s.pod("llm-a", JOB, 1, scheduled=2, container=k8s.over(3, 9, 143), deleted=8))
    eventually(lambda: ("attempt_ended", "preempted") in watch.events())


def test_a_watch_that_breaks_off_goes_on_where_it_was(server: ApiServer) -> None:
    server.put(k8s.job("llm"))
    watch = Watch(server)
    watch.events()
    server.break_off()
    server.put(POD)
    eventually(lambda: ("phase_ended", "hardware_setup") in watch.events())
    assert server.listed("Pod") == 1


def test_where_the_history_is_forgotten_all_is_listed_anew(server: ApiServer) -> None:
    server.put(k8s.job("llm"), POD)
    watch = Watch(server)
    watch.events()
    server.delete_unseen(POD)
    eventually(lambda: ("attempt_ended", "cancelled") in watch.events())
    assert server.listed("Pod") == 2


def test_kinds_that_the_cluster_lacks_are_reported_once_and_left_out(server: ApiServer) -> None:
    watch = Watch(server)
    assert watch.events() == []
    assert sorted(watch.said) == [
        "the cluster has no jobsets: they are left out",
        "the cluster has no pytorchjobs: they are left out",
        "the cluster has no trainjobs: they are left out",
    ]


def test_a_kind_that_may_not_be_read_is_reported_and_the_others_are_watched(
    server: ApiServer,
) -> None:
    server.forbidden.add("Workload")
    server.put(k8s.job("llm"), POD)
    watch = Watch(server)
    assert ("phase_ended", "hardware_setup") in watch.events()
    assert any(each.startswith("Kubernetes refuses workloads: 403") for each in watch.said)


def test_a_server_that_refuses_is_unavailable(server: ApiServer) -> None:
    watch = Watch(server, token="wrong")  # noqa: S106 -- none at all
    watch.source.patience_s = 0.5
    with pytest.raises(Unavailable, match="401"):
        watch.source.look()


def test_a_damaged_object_is_reported_and_the_others_are_watched(server: ApiServer) -> None:
    broken = k8s.pod("broken", JOB, 1)
    broken["spec"] = {"containers": []}
    server.put(k8s.job("llm"), broken, POD)
    watch = Watch(server)
    assert ("phase_ended", "hardware_setup") in watch.events()
    assert any("pods: 1 objects are not as expected" in each for each in watch.said)


def test_a_watcher_that_begins_anew_reports_the_same(server: ApiServer) -> None:
    server.put(k8s.job("llm"), k8s.workload("wl", JOB, 0, k8s.condition("QuotaReserved", 1)), POD)
    first, second = Watch(server), Watch(server)
    for watch in (first, second):
        watch.source.look()
    before, after = (watch.source.runs([LLM]) for watch in (first, second))
    assert [run.events for run in before] == [run.events for run in after]
