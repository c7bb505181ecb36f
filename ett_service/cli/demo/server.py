"""The service that a demo runs for itself: a process, its address and its keys."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ett_service.cli.exits import Failure, OutOfReach
from ett_service.client.transport import Unreachable, request
from ett_service.demo.settings_file import DATABASE, FILE, settings_text

PROJECT = "default"
LOG = "server.log"

_ETT = "import sys; from ett_service.cli.main import main; sys.exit(main())"
_SERVING = re.compile(r"Serving on (http://\S+)")
_TIMEOUT_S = 120.0
_REFUSED = 400
_SHOWN_LINES = 20
_LOOK_EVERY_S = 0.1


@dataclass
class DemoServer:
    """A running service and a key for everything."""

    url: str
    key: str
    process: "subprocess.Popen[str]"
    folder: Path

    @property
    def database(self) -> Path:
        """The file that it keeps everything in."""
        return self.folder / DATABASE

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """Send one request and return the answer. Raises ``Failure``."""
        sent = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        try:
            answer = request(method, self.url + path, self.key, sent, headers, timeout=_TIMEOUT_S)
        except Unreachable as error:
            raise OutOfReach(f"the demo's server is gone: {error}", self._said()) from error
        if answer.status >= _REFUSED:
            told = answer.body.decode(errors="replace")
            raise Failure(f"{method} {path} was refused: {told}", self._said())
        return json.loads(answer.body)

    def make_key(self, name: str, scopes: Sequence[str]) -> str:
        """Make a key of the project that the demo fills."""
        made = self.ask(
            "POST", "/v1/keys", {"project": PROJECT, "name": name, "scopes": list(scopes)}
        )
        key: str = made["key"]
        return key

    def begin_again(self) -> None:
        """Serve at the same address, and search for regressions. Raises ``Failure``."""
        self.end()
        (self.folder / FILE).write_text(settings_text())
        self.process = _started(self.folder, int(self.url.rpartition(":")[2]))
        while not self._answers():
            if self.process.poll() is not None:
                raise Failure("the demo's server did not start again", self._said())
            time.sleep(_LOOK_EVERY_S)

    def end(self) -> None:
        """End the process, and wait for that."""
        self.process.terminate()
        self.process.communicate()

    def _answers(self) -> bool:
        try:
            request("GET", self.url + "/readyz", self.key, timeout=_TIMEOUT_S)
        except Unreachable:
            return False
        return True

    def _said(self) -> str:
        return f"Its log said:\n{_tail(self.folder)}"


@contextmanager
def served(folder: Path, port: int) -> Iterator[DemoServer]:
    """Serve *folder* on *port*, 0 for a free one, until the block ends. Raises ``Failure``.

    Nothing is searched for regressions until the server begins again.
    """
    (folder / FILE).write_text(settings_text(searches=False))
    server = DemoServer("", "", _started(folder, port), folder)
    try:
        assert server.process.stdout is not None
        # printed when it serves, nothing where it fails
        server.key = server.process.stdout.readline().strip()
        address = _SERVING.search((folder / LOG).read_text(errors="replace"))
        if not server.key or address is None:
            raise Failure("the demo's server did not start", f"Its log said:\n{_tail(folder)}")
        server.url = address.group(1)
        yield server
    finally:
        server.end()


def _started(folder: Path, port: int) -> "subprocess.Popen[str]":
    with (folder / LOG).open("a") as errors:
        return subprocess.Popen(  # noqa: S603 - our own command
            [sys.executable, "-P", "-c", _ETT, "serve", "--port", str(port)],
            cwd=folder,
            env={name: value for name, value in os.environ.items() if not name.startswith("ETT_")},
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,  # Ctrl-C is for the demo, which ends it when it is done
        )


def _tail(folder: Path) -> str:
    return "\n".join((folder / LOG).read_text(errors="replace").splitlines()[-_SHOWN_LINES:])
