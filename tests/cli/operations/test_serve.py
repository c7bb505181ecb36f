import signal
import socket
import subprocess
from pathlib import Path

import pytest

from ett_service.client.transport import request
from tests.cli.conftest import ETT, Served, address, bare_environment


def test_a_new_file_is_made_and_its_first_key_printed_once(tmp_path: Path) -> None:
    keys = []
    for _ in range(2):
        with subprocess.Popen(
            [ETT, "serve", "--port", "0"],
            cwd=tmp_path,
            env=bare_environment() | {"ETT_LOG_FORMAT": "json"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stderr is not None
            assert request("GET", f"{address(process.stderr)}/healthz").status == 200
            process.send_signal(signal.SIGTERM)
            out, _ = process.communicate(timeout=30)
            assert process.returncode == 0
            keys.append(out.strip())
    assert keys[0].startswith("ett_")
    assert keys[1] == ""


def test_the_server_listens_on_loopback_unless_told_otherwise(served: Served) -> None:
    port = int(served.url.rpartition(":")[2])
    assert served.url.startswith("http://127.0.0.1:")
    with socket.create_connection(("127.0.0.1", port), timeout=5):
        pass


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_the_server_is_well_and_ready(served: Served, path: str) -> None:
    assert request("GET", served.url + path).status == 200
