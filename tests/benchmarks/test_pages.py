"""The benchmark of pages leaves nothing running."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ett_service.storage.engine.migrate import migrate
from tests.builders.servers.waiting import wait_for

_SERVING = """
import sys, time
from pathlib import Path
from benchmarks.pages import opened

with opened(sys.argv[1], Path(sys.argv[2])) as pages:
    print(pages.pid, flush=True)
    time.sleep(600)
"""


def _is_running(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    try:
        return stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.slow
def test_a_killed_benchmark_leaves_no_server_running(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ett.db'}"
    migrate(url)
    command = [sys.executable, "-c", _SERVING, url, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as benchmark:
        assert benchmark.stdout is not None
        server = int(benchmark.stdout.readline())
        try:
            assert _is_running(server)
            benchmark.kill()
            benchmark.wait()
            wait_for(lambda: not _is_running(server))
        finally:
            if _is_running(server):
                os.kill(server, signal.SIGKILL)
