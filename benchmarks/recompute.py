"""What recomputing everything costs, beside a pass that reads the same rows and only sums.

Jobs of 100 events lie in a store as ingest would have left them. The recomputation writes every
ledger, contribution and rollup from nothing, then once more over what it wrote. The floor is one
process that reads the same rows in the same chunks and sums durations with numpy.

The whole claim is `--jobs 100000`, 10 million events; it takes a quarter of an hour with the
writing of the events, and some 6 GB of disk.
"""

import argparse
import gc
import json
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing

import numpy as np
from rich.progress import Progress
from sqlalchemy import bindparam, select

from benchmarks.fold import EVENTS, SECOND, START, attempt
from benchmarks.freshness import databases
from ett_service.aggregation.recompute import recompute
from ett_service.core.events import Event, JobFacts
from ett_service.storage import schema
from ett_service.storage.engine.migrate import migrate
from ett_service.storage.engine.store import Readable, open_for_reading, open_store
from ett_service.storage.folded_jobs import RowChanges
from ett_service.storage.jobs import batches
from ett_service.storage.jobs.batches import MOST_JOBS
from ett_service.storage.record.events import encode_body
from ett_service.storage.record.keys import create_project

GOAL = 0.2
GOAL_MIB = 1024  #: of the largest process
DAY = 86_400 * SECOND
TEAMS, MODELS = 25, 20

_ROWS = select(
    schema.event.c.job, schema.event.c.type, schema.event.c.at_us, schema.event.c.body
).where(
    schema.event.c.project_id == bindparam("project_id"),
    schema.event.c.job.in_(bindparam("jobs", expanding=True)),
)


def events_of(number: int) -> Iterator[Event]:
    """Yield the 100 events of a job: two attempts, begun somewhere in one day."""
    start = START + number * 7919 * SECOND % DAY
    yield JobFacts(
        id="facts",
        at=start,
        team=f"team-{number % TEAMS}",
        model=f"model-{number // TEAMS % MODELS}",
        hardware="h100",
        gpus=64,
    )
    yield from attempt(0, start)
    *rest, _, ended = attempt(1, start + 600 * SECOND)  # one heartbeat less
    yield from (*rest, ended)


def fill(url: str, jobs: int) -> None:
    """Put the jobs' events into the store, and nothing that follows from them."""
    with closing(open_store(url)) as store, Progress(transient=True) as progress:
        task = progress.add_task("events", total=jobs)
        project_id = store.write(lambda conn: create_project(conn, "fleet", START))
        for first in range(0, jobs, 1000):
            numbers = range(first, min(first + 1000, jobs))
            changes = _inserts(project_id, numbers)
            store.write(changes.write)
            progress.advance(task, len(numbers))


def _inserts(project_id: int, numbers: range) -> RowChanges:
    changes = RowChanges()
    for number in numbers:
        job = f"job-{number:06}"
        changes.new["job"].append((project_id, job, START, None))
        rows = [
            (project_id, job, event.id, event.type, event.at, START, number, encode_body(event))
            for event in events_of(number)
        ]
        assert len(rows) == EVENTS, len(rows)
        changes.new["event"] += rows
    return changes


def run_once(store: Readable) -> int:
    """Read all events in chunks, and sum what lies between begins and ends, in microseconds."""
    total, after = 0, None
    gc.disable()  # the rows of a chunk are no garbage, and would make it run again and again
    with store.reading() as conn:
        while batch := batches.following(conn, after, MOST_JOBS):
            after = batch[-1][0]
            jobs = [key.job for key, _ in batch]
            rows = conn.execute(_ROWS, {"project_id": after.project_id, "jobs": jobs}).all()
            at, kind = np.array([row[2] for row in rows]), np.array([row[1] for row in rows])
            total += int(at[kind == "phase_ended"].sum() - at[kind == "phase_started"].sum())
    gc.enable()
    return total


def timed(work: Callable[[], object]) -> float:
    """Return the seconds that *work* takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def measured(url: str, jobs: int, processes: int) -> dict[str, float]:
    """Fill the store, and time the floor and the recomputations, in turn."""
    migrate(url)
    fill(url, jobs)

    def recomputed() -> None:
        with Progress(transient=True) as progress:
            task = progress.add_task("recomputed", total=jobs)
            recompute(
                url,
                lambda: START + 2 * DAY,
                lambda place, _: progress.update(task, completed=place.jobs),
                processes=processes,
            )

    with closing(open_for_reading(url)) as store:
        run_once(store)  # so that every pass finds the pages where the last one left them
        floors = [timed(lambda: run_once(store))]
    new = timed(recomputed)
    with closing(open_for_reading(url)) as store:
        floors.append(timed(lambda: run_once(store)))
    again = timed(recomputed)
    floor = sum(floors) / len(floors)
    used = [
        resource.getrusage(who).ru_maxrss
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    ]
    return {
        "floor_s": floor,
        "new_s": new,
        "again_s": again,
        "new_ratio": floor / new,
        "again_ratio": floor / again,
        "events_per_s": EVENTS * jobs / new,
        "largest_process_mib": max(used) / 1024,
    }


def main() -> int:
    """Print what was measured; 3 if a goal is not met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=3_000)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--database", action="append", default=[], help="address of an empty one")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with databases(arguments.database) as urls:
        results = {
            url.partition(":")[0]: measured(url, arguments.jobs, arguments.processes)
            for url in urls
        }
    if arguments.json:
        print(json.dumps(results))
    else:
        print(f"{arguments.jobs} jobs of {EVENTS} events, {arguments.processes} processes")
        for name, row in results.items():
            print(
                f"{name:20} floor {row['floor_s']:.1f} s"
                f"  from nothing {row['new_s']:.1f} s, ratio {row['new_ratio']:.3f}"
                f"  again {row['again_s']:.1f} s, ratio {row['again_ratio']:.3f} (goal {GOAL})"
                f"  {row['events_per_s']:,.0f} events/s"
                f"  {row['largest_process_mib']:.0f} MiB (goal: under {GOAL_MIB})"
            )
    met = all(
        row["new_ratio"] >= GOAL and row["largest_process_mib"] < GOAL_MIB
        for row in results.values()
    )
    return 0 if met else 3


if __name__ == "__main__":
    sys.exit(main())
