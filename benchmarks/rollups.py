"""What keeping the rollups exact costs of a job's aggregation, by the shape of the job.

Two databases of one engine get the same events. In one the worker's refresh is as it is; in the
other the step that carries a job's ledger into the rollups is left out. Both are measured in
turns, from the lock on the job to the commit. The floor is a page kept on disk.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks.one_more_event import (
    START,
    Job,
    Wire,
    microseconds,
    restarted,
    synced_page,
)
from ett_service.aggregation import fold_job as aggregation
from ett_service.core.fleet.counters import NO_STOPS, SettledStops
from ett_service.storage.engine.migrate import migrate
from ett_service.storage.engine.store import Store, open_store
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.storage.record.keys import create_project
from tests.builders.databases import postgres
from tests.builders.databases.engines import new_postgresql

GOAL = 0.3  #: of the whole
COLD_ROUNDS, FEWEST_ROUNDS = 3, 9
EVENTS = 30_000  #: that are sent of a shape of whole jobs, at most
FACTS: Wire = {
    "type": "job",
    "team": "nlp",
    "model": "llm",
    "cluster": "a",
    "hardware": "h100",
    "kind": "pretraining",
    "code_version": "1",
}


@dataclass(frozen=True)
class Shape:
    """A job, and whether it is folded whole or one event further."""

    name: str
    attempts: int
    events: int
    whole: bool


SHAPES = (
    Shape("one more event, of a job of 100", 1, 100, whole=False),
    Shape("one more event, of 2,000 in 20 attempts", 20, 2_000, whole=False),
    Shape("one more event, of 20,000 in one attempt", 1, 20_000, whole=False),
    Shape("a whole job of 100 events", 1, 100, whole=True),
    Shape("a whole job of 1,000 events in 5 attempts", 5, 1_000, whole=True),
    Shape("a whole job of 9,000 events, over a day", 2, 9_000, whole=True),
)


class Side:
    """A database, and the jobs that are sent to it."""

    def __init__(self, url: str, step: Callable[..., SettledStops]) -> None:
        migrate(url)
        self.store: Store = open_store(url)
        self.project_id = self.store.write(lambda conn: create_project(conn, "bench", START))
        self.step = step
        self.names = (f"job-{number}" for number in count())
        self.going_on: dict[Shape, Job] = {}

    def refreshed(self, shape: Shape) -> float:
        """Send events of a job of this shape; return the microseconds of its aggregation."""
        if shape.whole:
            job = self.new_job(shape)
        else:
            if shape not in self.going_on:
                self.going_on[shape] = self.begun(shape)
            job = self.going_on[shape]
            job.send_one_more()
        with_step(self.step)
        return microseconds(job.refresh)

    def new_job(self, shape: Shape) -> Job:
        """Send a job, and leave it to be folded."""
        events = restarted(shape.attempts, shape.events)
        return Job(self.store, JobKey(self.project_id, next(self.names)), with_facts(events))

    def begun(self, shape: Shape) -> Job:
        """Send a job, and fold it."""
        job = self.new_job(shape)
        job.refresh()
        return job


def with_facts(events: Iterator[tuple[int, Wire]]) -> Iterator[tuple[int, Wire]]:
    """Yield first the facts that give a job its cohort."""
    yield START, FACTS
    yield from events


def with_step(step: Callable[..., SettledStops]) -> None:
    """Have the refresh carry ledgers into the rollups by *step*."""
    aggregation.roll_up = step


def nothing(*_: Any, is_new: bool) -> SettledStops:
    """Leave the rollups as they are."""
    del is_new
    return NO_STOPS


def rounds_of(shape: Shape, rounds: int) -> int:
    """Return how often to measure: sending a whole job takes longer than folding it."""
    return min(rounds, max(FEWEST_ROUNDS, EVENTS // shape.events)) if shape.whole else rounds


def measured(urls: Sequence[str], rounds: int) -> dict[str, dict[str, float]]:
    """Return by shape the median microseconds with and without the step, and its share."""
    whole = aggregation.roll_up
    sides = [Side(urls[0], whole), Side(urls[1], nothing)]
    results = {}
    for shape in SHAPES:
        turns = range(COLD_ROUNDS + rounds_of(shape, rounds))
        taken = [[side.refreshed(shape) for side in sides] for _ in turns]
        with_us, without_us = map(statistics.median, zip(*taken[COLD_ROUNDS:], strict=True))
        share = (with_us - without_us) / with_us
        results[shape.name] = {"with_us": with_us, "without_us": without_us, "share": share}
    with_step(whole)
    for side in sides:
        side.store.close()
    return results


def main() -> int:
    """Print what was measured; 3 if a goal is not met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    results = {}
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        page = synced_page(Path(folder) / "page")()
        page_us = statistics.median(microseconds(page) for _ in range(arguments.rounds))
        for engine, pair in pairs(Path(folder), stack).items():
            results[engine] = measured(pair, arguments.rounds)
    if arguments.json:
        print(json.dumps({"page_us": page_us, **results}))
    else:
        _print(page_us, results)
    shapes = [shape for of_engine in results.values() for shape in of_engine.values()]
    return 0 if all(shape["share"] <= GOAL for shape in shapes) else 3


def pairs(folder: Path, stack: ExitStack) -> dict[str, list[str]]:
    """Return the addresses of two empty databases of each kind."""
    urls = {"sqlite": [f"sqlite:///{folder}/{name}.db" for name in ("with", "without")]}
    if server := _server(stack):
        urls["postgresql"] = [stack.enter_context(new_postgresql(server)) for _ in range(2)]
    return urls


def _server(stack: ExitStack) -> str | None:
    if given := os.environ.get("ETT_TEST_DATABASE_URL"):
        return given
    programs = postgres.binaries()
    return stack.enter_context(postgres.server(programs)) if programs else None


def _print(page_us: float, results: dict[str, dict[str, dict[str, float]]]) -> None:
    print(f"a page on disk: {page_us:.0f} us")
    for engine, shapes in results.items():
        print(f"{engine:48}{'with':>10}{'without':>10}{'share':>8}")
        for name, result in shapes.items():
            print(
                f"{name:48}{result['with_us']:10.0f}{result['without_us']:10.0f}{result['share']:8.1%}"
            )
    print(f"goal: at most {GOAL:.0%} of the aggregation, whatever the shape, on both")


if __name__ == "__main__":
    sys.exit(main())
