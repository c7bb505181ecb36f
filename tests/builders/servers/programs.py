"""Programs that a test starts and ends, each with a log and a sign that it is ready."""

import shutil
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from ett_service.client.sending.transport import Unreachable, request
from tests.builders.servers.waiting import PATIENCE_S, wait_for

_SHOWN = 2000  #: characters of a log that a failure shows


class Program:
    """A running program; its output lies in *log*."""

    def __init__(
        self, command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.log = folder / f"{Path(command[0]).name}-{time.monotonic_ns()}.log"
        with self.log.open("w") as output:
            self._process = subprocess.Popen(
                command, cwd=folder, env=environment, stdout=output, stderr=output
            )

    def ready(self, url: str) -> None:
        """Wait until it answers at *url*."""

        def answers() -> bool:
            assert self._process.poll() is None, self.logged()
            try:
                return request("GET", url).status == 200
            except Unreachable:
                return False

        wait_for(answers, self.logged)

    def stop(self) -> None:
        """Ask it to end, and see that it has."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
                raise

    def logged(self) -> str:
        """Return the end of its log."""
        return f"{self.log.name}:\n{self.log.read_text()[-_SHOWN:]}"


def free_port() -> int:
    """Return a port of the loopback interface that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def run(command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
    """Run a program to its end, which must be a success."""
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-_SHOWN:] + done.stderr[-_SHOWN:]


def needed(program: str, package: str) -> str:
    """Return where *program* lies, or skip the test and name Debian's package that has it."""
    path = shutil.which(program)
    if path is None:
        pytest.skip(f"{program} is not installed (Debian: apt install {package})")
    return path
