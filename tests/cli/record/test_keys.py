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
    assert main(["keys", "revoke", key[:12], "--yes"]) == 0
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
    assert main(["keys", "revoke", key[:12], "--yes", *there]) == 0
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


def test_a_key_is_rotated_here_and_the_log_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    main(["migrate"])
    capsys.readouterr()
    old = _made(capsys)
    assert main(["keys", "rotate", old[:12], "--overlap", "2h"]) == 0
    new = capsys.readouterr().out.strip()
    listed = _listed(capsys)
    assert listed[old[:12]]["replaced_by"] == new[:12]
    until = datetime.fromisoformat(str(listed[old[:12]]["expires_at"])) - datetime.now(UTC)
    assert timedelta(hours=1) < until <= timedelta(hours=2)
    for overlap, message in (("1h", "has a successor already"), ("91d", "at most 90d")):
        assert main(["keys", "rotate", old[:12], "--overlap", overlap]) == 1
        assert message in capsys.readouterr().err
    assert main(["keys", "rotate", "ett_00000000"]) == 1
    assert "no active key begins with" in capsys.readouterr().err
    assert main(["audit-log", "--json"]) == 0
    acts = json.loads(capsys.readouterr().out)
    assert [act["action"] for act in acts] == ["key_rotated", "key_created"]
    assert {(act["made_by"], act["made_via"]) for act in acts} == {(None, "command")}


def test_a_running_server_rotates_and_says_what_keys_send(
    served: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    there = ("--url", served.url, "--key", served.key)
    old = _made(capsys, *there)
    assert main(["keys", "rotate", old[:12], *there]) == 0
    new = capsys.readouterr().out.strip()
    assert _listed(capsys, *there)[old[:12]]["replaced_by"] == new[:12]
    assert main(["keys", "usage", "--window", "hour", "--json", *there]) == 0
    assert isinstance(json.loads(capsys.readouterr().out), list)


def test_what_keys_sent_is_read_beside_the_database(capsys: pytest.CaptureFixture[str]) -> None:
    main(["migrate"])
    capsys.readouterr()
    assert main(["keys", "usage", "--window", "week"]) == 0
    assert capsys.readouterr().out == "No key sent anything in the last week.\n"
