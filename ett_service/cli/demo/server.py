"""The service that a demo runs for itself, and how the made-up fleet gets into it."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from ett_service.cli.progress import bar
from ett_service.cli.verb import Failure, OutOfReach
from ett_service.client.sending.transport import Unreachable, request
from ett_service.demo.calendar import WireEvent
from ett_service.demo.fleet import DATABASE, FILE, settings_text
from ett_service.demo.generator import Fleet
from ett_service.demo.life import Story
from ett_service.detection.sample import Options

PROJECT = "default"
LOG = "server.log"

_ETT = "import sys; from ett_service.cli.main import main; sys.exit(main())"
_SERVING = re.compile(r"Serving on (http://\S+)")
_SIGN_IN = re.compile(r"Open (http://\S+/sign-in\S+)")
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

    @property
    def link(self) -> str:
        """What signs a browser in, once; the log has it when the server serves."""
        links: list[str] = _SIGN_IN.findall((self.folder / LOG).read_text(errors="replace"))
        return links[-1]

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """Send one request and return the answer. Raises ``Failure``."""
        content = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        try:
            answer = request(
                method, self.url + path, self.key, content, headers, timeout=_TIMEOUT_S
            )
        except Unreachable as error:
            raise OutOfReach(f"the demo's server is gone: {error}", _log(self.folder)) from error
        if answer.status >= _REFUSED:
            problem = answer.body.decode(errors="replace")
            raise Failure(f"{method} {path} was refused: {problem}", _log(self.folder))
        return json.loads(answer.body)

    def make_key(self, name: str, scopes: Sequence[str]) -> str:
        """Make a key of the project that the demo fills."""
        answer = self.ask(
            "POST", "/v1/keys", {"project": PROJECT, "name": name, "scopes": list(scopes)}
        )
        key: str = answer["key"]
        return key

    def begin_again(self) -> None:
        """Serve at the same address, and search for regressions. Raises ``Failure``."""
        self.end()
        (self.folder / FILE).write_text(settings_text())
        self.process = _started(self.folder, int(self.url.rpartition(":")[2]))
        while not self._answers():
            if self.process.poll() is not None:
                raise Failure("the demo's server did not start again", _log(self.folder))
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
            raise Failure("the demo's server did not start", _log(folder))
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


def _log(folder: Path) -> str:
    lines = (folder / LOG).read_text(errors="replace").splitlines()[-_SHOWN_LINES:]
    return "\n".join(("The end of its log:", *lines))


_MOST = 10_000  #: events a batch, as the server takes them
_LITTLE = 3_000  #: enough to be worth a request; a job's events travel together where they can
_PATIENCE_S = 300.0
_STANDSTILL_S = 60.0  #: many times what the slowest fold of the fleet takes
_REGRESSIONS = "/v1/regressions?verdict=regression&sort=-gpu_hours_per_week&limit=1000"


class Narrator:
    """Says on standard error what the demo has done, and when."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds since the demo began."""
        return time.monotonic() - self._began

    def say(self, text: str) -> None:
        """Write one line."""
        print(f"{self.seconds:6.1f} s  {text}", file=sys.stderr, flush=True)


def load(
    server: DemoServer, fleet: Fleet, narrator: Narrator, patience_s: float = _STANDSTILL_S
) -> None:
    """Send all events of the fleet, and wait until they are computed.

    Raises:
        Failure: The server refuses, or folds no job for *patience_s*.
    """
    counts = fleet.truth["counts"]
    done = 0
    with bar("events") as reach:
        for events in _batches(fleet.stories):
            _send(server, events)
            done += len(events)
            reach(done, counts["events"])
        for marker in fleet.markers:
            server.ask("POST", "/v1/markers", marker)
    narrator.say(f"stored {done:,} events and {len(fleet.markers)} markers")
    _wait_for_folds(server, counts["jobs"], patience_s)
    narrator.say(f"{counts['jobs']:,} jobs are folded")


def _wait_for_folds(server: DemoServer, jobs: int, patience_s: float) -> None:
    fewest, deadline = jobs + 1, 0.0
    with bar("jobs folded") as reach:
        while waiting := server.ask("GET", "/readyz")["waiting_jobs"]:
            if waiting < fewest:
                fewest, deadline = waiting, time.monotonic() + patience_s
            elif time.monotonic() > deadline:
                raise Failure(
                    f"{waiting:,} jobs wait, and none was folded for {patience_s:.0f} s",
                    _log(server.folder),
                )
            reach(jobs - waiting, jobs)
            time.sleep(_LOOK_EVERY_S)


def search(server: DemoServer, narrator: Narrator) -> Sequence[Mapping[str, Any]]:
    """Have the fleet searched, and return the regressions, the costliest first.

    Raises:
        Failure: The server ended, or has not searched it after minutes.
    """
    server.begin_again()
    deadline = time.monotonic() + _PATIENCE_S
    while not server.ask("GET", "/v1/regressions/power?limit=1")["runs"]:
        if time.monotonic() > deadline:
            raise Failure("the fleet was not searched", f"Its log is {server.folder / LOG}.")
        time.sleep(_LOOK_EVERY_S)
    regressions: Sequence[Mapping[str, Any]] = server.ask("GET", _REGRESSIONS)["regressions"]
    many = len(regressions)
    counted = "1 regression was" if many == 1 else f"{many or 'no'} regressions were"
    narrator.say(f"{counted} found by the searches of the last {Options().recent_days} days")
    return regressions


def keep_alive(server: DemoServer, fleet: Fleet, now_us: int) -> None:
    """Send heartbeats of what ran at the end of the fleet. Raises ``Failure``."""
    signs = [story.running.sign(now_us) for story in fleet.stories if story.running is not None]
    if signs:
        _send(server, signs)


def _batches(stories: Sequence[Story]) -> Iterator[list[WireEvent]]:
    """Cut events into batches such that most jobs are folded once."""
    batch: list[WireEvent] = []
    for story in stories:
        if batch and len(batch) + len(story.events) > _LITTLE:
            yield batch
            batch = []
        events = iter(story.events)
        while part := list(islice(events, _MOST - len(batch))):
            batch += part
            if len(batch) == _MOST:
                yield batch
                batch = []
    if batch:
        yield batch


def _send(server: DemoServer, events: Sequence[WireEvent]) -> None:
    verdicts = server.ask("POST", "/v1/events", {"history": True, "events": list(events)})
    if verdicts["rejected"]:
        first = verdicts["errors"][0]
        raise Failure(
            f"the server refused {verdicts['rejected']} events, the first with {first['code']}",
            "Please report this as a bug: the demo's events should be valid.",
        )
