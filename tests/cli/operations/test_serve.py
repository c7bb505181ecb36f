import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from httpx2 import Client

from ett_service.cli.main import main
from ett_service.client.sending.transport import request
from tests.builders.servers.ett import Server, address
from tests.builders.servers.processes import Running, bare_environment, run
from tests.builders.servers.waiting import PATIENCE_S, wait_for
from tests.cli.conftest import story


def test_a_new_file_is_made_and_its_first_key_printed_once(tmp_path: Path) -> None:
    environment = bare_environment() | {"ETT_LOG_FORMAT": "json"}
    keys = []
    for _ in range(2):
        process = Running("serve", "--port", "0", folder=tmp_path, environment=environment)
        assert request("GET", f"{address(process)}/healthz").status == 200
        assert process.stop() == 0
        keys.append(process.out.strip())
    assert keys[0].startswith("ett_")
    assert keys[1] == ""


def test_the_lines_that_are_printed_with_the_first_key_record_a_job(tmp_path: Path) -> None:
    environment = bare_environment()
    (tmp_path / "train.py").write_text("print('trained')\n")
    process = Running("serve", "--port", "0", folder=tmp_path, environment=environment)
    url = address(process)
    printed = wait_for(lambda: process.out if "ett run" in process.out else "")
    key = printed.split()[0]
    install, *lines = printed.strip().splitlines()[-3:]
    assert install.startswith("pip install ")
    shell = {**environment, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    script = "\n".join(["set -e", f"cd {tmp_path}", *lines])
    subprocess.run(["sh", "-c", script], env=shell, check=True, timeout=PATIENCE_S)
    answer = wait_for(lambda: json.loads(request("GET", f"{url}/v1/jobs", key).body)["jobs"])
    assert answer[0]["state"] == "finished"
    assert process.stop() == 0


def test_the_first_key_goes_into_a_file_of_its_owner_where_one_is_named(tmp_path: Path) -> None:
    file, environment = tmp_path / "first", bare_environment()
    command = ("serve", "--port", "0", "--first-key", str(file))
    process = Running(*command, folder=tmp_path, environment=environment)
    url = address(process)
    key: str = wait_for(lambda: file.read_text().strip() if file.exists() else "")
    assert request("GET", f"{url}/v1/jobs", key).status == 200
    assert process.stop() == 0
    assert process.out == ""
    assert key not in process.err
    assert file.stat().st_mode & 0o777 == 0o600


def _link(process: Running) -> str:
    (link,) = wait_for(lambda: re.findall(r"Open (http://\S+) in", process.err))
    return str(link)


def test_on_loopback_the_log_has_a_link_whose_session_outlives_the_server(tmp_path: Path) -> None:
    port, cookie = "0", ""
    for _ in range(2):
        process = Running("serve", "--port", port, folder=tmp_path, environment=bare_environment())
        url, _, path = _link(process).partition("/sign-in")
        with Client(base_url=url, timeout=PATIENCE_S) as browser:
            if not cookie:
                cookie = browser.get(f"/sign-in{path}").headers["set-cookie"].partition(";")[0]
                assert browser.get(f"/sign-in{path}", headers={"Cookie": ""}).status_code == 403
            assert browser.get("/definitions", headers={"Cookie": cookie}).status_code == 200
            # It is open when the server is asked to end.
            stream = browser.send(
                browser.build_request("GET", "/live", headers={"Cookie": cookie}), stream=True
            )
            assert process.stop() == 0
            stream.close()
        port = url.rpartition(":")[2]


def test_on_a_network_the_log_has_no_link(tmp_path: Path) -> None:
    arguments = ("serve", "--host", "0.0.0.0", "--port", "0")  # noqa: S104 -- what is tried
    process = Running(*arguments, folder=tmp_path, environment=bare_environment())
    address(process)
    assert process.stop() == 0
    assert "sign-in" not in process.err


def test_the_server_listens_on_loopback_by_default(served: Server) -> None:
    port = int(served.url.rpartition(":")[2])
    assert served.url.startswith("http://127.0.0.1:")
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S):
        pass


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_the_server_is_well_and_ready(served: Server, path: str) -> None:
    assert request("GET", served.url + path).status == 200


@pytest.fixture
def dialect() -> str:
    """A worker beside a server needs PostgreSQL."""
    return "postgresql"


@contextmanager
def _running(*arguments: str, **variables: str) -> Iterator[Running]:
    """Run the command until the block ends, and see that it ends well on a signal."""
    process = Running(*arguments, environment=bare_environment() | variables)
    try:
        yield process
    finally:
        assert process.stop() == 0


def test_a_worker_beside_a_server_computes_its_ledgers(
    database_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ETT_DATABASE_URL", database_url)
    main(["keys", "create", "--project", "research", "--scope", "write", "--scope", "read"])
    key = capsys.readouterr().out.strip()
    variables = {"ETT_DATABASE_URL": database_url, "ETT_EMBEDDED_WORKER": "false"}
    with _running("serve", "--port", "0", **variables) as server:
        url = address(server)
        body = json.dumps({"events": story()}).encode()
        sent = request("POST", f"{url}/v1/events", key, body, {"Content-Type": "application/json"})
        assert sent.status == 200, sent.body
        assert request("GET", f"{url}/v1/jobs/llm-7b", key).status == 404
        with _running("worker", **variables):
            wait_for(lambda: request("GET", f"{url}/v1/jobs/llm-7b", key).status == 200)


ENDED_WHILE_COLLECTING = """
import gc, os, signal, sys, weakref
from ett_service.cli.main import main

class Circle: pass

gc.disable()  # until the server collects, right before it serves
circle = Circle()
circle.itself = circle
watched = weakref.ref(circle, lambda _: signal.raise_signal(signal.SIGTERM))
del circle
sys.exit(main(["serve", "--port", "0"]))
"""


@pytest.mark.slow
def test_a_server_ends_though_python_loses_what_a_signal_raises(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ENDED_WHILE_COLLECTING], cwd=tmp_path, env=bare_environment(),
        capture_output=True, text=True, check=False, timeout=PATIENCE_S,
    )  # fmt: skip
    assert "Exception ignored" in done.stderr  # or it was not lost
    assert done.returncode == 0, done.stderr


def test_a_worker_that_stands_still_is_told_from_one_that_works(tmp_path: Path) -> None:
    environment = bare_environment() | {"ETT_DATABASE_URL": f"sqlite:///{tmp_path / 'ett.db'}"}
    check = ("worker", "--alive", str(tmp_path / "alive"), "--check")
    assert run("migrate", environment=environment).returncode == 0
    assert run(*check, environment=environment).returncode == 1
    worker = Running("worker", "--alive", str(tmp_path / "alive"), environment=environment)
    wait_for(lambda: run(*check, environment=environment).returncode == 0)
    assert worker.stop() == 0
    os.utime(tmp_path / "alive", (0, 0))
    assert run(*check, environment=environment).returncode == 1
