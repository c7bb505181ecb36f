"""Takes a made-up fleet to a server as anybody would: in batches over HTTP."""

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from ett_service.cli.demo.server import LOG, DemoServer
from ett_service.cli.exits import Failure
from ett_service.demo.calendar import WireEvent
from ett_service.demo.generator import Fleet
from ett_service.demo.life import Story
from ett_service.detection.options import Options

_MOST = 10_000  #: events a batch, as the server takes them
_LITTLE = 3_000  #: enough to be worth a request; a job's events travel together where they can
_LOOK_EVERY_S = 0.1
_PATIENCE_S = 300.0
_REGRESSIONS = "/v1/regressions?verdict=regression&sort=-gpu_hours_per_week&limit=1000"


class Teller:
    """Says how far the demo is: a bar on a terminal, lines elsewhere, both on standard error."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._console = Console(stderr=True)

    @property
    def seconds(self) -> float:
        """Seconds since the demo began."""
        return time.monotonic() - self._began

    def say(self, text: str) -> None:
        """Write one line."""
        print(f"{self.seconds:6.1f} s  {text}", file=sys.stderr, flush=True)

    @contextmanager
    def bar(self, what: str, total: int) -> Iterator["Bar"]:
        """Show how much of *total* is done, where somebody may be watching."""
        columns = (TextColumn("          {task.description}"), BarColumn(), TaskProgressColumn())
        with Progress(
            *columns,
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        ) as progress:
            yield Bar(progress, what, total)


class Bar:
    """One bar of progress."""

    def __init__(self, progress: Progress, what: str, total: int) -> None:
        self._progress = progress
        self._task = progress.add_task(what, total=total)

    def reach(self, done: int) -> None:
        """Show that so much is done."""
        self._progress.update(self._task, completed=done)


def load(server: DemoServer, fleet: Fleet, teller: Teller) -> None:
    """Send all that the fleet tells, and wait until it is in the numbers. Raises ``Failure``."""
    counts = fleet.truth["counts"]
    done = 0
    with teller.bar("events", counts["events"]) as bar:
        for events in _batches(fleet.stories):
            _send(server, events)
            done += len(events)
            bar.reach(done)
        for marker in fleet.markers:
            server.ask("POST", "/v1/markers", marker)
    teller.say(f"{done:,} events are stored, and {len(fleet.markers)} markers")
    with teller.bar("jobs in the numbers", counts["jobs"]) as bar:
        while waiting := server.ask("GET", "/readyz")["waiting_jobs"]:
            bar.reach(counts["jobs"] - waiting)
            time.sleep(_LOOK_EVERY_S)
    teller.say(f"{counts['jobs']:,} jobs are in the numbers")


def search(server: DemoServer, teller: Teller) -> Sequence[Mapping[str, Any]]:
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
    found: Sequence[Mapping[str, Any]] = server.ask("GET", _REGRESSIONS)["regressions"]
    counted = "1 regression was" if len(found) == 1 else f"{len(found) or 'no'} regressions were"
    teller.say(f"{counted} found by the searches of the last {Options().recent_days} days")
    return found


def keep_alive(server: DemoServer, fleet: Fleet, now_us: int) -> None:
    """Tell that what ran at the end of the fleet still runs. Raises ``Failure``."""
    signs = [story.running.sign(now_us) for story in fleet.stories if story.running is not None]
    if signs:
        _send(server, signs)


def _batches(stories: Sequence[Story]) -> Iterator[list[WireEvent]]:
    """Cut what is told into batches, so that most jobs are folded once."""
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
            "Please report this: the demo's events are to be right.",
        )
