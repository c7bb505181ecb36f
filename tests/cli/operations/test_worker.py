import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ett_service.cli.main import main
from ett_service.client.transport import request
from tests.cli.conftest import ETT, address, bare_environment, eventually, story


@pytest.fixture
def dialect() -> str:
    """A worker beside a server needs PostgreSQL."""
    return "postgresql"


@contextmanager
def _running(*arguments: str, **variables: str) -> Iterator[subprocess.Popen[str]]:
    """Run the command until the block ends, and see that it ends well when told to."""
    with subprocess.Popen(
        [ETT, *arguments],
        env=bare_environment() | variables,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=30)
    assert process.returncode == 0


def test_a_worker_beside_a_server_computes_its_ledgers(
    database_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ETT_DATABASE_URL", database_url)
    main(["keys", "create", "--project", "research", "--scope", "write", "--scope", "read"])
    key = capsys.readouterr().out.strip()
    variables = {"ETT_DATABASE_URL": database_url, "ETT_EMBEDDED_WORKER": "false"}
    with _running("serve", "--port", "0", **variables) as server:
        assert server.stderr is not None
        url = address(server.stderr)
        body = json.dumps({"events": story()}).encode()
        sent = request("POST", f"{url}/v1/events", key, body, {"Content-Type": "application/json"})
        assert sent.status == 200, sent.body
        assert request("GET", f"{url}/v1/jobs/llm-7b", key).status == 404
        with _running("worker", **variables):
            eventually(lambda: request("GET", f"{url}/v1/jobs/llm-7b", key).status == 200)
