"""``ett receivers`` against a real server with a real worker."""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ett_service.cli.main import main
from tests.builders.receivers.listening import receiving, reply
from tests.builders.servers import processes
from tests.builders.servers.ett import Server, serving
from tests.builders.servers.processes import bare_environment

SETTINGS = """
webhook_allow = ["127.0.0.0/8"]
public_url = "https://ett.example"

[[receivers]]
name = "fleet"
url = "https://hooks.example/CANARYurl"
format = "slack"

[[receivers]]
name = "pager"
url = "https://events.example/v2/enqueue"
format = "pagerduty"
secret = "CANARYrouting"
"""

pytestmark = pytest.mark.xdist_group("receivers")


@pytest.fixture(scope="module")
def notifying(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Serve a new SQLite file with receivers in its settings."""
    folder = tmp_path_factory.mktemp("notifying")
    (folder / "ett.toml").write_text(SETTINGS)
    with serving(f"sqlite:///{folder / 'ett.db'}", folder, key="") as server:
        yield server


@pytest.fixture
def run(
    notifying: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Any:
    """Return a function that runs the verb and returns what it printed."""
    monkeypatch.setenv("ETT_URL", notifying.url)
    monkeypatch.setenv("ETT_API_KEY", notifying.key)

    def ran(*arguments: str, code: int = 0) -> str:
        assert main(["receivers", *arguments]) == code
        output = capsys.readouterr()
        return output.out + output.err

    yield ran
    for receiver in json.loads(ran("list", "--json")):
        if receiver["origin"] == "api":
            ran("remove", receiver["name"], "--yes")


def test_a_receiver_is_added_tried_rotated_and_removed(run: Any) -> None:
    with receiving(reply(200, b"ok")) as hook:
        secret = run("add", "oncall", hook.url, "--where", "model:llm-70b").strip()
        assert secret.startswith("whsec_")
        assert run("test", "oncall").splitlines()[1] == "The receiver answered: ok"
        assert run("rotate", "oncall").strip() not in {"", secret}
    (row,) = [line for line in run("list").splitlines() if line.startswith("oncall")]
    assert row.split() == [
        *("oncall", "default", "generic", "127.0.0.1", "model:llm-70b", "working", "0", "0", "0")
    ]
    assert run("deliveries", "oncall") == "No deliveries.\n"
    assert run("replay", "oncall") == "0 deliveries are sent again.\n"
    assert run("remove", "oncall", "--yes") == "oncall is removed.\n"
    assert "No such receiver." in run("test", "oncall", code=1)


def test_a_failed_test_message_is_printed_and_sets_the_exit_code(run: Any) -> None:
    with receiving(reply(503, b"later")) as hook:
        run("add", "oncall", hook.url)
        lines = run("test", "oncall", code=1).splitlines()
    assert lines[0].startswith("It refused: it answered 503 within")
    assert lines[1] == "The receiver answered: later"


def test_an_address_and_a_routing_key_need_not_stand_on_the_command_line(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = tmp_path / "key"
    held.write_text("R0UT1NG\n")
    with receiving() as hook:
        monkeypatch.setattr("sys.stdin", io.StringIO(f"{hook.url}\n"))
        printed = run(
            *("add", "duty", "-", "--format", "pagerduty", "--routing-key-file", str(held))
        )
        assert printed == "duty is notified from now on.\n"
        run("test", "duty")
    assert json.loads(hook.requests[0].body)["routing_key"] == "R0UT1NG"


def test_a_forbidden_address_is_refused_by_name(run: Any) -> None:
    printed = run("add", "oncall", "https://169.254.169.254/", code=1)
    assert "link-local" in printed
    assert "not NAME:VALUE" in _usage("add", "a", "https://a.example", "--where", "x")
    assert "cannot be read" in run(
        "add", "a", "https://a.example", "--routing-key-file", "nothing", code=1
    )


def _usage(*arguments: str) -> str:
    done = processes.run("receivers", *arguments, environment=bare_environment())
    assert done.returncode == 2
    return done.stderr


def test_neither_settings_nor_database_nor_log_show_a_secret(
    run: Any, notifying: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(notifying.database_url.removeprefix("sqlite:///")).parent
    with receiving(reply(500)) as hook:
        secret = run("add", "oncall", f"{hook.url}CANARYpath").strip()
        run("test", "oncall", code=1)
    printed = [run("list"), run("list", "--json"), run("deliveries", "oncall", "--json")]
    printed += [run("test", "fleet", code=1), run("test", "pager", code=1)]
    for command in (["config", "show"], ["config", "show", "--json"]):
        assert main([*command, "--config", str(folder / "ett.toml")]) == 0
        printed.append(capsys.readouterr().out)
    contents = [path.read_bytes() for path in folder.iterdir() if path.name != "ett.toml"]
    assert len(contents) > 3
    for canary in ("CANARY", secret.removeprefix("whsec_")):
        assert not [text for text in printed if canary in text]
        assert not [content for content in contents if canary.encode() in content]
    assert (folder / "ett.db.key").stat().st_mode & 0o077 == 0
