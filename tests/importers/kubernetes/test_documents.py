"""Objects in files, however they are printed."""

import json
import tracemalloc
from pathlib import Path

import pytest
import yaml

from ett_service.importers.importer import Report
from ett_service.importers.kubernetes.dumps import objects_of
from tests.builders import kubernetes as k8s

OBJECTS = [k8s.job("a"), k8s.job("b"), {"kind": "ConfigMap", "text": '} "items": [ {\n'}]
PRETTY = json.dumps(k8s.dump(*OBJECTS), indent=4)


def names(path: Path) -> list[object]:
    return [each.get("metadata", {}).get("name") for _, each in objects_of(path, Report())]


@pytest.mark.parametrize(
    "text",
    [
        PRETTY,
        json.dumps(k8s.dump(*OBJECTS), indent=2),
        json.dumps(k8s.dump(*OBJECTS)),
        "\n".join(json.dumps(each) for each in OBJECTS),
        "\n".join(json.dumps(each, indent=4) for each in OBJECTS),
        json.dumps({"kind": "JobList", "items": OBJECTS}, indent=4) + "\n",
        yaml.safe_dump(k8s.dump(*OBJECTS)),
        yaml.safe_dump_all(OBJECTS, explicit_start=True),
        json.dumps(OBJECTS),
    ],
    ids=["kubectl", "jq", "compact", "lines", "one-by-one", "typed", "yaml", "documents", "array"],
)
def test_the_same_objects_are_read_however_they_are_printed(tmp_path: Path, text: str) -> None:
    path = tmp_path / "dump"
    path.write_text(text)
    assert names(path) == ["a", "b", None]


def test_items_of_a_typed_list_get_its_kind(tmp_path: Path) -> None:
    item = {"metadata": {"name": "a"}}
    (path := tmp_path / "dump").write_text(json.dumps({"kind": "PodList", "items": [item]}))
    assert [each["kind"] for _, each in objects_of(path, Report())] == ["Pod"]


def test_a_damaged_item_is_named_by_its_line_and_the_others_are_read(tmp_path: Path) -> None:
    lines = PRETTY.splitlines()
    broken = next(index for index, line in enumerate(lines) if '"name": "a"' in line)
    lines[broken] = lines[broken].replace('"a"', '"a')
    (path := tmp_path / "dump").write_text("\n".join(lines))
    report = Report()
    assert [each.get("kind") for _, each in objects_of(path, report)] == ["Job", "ConfigMap"]
    assert report.first_skipped[0].startswith(f"{path}:4:")


def test_a_list_that_was_cut_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    (path := tmp_path / "dump").write_text(PRETTY[: PRETTY.index('"name": "b"')])
    report = Report()
    assert [each["metadata"]["name"] for _, each in objects_of(path, report)] == ["a"]
    assert report.skipped == 1


@pytest.mark.parametrize("junk", ["{" * 5000, "[1, 2]", "a: [", "\x00\x01", "", "{}\n]\n"])
def test_junk_is_skipped(tmp_path: Path, junk: str) -> None:
    (path := tmp_path / "dump").write_text(junk)
    assert [each for _, each in objects_of(path, Report()) if each] == []


def test_a_line_without_end_is_not_held(tmp_path: Path) -> None:
    path = tmp_path / "dump"
    with path.open("w") as file:
        file.write('{"kind": "')
        for _ in range(80):
            file.write("x" * (1 << 20))
    report = Report()
    tracemalloc.start()
    assert list(objects_of(path, report)) == []
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert report.skipped == 1
    assert peak < 120 << 20
