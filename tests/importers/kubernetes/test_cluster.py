"""Objects that belong together find each other, in whatever order they come."""

import itertools
import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ett_service.importers.kubernetes.cluster import DELETED, MODIFIED, Cluster, Unusable
from ett_service.ingest.decode import decode
from ett_service.ingest.wire import Limits
from tests.builders import kubernetes as k8s
from tests.builders.imports import Wire
from tests.builders.kubernetes import events_of

JOB = k8s.owner("Job", "llm")
SEEN = 1_900_000_000_000_000


def launches(wire: Wire) -> set[str]:
    return {each["launch"] for each in wire if "launch" in each}


def kinds(wire: Wire) -> list[str]:
    return [each["type"] for each in wire]


def test_a_train_job_is_the_jobset_that_was_made_for_it() -> None:
    train = k8s.owner("TrainJob", "train")
    jobset = k8s.jobset("llm", workers=1)
    jobset["metadata"]["ownerReferences"] = [train]
    objects = (
        {"kind": "TrainJob", "metadata": k8s.meta("train", 0), "spec": {}},
        k8s.workload("wl", train, 0, k8s.condition("QuotaReserved", 40)),
        jobset,
        k8s.pod("a", None, 50, scheduled=60, labels=k8s.jobset_labels("llm", 0)),
    )
    for order in itertools.permutations(objects):
        wire = events_of(*order)
        assert {each["job"] for each in wire} == {"llm"}
        assert launches(wire) == {k8s.uid("llm")}
        assert kinds(wire).count("phase_started") == 4


def test_a_pod_of_an_older_jobset_is_found_by_its_name() -> None:
    labels = k8s.jobset_labels("llm", 0)
    del labels[f"{k8s.JOBSET}/jobset-uid"]
    child = k8s.job("llm-workers-0")
    child["metadata"]["ownerReferences"] = [k8s.owner("JobSet", "llm")]
    pod = k8s.pod("a", k8s.owner("Job", "llm-workers-0"), 1, scheduled=2, labels=labels)
    for order in itertools.permutations((child, pod, k8s.jobset("llm", workers=1))):
        assert launches(events_of(*order)) == {k8s.uid("llm")}


def test_a_pod_without_a_job_is_one_if_it_says_so() -> None:
    assert events_of(k8s.pod("web", None, 0)) == []
    wire = events_of(
        k8s.pod("by-hand", None, 0, scheduled=1, env=[{"name": "ETT_JOB", "value": "h"}])
    )
    assert {each["job"] for each in wire} == {"h"}


def test_a_job_that_is_deleted_is_cancelled_and_can_be_forgotten() -> None:
    cluster = Cluster()
    pod = k8s.pod("a", JOB, 0, scheduled=1, container=k8s.running(2))
    events_of(k8s.job("llm"), pod, cluster=cluster)
    cluster.take(DELETED, k8s.job("llm", deletionTimestamp=k8s.instant(50)), SEEN)
    assert not cluster.is_gone(k8s.uid("llm"))
    cluster.take(DELETED, pod, SEEN)
    *_, ended, over = k8s.all_events(cluster)
    assert (ended["type"], ended["outcome"], over["outcome"]) == (
        "attempt_ended", "cancelled", "cancelled",
    )  # fmt: skip
    assert over["at"].startswith(k8s.instant(50)[:-1])
    assert cluster.is_gone(k8s.uid("llm"))
    cluster.forget(k8s.uid("llm"))
    assert cluster.versions() == {}


def test_what_is_gone_when_all_are_listed_anew_was_deleted() -> None:
    cluster = Cluster()
    pod = k8s.pod("a", JOB, 0, scheduled=1, container=k8s.running(2))
    before = events_of(k8s.job("llm"), pod, cluster=cluster)
    cluster.vanish("Pod", {k8s.uid("b")}, SEEN)
    cluster.vanish("Job", {k8s.uid("llm")}, SEEN)
    after = k8s.all_events(cluster)
    assert kinds(after) == [*kinds(before), "attempt_ended"]


def test_a_job_changes_with_each_of_its_objects() -> None:
    cluster = Cluster()
    events_of(k8s.job("llm"), k8s.job("other"), cluster=cluster)
    before = cluster.versions()
    assert cluster.versions() == before
    cluster.take(MODIFIED, k8s.pod("a", JOB, 0))
    after = cluster.versions()
    assert [uid for uid in before if after[uid] != before[uid]] == [k8s.uid("llm")]


@pytest.mark.parametrize(
    "thing",
    [
        {},
        {"kind": "Pod"},
        {"kind": "Pod", "metadata": None},
        {"kind": "Pod", "metadata": {"uid": "u", "name": "a", "creationTimestamp": "yesterday"}},
        {**k8s.pod("a", JOB, 0), "spec": {"containers": []}},
        {**k8s.pod("a", JOB, 0), "status": {"containerStatuses": 5}},
        {**k8s.job("a"), "spec": []},
        {**k8s.workload("a", JOB, 0), "status": {"conditions": ["x"]}},
    ],
)
def test_a_damaged_object_is_refused_by_itself(thing: k8s.Json) -> None:
    cluster = Cluster()
    with pytest.raises(Unusable):
        cluster.take(MODIFIED, thing)
    assert cluster.versions() == {}


SET = k8s.owner("JobSet", "js")
GOOD = (
    k8s.job("llm", conditions=[k8s.condition("Complete", 901)]),
    k8s.workload("wl", JOB, 0, k8s.condition("QuotaReserved", 100), k8s.condition("Evicted", 300)),
    k8s.pod("a", JOB, 111, scheduled=120, container=k8s.over(150, 500, 137, "OOMKilled")),
    k8s.pod("b", JOB, 510, scheduled=512, container=k8s.running(530, 1, k8s.life(520, 525, 1))),
    k8s.jobset("js", workers=1),
    k8s.pod("w", SET, 5, scheduled=6, labels=k8s.jobset_labels("js", 0), container=k8s.running(7)),
    k8s.node("n1", 50),
)


def _places(thing: object, place: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if place:
        yield place
    inside: Any = ()
    if isinstance(thing, dict):
        inside = thing.items()
    elif isinstance(thing, list):
        inside = enumerate(thing)
    for key, value in inside:
        yield from _places(value, (*place, key))


def _damaged(number: int, place: tuple[str | int, ...], value: object) -> list[k8s.Json]:
    things = json.loads(json.dumps(GOOD))
    inside: Any = things[number]
    for key in place[:-1]:
        inside = inside[key]
    inside[place[-1]] = value
    return list(things)


PLACES = [(number, place) for number, thing in enumerate(GOOD) for place in _places(thing)]
VALUES: tuple[object, ...] = (
    None, 0, -1, 1e300, True, "", "x" * 300, "\u202e/", [], {}, ["a"], {"a": 1}, "1", 10**30,
    float("nan"), "2026-03-01T12:00:00Z",
)  # fmt: skip


@settings(max_examples=150)
@given(st.sampled_from(PLACES), st.sampled_from(VALUES))
def test_whatever_an_object_has_somewhere_what_is_sent_the_service_takes(
    place: tuple[int, tuple[str | int, ...]], value: object
) -> None:
    cluster = Cluster()
    for thing in _damaged(*place, value):
        with suppress(Unusable):
            cluster.take(MODIFIED, thing)
    wire = k8s.all_events(cluster)
    cluster.vanish("Pod", set(), SEEN)
    wire += k8s.all_events(cluster)
    body = json.dumps({"events": wire}, allow_nan=False).encode()
    batch = decode(body, {"content-type": "application/json"}, now_us=SEEN, limits=Limits())
    assert batch.refusals == ()


def test_kinds_that_say_nothing_of_jobs_are_left_out() -> None:
    assert not Cluster().take(MODIFIED, {"kind": "Service", "metadata": {}})
