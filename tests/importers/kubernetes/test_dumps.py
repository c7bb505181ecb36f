"""Dumps of a cluster, imported."""

import json
from pathlib import Path

import pytest

from ett_service.importers.importer import Report
from ett_service.importers.kubernetes.dumps import read
from ett_service.ingest.decode import decode
from ett_service.ingest.wire import Limits
from tests.builders import kubernetes as k8s
from tests.builders.imports import Wire
from tests.builders.kubernetes import events_of

JOB = k8s.owner("Job", "llm")
OBJECTS = (
    k8s.job("llm", conditions=[k8s.condition("Complete", 901)]),
    k8s.workload("wl", JOB, 0, k8s.condition("QuotaReserved", 100)),
    k8s.pod("llm-a", JOB, 111, scheduled=120, container=k8s.over(150, 500, 137, "OOMKilled")),
    k8s.pod("llm-b", JOB, 510, scheduled=512, container=k8s.over(530, 900)),
)


def imported(*paths: Path, job: str | None = None) -> tuple[Wire, Report]:
    runs, report = read(paths, job)
    return [event for run in runs for event in run.events], report


def by_id(wire: Wire) -> Wire:
    return sorted(wire, key=lambda each: each["id"])


def test_a_dump_says_what_the_objects_say(tmp_path: Path) -> None:
    path = tmp_path / "all.json"
    path.write_text(json.dumps(k8s.dump(*OBJECTS), indent=4))
    wire, report = imported(path)
    assert by_id(wire) == by_id(events_of(*OBJECTS))
    assert (report.files, report.records, report.skipped) == (1, 4, 0)


def test_files_of_one_folder_are_one_cluster(tmp_path: Path) -> None:
    for number, each in enumerate(OBJECTS):
        (tmp_path / f"{number}.json").write_text(json.dumps(each, indent=4))
    assert by_id(imported(tmp_path)[0]) == by_id(events_of(*OBJECTS))


def test_a_saved_watch_says_more_than_what_is_left_at_its_end(tmp_path: Path) -> None:
    states = [
        ("ADDED", k8s.job("llm")),
        ("ADDED", k8s.pod("llm-a", JOB, 0, scheduled=5, container=k8s.running(10))),
        ("MODIFIED", k8s.pod("llm-a", JOB, 0, scheduled=5,
                             container=k8s.running(40, 1, k8s.life(10, 30, 1)))),
        ("MODIFIED", k8s.pod("llm-a", JOB, 0, scheduled=5,
                             container=k8s.running(80, 2, k8s.life(40, 70, 2)))),
        ("DELETED", k8s.pod("llm-a", JOB, 0, scheduled=5, deleted=90,
                            container=k8s.running(80, 2, k8s.life(40, 70, 2)))),
    ]  # fmt: skip
    path = tmp_path / "watch.jsonl"
    path.write_text("\n".join(json.dumps({"type": t, "object": o}) for t, o in states))
    wire, _ = imported(path)
    ends = [each for each in wire if each["type"] == "attempt_ended"]
    assert [(each["outcome"], each.get("exit_code")) for each in ends] == [
        ("failed", 1),
        ("failed", 2),
        ("cancelled", None),
    ]


def test_a_longer_dump_adds_to_what_was_said_and_changes_none_of_it(tmp_path: Path) -> None:
    early = (k8s.job("llm"), OBJECTS[1], OBJECTS[2])
    (first := tmp_path / "first.json").write_text(json.dumps(k8s.dump(*early)))
    (second := tmp_path / "second.json").write_text(json.dumps(k8s.dump(*OBJECTS)))
    before = {each["id"]: each for each in imported(first)[0]}
    after = {each["id"]: each for each in imported(second)[0]}
    assert {name: after.get(name) for name in before} == before
    assert len(after) > len(before)


def test_all_are_one_job_if_asked(tmp_path: Path) -> None:
    (path := tmp_path / "a.json").write_text(json.dumps(k8s.dump(*OBJECTS)))
    assert {each["job"] for each in imported(path, job="mine")[0]} == {"mine"}


def test_what_cannot_be_used_is_named(tmp_path: Path) -> None:
    (path := tmp_path / "a.json").write_text(
        json.dumps({"kind": "Pod"}) + "\n" + json.dumps({"kind": "Service", "metadata": {}})
    )
    wire, report = imported(path, tmp_path / "none.json")
    assert wire == []
    assert report.first_skipped == [f"{path}:1: no whole object: KeyError 'metadata'"]
    assert report.notes == [f"{path}: 1 objects are of kinds that say nothing of jobs"]
    assert report.unread == [f"{tmp_path / 'none.json'}: No such file or directory"]


@pytest.mark.parametrize("text", ["a" * 5000, "\u202e/..", "x" * 64 + "\n"])
def test_the_service_takes_whatever_an_object_calls_itself(tmp_path: Path, text: str) -> None:
    objects = json.loads(json.dumps(k8s.dump(*OBJECTS)))
    for each in objects["items"]:
        each["metadata"]["namespace"] = text
        for status in each["status"].get("containerStatuses", ()):
            for state in status["state"].values():
                state["reason"] = state["message"] = text
    (path := tmp_path / "a.json").write_text(json.dumps(objects))
    wire, _ = imported(path)
    body = json.dumps({"events": wire, "history": True}).encode()
    limits, now_us = Limits(), 1_900_000_000_000_000
    batch = decode(body, {"content-type": "application/json"}, now_us=now_us, limits=limits)
    assert batch.refusals == ()


def test_two_namespaces_with_a_job_of_one_name_are_not_one_job(tmp_path: Path) -> None:
    other = k8s.job("llm", 30)
    other["metadata"] |= {"namespace": "vision", "uid": "uid-of-the-other"}
    path = tmp_path / "all.json"
    path.write_text(json.dumps(k8s.dump(*OBJECTS, other)))
    wire, report = imported(path)
    assert by_id(wire) == by_id(events_of(*OBJECTS))
    why = "Job llm of namespace vision is called llm as one of namespace research"
    assert report.refused == [
        f"{path}:0: {why}: tell them apart by --name '{{namespace}}-{{name}}'"
    ]
    runs, report = read([path], template="{namespace}-{name}")
    assert [run.job for run in runs] == ["research-llm", "vision-llm"]
    assert report.refused == []


def test_two_namespaces_may_name_one_job_in_their_pods(tmp_path: Path) -> None:
    env = [{"name": "ETT_JOB", "value": "shared"}]
    other = k8s.job("llm", 30, env=env)
    other["metadata"] |= {"namespace": "vision", "uid": "uid-of-the-other"}
    path = tmp_path / "all.json"
    path.write_text(json.dumps(k8s.dump(k8s.job("llm", env=env), other)))
    runs, report = read([path])
    assert [(run.job, len(run.facts)) for run in runs] == [("shared", 2)]
    assert report.refused == []
