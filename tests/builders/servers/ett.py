"""A real service on a free port, and requests to it."""

import copy
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

from ett_service.client.sending.transport import Response, request
from ett_service.storage.engine.migrate import migrate
from ett_service.storage.engine.store import open_store
from ett_service.storage.record.keys import SCOPES, create_key
from tests.builders.servers.processes import Running, bare_environment, nothing
from tests.builders.servers.waiting import wait_for

_SERVING = re.compile(r"Serving on (http://[^\s\"]+)")
_JSON = {"Content-Type": "application/json"}


class Server:
    """An ``ett serve`` on one database.

    Its *key* is made, of the project ``research``, unless it is given. That of a new file is
    printed by the server: it is given as nothing.
    """

    def __init__(
        self, database_url: str, folder: Path, key: str | None = None, **settings: str
    ) -> None:
        self.database_url = database_url
        self.folder = folder
        self.url = ""
        self.key = new_key(database_url) if key is None else key
        self.environment = {
            **bare_environment(),
            "ETT_DATABASE_URL": database_url,
            "ETT_PORT": "0",
            **settings,
        }
        self._process: Running | None = None

    def start(self, prepare: Callable[[], None] = nothing) -> None:
        """Start it, and wait until it serves; *prepare* is called in its process."""
        process = Running(
            "serve", folder=self.folder, environment=self.environment, prepare=prepare
        )
        self._process = process
        self.url = wait_for(lambda: _address_of(process), lambda: process.err)
        self.key = self.key or wait_for(process.first_line, lambda: process.err)

    @property
    def pid(self) -> int:
        """The number of its process."""
        assert self._process is not None
        return self._process.pid

    @property
    def log(self) -> str:
        """What it has logged since it was started last."""
        assert self._process is not None
        return self._process.err

    def wait(self) -> int:
        """Wait for its end, and return its exit code; a signal that ended it is negative."""
        assert self._process is not None
        return self._process.wait()

    def kill(self) -> None:
        """End it as a power cut would."""
        assert self._process is not None
        self._process.kill()

    def stop(self) -> None:
        """Ask it to end, unless it has."""
        if self._process is not None and self._process.returncode is None:
            assert self._process.stop() == 0, self._process.err

    def project(self, name: str) -> Self:
        """Return the same server with a key for everything of a project of its own."""
        body = {"project": name, "name": "test", "scopes": sorted(SCOPES)}
        other = copy.copy(self)
        other.key = self.ask("POST", "/v1/keys", body)["key"]
        return other

    def send(self, events: Sequence[dict[str, Any]], **batch: Any) -> Response:
        """Post one batch."""
        body = json.dumps({"events": list(events), **batch}).encode()
        return request("POST", f"{self.url}/v1/events", self.key, body, _JSON, timeout=30)

    def get(self, path: str) -> Any:
        """Read an answer; None for a job that is not there yet."""
        answer = request("GET", self.url + path, self.key, timeout=30)
        if answer.status == 404:
            return None
        assert answer.status == 200, answer.body
        return json.loads(answer.body)

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """Send one request, which must succeed, and return the answer."""
        sent = None if body is None else json.dumps(body).encode()
        answer = request(method, self.url + path, self.key, sent, _JSON, timeout=30)
        assert answer.status < 300, answer.body
        return json.loads(answer.body) if answer.body else None

    def knows(self, job: str) -> bool:
        """Tell whether the numbers of *job* can be read."""
        return self.get(f"/v1/jobs/{quote(job, safe='')}") is not None

    def reaches(self, path: str, is_there: Callable[[Any], bool]) -> Any:
        """Wait until an answer meets a condition."""
        answer: Any = None

        def look() -> Any:
            nonlocal answer
            answer = self.get(path)
            return answer if answer is not None and is_there(answer) else None

        return wait_for(look, lambda: f"the last answer of {path}: {answer}")


@contextmanager
def serving(
    database_url: str, folder: Path, *, key: str | None = None, **settings: str
) -> Iterator[Server]:
    """Serve until the end of the block."""
    server = Server(database_url, folder, key, **settings)
    try:
        server.start()
        yield server
    finally:
        server.stop()


@contextmanager
def serving_new(folder: Path, **settings: str) -> Iterator[Server]:
    """Serve a new SQLite file in *folder* until the end of the block."""
    url = f"sqlite:///{folder / 'ett.db'}"
    migrate(url)
    with serving(url, folder, **settings) as server:
        yield server


def new_key(database_url: str) -> str:
    """Make a key for everything of the project ``research``, in a database that nobody serves."""
    store = open_store(database_url)
    try:
        return store.write(
            lambda conn: create_key(conn, project="research", name="test", scopes=SCOPES, now_us=0)
        )
    finally:
        store.close()


def address(process: Running) -> str:
    """Wait for the address that a server logs, and return it."""
    return wait_for(lambda: _address_of(process), lambda: process.err)


def address_in(log: str) -> str:
    """Return the address in the log of a server, or an empty text."""
    match = _SERVING.search(log)
    return "" if match is None else match[1]


def _address_of(process: Running) -> str:
    assert process.returncode is None, process.err
    return address_in(process.err)
