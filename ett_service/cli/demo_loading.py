"""Takes a made-up fleet to a server as anybody would: in batches over HTTP."""

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from ett_service.cli.demo_server import DemoServer
from ett_service.cli.exits import Failure
from ett_service.demo.generator import Fleet
from ett_service.demo.life import Story
from ett_service.demo.tape import WireEvent

_MOST = 10_000  #: events a batch, as the server takes them
_LITTLE = 3_000  #: enough to be worth a request; a job's events travel together where they can
_LOOK_EVERY_S = 0.1


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
