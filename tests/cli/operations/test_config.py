import json
import re
from pathlib import Path

import pytest

from ett_service.cli.main import main


def test_show_prints_each_value_and_its_source(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("ett.toml").write_text("host = '0.0.0.0'\n")
    monkeypatch.setenv("ETT_PORT", "9001")
    assert main(["config", "show", "--json"]) == 0
    settings = json.loads(capsys.readouterr().out)
    assert settings["port"] == {"value": 9001, "source": "ETT_PORT"}
    assert settings["host"] == {"value": "0.0.0.0", "source": "ett.toml"}  # noqa: S104
    assert settings["log_level"]["source"] == "default"


def test_show_hides_the_password_of_the_database(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ETT_DATABASE_URL", "postgresql+psycopg://ett:hunter2@db/ett")
    assert main(["config", "show"]) == 0
    printed = capsys.readouterr().out
    assert "postgresql+psycopg://ett:***@db/ett" in printed
    assert "hunter2" not in printed


def test_show_prints_values_as_the_environment_takes_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["config", "show"]) == 0
    rows = [re.split(r" {2,}", row) for row in capsys.readouterr().out.splitlines()]
    values = {row[0]: row[1] for row in rows if len(row) == 3}
    for name in ("embedded_worker", "overload", "detection", "prices"):
        monkeypatch.setenv(f"ETT_{name.upper()}", values[name])

    assert main(["config", "check"]) == 0


def test_a_named_file_is_the_one_that_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other.toml"
    other.write_text("port = 7")
    assert main(["config", "show", "--config", str(other), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["port"] == {"value": 7, "source": str(other)}


def test_check_prints_no_value(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "check"]) == 0
    assert capsys.readouterr().out == "The settings are valid.\n"
