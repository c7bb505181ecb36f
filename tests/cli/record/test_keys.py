import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ett_service.cli.main import main
from tests.builders.servers.ett import Server


def _made(capsys: pytest.CaptureFixture[str], *more: str) -> str:
    command = ["keys", "create", "--project", "research", "--name", "cluster a", *more]
    assert main([*command, "--scope", "write", "--scope", "read"]) == 0
    return capsys.readouterr().out.strip()


def _listed(capsys: pytest.CaptureFixture[str], *more: str) -> dict[str, dict[str, object]]:
    assert main(["keys", "list", "--json", *more]) == 0
    return {key["prefix"]: key for key in json.loads(capsys.readouterr().out)}


def test_a_key_is_shown_once_listed_by_its_prefix_and_revoked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["migrate"])
    capsys.readouterr()
    key = _made(capsys)
    listed = _listed(capsys)[key[:12]]
    assert (listed["project"], listed["name"]) == ("research", "cluster a")
    assert listed["scopes"] == ["read", "write"]
    assert listed["revoked_at"] is None
    assert main(["keys", "revoke", key[:12]]) == 0
    assert capsys.readouterr().out == f"{key[:12]} is revoked.\n"
    assert _listed(capsys)[key[:12]]["revoked_at"] is not None


def test_the_list_as_a_table_shows_no_secret(capsys: pytest.CaptureFixture[str]) -> None:
    main(["migrate"])
    capsys.readouterr()
    key = _made(capsys)
    assert main(["keys", "list"]) == 0
    printed = capsys.readouterr().out
    assert key[:12] in printed
    assert key not in printed


def test_a_running_server_is_queried_instead_of_its_file(
    served: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    there = ("--url", served.url, "--key", served.key)
    key = _made(capsys, *there)
    assert key[:12] in _listed(capsys, *there)
    assert main(["keys", "revoke", key[:12], *there]) == 0
    capsys.readouterr()
    assert _listed(capsys, *there)[key[:12]]["revoked_at"] is not None


@pytest.mark.usefixtures("in_environment")
def test_the_server_that_the_environment_names_is_asked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    key = _made(capsys)
    assert key[:12] in _listed(capsys)
    assert not Path("ett.db").exists()
    Path("ett.toml").touch()
    assert main(["migrate"]) == 0
    capsys.readouterr()
    assert _listed(capsys) == {}


def test_a_key_expires_where_that_is_asked_and_the_doctor_says_so_before(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["migrate"])
    make = ["keys", "create", "--project", "research", "--scope", "read", "--json"]
    assert main([*make, "--expires", "1e9d"]) == 1
    capsys.readouterr()
    for days in (10, 90):
        assert main([*make, "--name", f"{days} days", "--expires", f"{days}d"]) == 0
        made = json.loads(capsys.readouterr().out)
        until = datetime.fromisoformat(made["expires_at"]) - datetime.now(UTC)
        assert days - 1 < until / timedelta(days=1) < days + 1
        assert _listed(capsys)[made["key"][:12]]["expires_at"] == made["expires_at"]

    main(["doctor", "--json"])
    (warning,) = [each for each in json.loads(capsys.readouterr().out) if each["check"] == "keys"]
    assert warning["status"] == "warn"
    assert "10 days" in warning["found"]
    assert "90 days" not in warning["found"]
