"""``ett audit-log`` lists what administrators did, on this machine or over HTTP."""

import json

import pytest

from ett_service.cli.main import main
from tests.builders.servers.ett import Server


def _log(capsys: pytest.CaptureFixture[str], *more: str) -> list[dict[str, object]]:
    assert main(["audit-log", "--json", *more]) == 0
    entries: list[dict[str, object]] = json.loads(capsys.readouterr().out)
    return entries


def test_commands_beside_the_database_are_listed_by_filters(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["migrate"])
    capsys.readouterr()
    assert main(["audit-log"]) == 0
    assert capsys.readouterr().out == "Nobody has administered anything yet.\n"
    main(["keys", "create", "--project", "research", "--scope", "read"])
    prefix = capsys.readouterr().out[:12]
    main(["keys", "revoke", prefix, "--yes"])
    main(["prune", "--days", "90", "--yes"])
    main(["backup", "--restored"])
    capsys.readouterr()

    actions = [entry["action"] for entry in _log(capsys)]
    assert actions == ["store_restored", "record_pruned", "key_revoked", "key_created"]
    assert len(_log(capsys, "--target", prefix)) == 2
    assert len(_log(capsys, "--action", "key_revoked", "--action", "record_pruned")) == 2
    assert _log(capsys, "--to", "2020-01-01") == []
    assert len(_log(capsys, "--limit", "1", "--from", "2020-01-01")) == 1
    assert main(["audit-log"]) == 0
    assert "key_created" in capsys.readouterr().out


def test_the_log_of_a_server_says_by_which_key(
    served: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    there = ("--url", served.url, "--key", served.key)
    main(["keys", "create", "--project", "research", "--scope", "read", *there])
    prefix = capsys.readouterr().out[:12]

    (entry,) = _log(capsys, "--target", prefix, *there)
    assert (entry["made_by"], entry["made_via"]) == (served.key[:12], "api")
