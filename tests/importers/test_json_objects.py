"""JSON objects, one a line or printed for people."""

import json
from pathlib import Path

import msgspec
import pytest

from ett_service.importers.files import json_objects
from ett_service.importers.importer import Report

DECODE = msgspec.json.Decoder(dict[str, int]).decode


def objects(path: Path, content: str) -> tuple[list[tuple[int, dict[str, int]]], Report]:
    path.write_text(content)
    report = Report()
    return list(json_objects(path, report, DECODE)), report


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.json"


def test_lines_come_with_their_numbers(path: Path) -> None:
    read, report = objects(path, '{"a": 1}\n\n{"a": 2},\n')
    assert (read, report.skipped) == ([(1, {"a": 1}), (3, {"a": 2})], 0)


@pytest.mark.parametrize("indent", [1, 2, 4])
def test_an_array_for_people_is_read_object_by_object(path: Path, indent: int) -> None:
    read, _ = objects(path, json.dumps([{"a": 1}, {"a": 2, "b": 3}], indent=indent))
    assert read == [(2, {"a": 1}), (5, {"a": 2, "b": 3})]


def test_a_lone_object_for_people_is_read(path: Path) -> None:
    assert objects(path, json.dumps({"a": 1}, indent=2))[0] == [(1, {"a": 1})]


def test_what_cannot_be_read_is_named_and_the_rest_is_read(path: Path) -> None:
    lines = ['{"a": 1', '{"a": "x"}', "{", '  "a": 1', '{"a": 2}']
    read, report = objects(path, "\n".join(lines))

    assert read == []
    assert report.first_skipped == [
        f"{path}:1: no whole JSON object",
        f"{path}:2: Expected `int`, got `str` - at `$[...]`",
        f"{path}:3: an object without an end",
    ]


def test_deep_json_is_a_skipped_line(path: Path) -> None:
    read, report = objects(path, '{"b": ' + "[" * 100_000 + '\n{"a": 2}')
    assert (read, report.skipped) == ([(2, {"a": 2})], 1)


def test_an_object_without_an_end_takes_no_memory(path: Path) -> None:
    read, report = objects(path, "{\n" + "x\n" * (1 << 20) + '{"a": 2}\n')
    assert read[-1][1] == {"a": 2}
    assert report.first_skipped[0] == f"{path}:1: an object without an end"
