import json
import socket
from pathlib import Path

import pytest

from ett_service.cli.main import main
from tests.builders.servers.ett import Server
from tests.cli.conftest import Ett


def _findings(
    capsys: pytest.CaptureFixture[str], *arguments: str, code: int
) -> dict[str, dict[str, str]]:
    assert main(["doctor", "--json", *arguments]) == code
    return {finding["check"]: finding for finding in json.loads(capsys.readouterr().out)}


def test_a_sound_installation_has_no_fault(
    served: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ETT_DATABASE_URL", served.database_url)
    found = _findings(capsys, "--url", served.url, "--key", served.key, code=0)
    assert set(found) == {
        "python", "server", "key", "torch", "spool", "sqlite", "settings", "disk", "database"
    }  # fmt: skip
    assert {name for name, finding in found.items() if finding["status"] == "warn"} <= {
        "sqlite",
        "disk",
    }
    assert [
        finding for finding in found.values() if finding["status"] != "ok" and not finding["todo"]
    ] == []


def test_a_missing_database_is_a_fault_and_says_how_to_make_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = _findings(capsys, code=3)
    assert found["database"]["status"] == "fail"
    assert found["database"]["todo"] == "Run: ett migrate"
    assert found["server"]["status"] == "warn"
    assert found["sqlite"]["status"] in {"ok", "warn"}


def test_a_server_that_was_named_must_answer(capsys: pytest.CaptureFixture[str]) -> None:
    main(["migrate"])
    capsys.readouterr()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    found = _findings(capsys, "--url", f"http://127.0.0.1:{port}", code=3)
    assert found["server"]["status"] == "fail"
    assert "ett serve" in found["server"]["todo"]


def test_a_key_that_the_server_does_not_know_is_a_fault(
    served: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ETT_DATABASE_URL", served.database_url)
    found = _findings(capsys, "--url", served.url, "--key", "ett_wrong", code=3)
    assert found["key"]["status"] == "fail"


def test_wrong_settings_are_a_fault(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ETT_PROT", "1")
    found = _findings(capsys, code=3)
    assert "did you mean ETT_PORT?" in found["settings"]["found"]


def test_what_a_dead_trainer_left_unsent_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["migrate"])
    capsys.readouterr()
    left = tmp_path / "spool" / "llm-7b-00000000" / "p1"
    left.mkdir(parents=True)
    (left / "owner.json").write_text("{}")
    (left / "000001.jsonl").write_text('{"type": "heartbeat"}\n')
    found = _findings(capsys, code=0)
    assert found["spool"]["status"] == "warn"
    assert found["spool"]["found"].startswith("22 bytes in 1 spools")
    assert found["spool"]["todo"] == f"Send them: ett sync {tmp_path / 'spool'}"


def test_each_line_begins_with_its_status(ett: Ett) -> None:
    said = ett("doctor").stdout.splitlines()
    assert {line.split()[0] for line in said if not line.startswith(" ")} <= {"ok", "warn", "fail"}
    assert said[0].startswith("ok   python")
