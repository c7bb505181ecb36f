import json
import re
from typing import Any

import pytest

from ett_service.cli.main import main

pytestmark = pytest.mark.usefixtures("in_environment")


def add(*arguments: str) -> int:
    return main(["markers", "add", "--kind", "deploy", *arguments])


def listed(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert main(["markers", "list", "--json", *arguments]) == 0
    markers: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return markers


def test_a_marker_is_kept_listed_and_deleted(capsys: pytest.CaptureFixture[str]) -> None:
    at = ("--at", "2026-03-01T09:00:00+01:00", "--end", "2026-03-01T10:00:00+01:00")
    labels = ("--label", "service:trainer", "--label", "image:registry/a:4.2")
    assert add("Trainer 4.2", "--id", "trainer-4.2", *at, *labels) == 0
    assert capsys.readouterr().out == "trainer-4.2\n"

    (marker,) = listed(capsys, "--label", "image:registry/a:4.2")
    assert (marker["at"], marker["kind"]) == ("2026-03-01T08:00:00.000000Z", "deploy")
    assert marker["labels"] == {"service": "trainer", "image": "registry/a:4.2"}
    assert listed(capsys, "--q", "TRAINER", "--to", "2026-03-01T08:00:00Z") == []

    assert main(["markers", "list", "--q", "trainer"]) == 0
    (row,) = capsys.readouterr().out.splitlines()[1:]
    assert re.match(r"trainer-4.2 +2026-03-01 08:00:00 +deploy .+ 2026-03-01 09:00:00$", row)
    assert "  Trainer 4.2  " in row

    assert main(["markers", "delete", "trainer-4.2", "--yes"]) == 0
    assert capsys.readouterr().out == "trainer-4.2 is deleted.\n"
    assert listed(capsys, "--q", "trainer") == []


def test_without_an_instant_it_is_now_and_json_is_the_answer(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert add("Now", "--json") == 0
    marker = json.loads(capsys.readouterr().out)
    assert marker["at"] <= marker["made_at"]
    assert marker in listed(capsys, "--from", marker["at"])
    assert main(["markers", "delete", marker["id"], "--yes", "--json"]) == 0


def test_a_list_longer_than_a_page_is_read_to_its_end(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ett_service.cli.remote._PAGE", 2)
    for number in range(5):
        add(f"Many {number}", "--at", f"2025-01-01T00:00:0{number}Z")
    titles = [marker["title"] for marker in listed(capsys, "--q", "many")]
    assert titles == [f"Many {number}" for number in reversed(range(5))]


def test_an_empty_list_explains_how_to_begin(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["markers", "list", "--q", "no such title"]) == 0
    assert "ett markers add" in capsys.readouterr().out


def test_a_refusal_names_what_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    assert add("Later", "--at", "2026-03-01T08:00:00") == 1
    assert "/at: timestamp_without_offset." in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        add("Label", "--label", "service")
    assert "NAME:VALUE" in capsys.readouterr().err
