import json
import re
import socket
from contextlib import closing
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest
from sqlalchemy import insert

from ett_service.cli.main import main
from ett_service.cli.operations.doctor import _clock, _waiting
from ett_service.cli.operations.server_checks import bears_writers
from ett_service.client.sending.transport import Response
from ett_service.storage.engine.migrate import migrate
from ett_service.storage.engine.store import open_store
from ett_service.storage.schema import receiver_health
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
    by_check = _findings(capsys, "--url", served.url, "--key", served.key, code=0)
    assert set(by_check) == {
        "python", "server", "key", "clock", "torch", "spool",
        "sqlite", "settings", "disk", "database", "size", "receivers",
    }  # fmt: skip
    assert {name for name, finding in by_check.items() if finding["status"] == "warn"} <= {
        "sqlite",
        "disk",
    }
    assert [
        finding
        for finding in by_check.values()
        if finding["status"] != "ok" and not finding["todo"]
    ] == []
    size = by_check["size"]["found"]
    assert re.search(r"\d [KM]iB: (?:\w+ [\d.]+ [KM]iB, ){3}\w+ \d", size), size
    assert "pruning jobs closed for 90 days would free 0 bytes (retention_days is 0" in size
    assert "pruning hours older than 90 days would free" in size
    assert "(rollups.hourly_days is 0: nothing is pruned)" in size


@pytest.mark.parametrize(
    ("version", "bears"),
    [
        ((3, 40, 1), False),
        ((3, 44, 5), False),
        ((3, 44, 6), True),
        ((3, 45, 3), False),
        ((3, 49, 2), False),
        ((3, 50, 6), False),
        ((3, 50, 7), True),
        ((3, 51, 2), False),
        ((3, 51, 3), True),
        ((3, 52, 0), False),  # it was withdrawn
        ((3, 52, 1), True),
        ((3, 53, 0), True),
    ],
)
def test_it_is_known_whether_the_log_of_an_sqlite_bears_several_writers(
    version: tuple[int, int, int], bears: bool
) -> None:
    assert bears_writers(version) is bears


def test_a_clients_machine_is_asked_for_no_database(
    served: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ETT_URL", served.url)
    monkeypatch.setenv("ETT_API_KEY", served.key)
    by_check = _findings(capsys, code=0)
    assert set(by_check) == {"python", "server", "key", "clock", "torch", "spool", "settings"}
    assert by_check["settings"]["found"].startswith("those of the server")
    assert not Path("ett.db").exists()
    Path("ett.toml").touch()
    assert _findings(capsys, code=3)["database"]["status"] == "fail"


@pytest.mark.parametrize(("hours", "shown"), [(1, "ahead of"), (-1, "behind")])
def test_a_clock_that_is_off_is_reported(hours: int, shown: str) -> None:
    there = format_datetime(datetime.now(UTC) - timedelta(hours=hours))
    (finding,) = _clock(Response(200, {"date": there}, b""))
    assert finding.status == "warn"
    assert re.fullmatch(rf"3[56]\d\d s {shown} the server's", finding.found)


@pytest.mark.parametrize(
    ("minutes", "status", "found"),
    [(1, "ok", "jobs not folded in yet: 2"), (90, "warn", "jobs not folded in yet: 2, the oldest")],
)
def test_jobs_that_wait_for_long_are_reported(minutes: int, status: str, found: str) -> None:
    since = datetime.now(UTC) - timedelta(minutes=minutes)
    body = json.dumps({"waiting_jobs": 2, "waiting_since": since.isoformat()})
    (finding,) = _waiting(Response(200, {}, body.encode()))
    assert finding.status == status
    assert finding.found.startswith(found)


def test_a_missing_database_is_a_fault_with_its_remedy(
    capsys: pytest.CaptureFixture[str],
) -> None:
    by_check = _findings(capsys, code=3)
    assert by_check["database"]["status"] == "fail"
    assert by_check["database"]["todo"] == "Run: ett migrate"
    assert by_check["server"]["status"] == "warn"
    assert by_check["sqlite"]["status"] in {"ok", "warn"}


def test_a_server_that_was_named_must_answer(capsys: pytest.CaptureFixture[str]) -> None:
    main(["migrate"])
    capsys.readouterr()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    by_check = _findings(capsys, "--url", f"http://127.0.0.1:{port}", code=3)
    assert by_check["server"]["status"] == "fail"
    assert "ett serve" in by_check["server"]["todo"]


def test_a_key_that_the_server_does_not_know_is_a_fault(
    served: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ETT_DATABASE_URL", served.database_url)
    by_check = _findings(capsys, "--url", served.url, "--key", "ett_wrong", code=3)
    assert by_check["key"]["status"] == "fail"


def test_wrong_settings_are_a_fault(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ETT_PROT", "1")
    by_check = _findings(capsys, code=3)
    assert "did you mean ETT_PORT?" in by_check["settings"]["found"]


def test_unsent_events_of_a_dead_trainer_are_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["migrate"])
    capsys.readouterr()
    left = tmp_path / "spool" / "llm-7b-00000000" / "p1"
    left.mkdir(parents=True)
    (left / "owner.json").write_text("{}")
    (left / "000001.jsonl").write_text('{"type": "heartbeat"}\n')
    by_check = _findings(capsys, code=0)
    assert by_check["spool"]["status"] == "warn"
    assert by_check["spool"]["found"].startswith("22 bytes in 1 spools")
    assert by_check["spool"]["todo"] == f"Send them: ett sync {tmp_path / 'spool'}"


def test_each_line_begins_with_its_status(ett: Ett) -> None:
    lines = ett("doctor").stdout.splitlines()
    assert {line.split()[0] for line in lines if not line.startswith(" ")} <= {"ok", "warn", "fail"}
    assert lines[0].startswith("ok   python")


def test_a_receiver_that_is_paused_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path / 'ett.db'}"
    monkeypatch.setenv("ETT_DATABASE_URL", url)
    row = {"owner": 0, "name": "oncall", "failures": 6, "open_until_us": 1 << 60}
    migrate(url)
    with closing(open_store(url)) as store:
        store.write(lambda conn: conn.execute(insert(receiver_health), row))
    finding = _findings(capsys, code=0)["receivers"]
    assert finding["status"] == "warn"
    assert finding["found"].startswith("oncall is paused until ")
    assert finding["found"].endswith("after 6 failures in a row")
