"""What a fleet of so many events a day takes: bytes on disk, processor time, workers.

Real servers and workers take events of jobs that all train at once, a batch a job in turn, as
trainers send them, and fold them as they come. Processor time is of all processes, PostgreSQL's
included, from the first batch until the last job is folded, so it hardly depends on what else the
machine does. The floor is the same bodies in one bare table of SQLite, one commit a batch.
"""

import argparse
import json
import math
import os
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, func, select

from benchmarks.freshness import Client, databases, serving
from benchmarks.freshness import Server as Address
from ett_service.core.intervals import rfc3339
from ett_service.storage import sizes
from ett_service.storage.engine.store import Readable, open_for_reading
from ett_service.storage.schema import dirty

A_DAY = (1_000_000, 10_000_000, 100_000_000)
PEAK = 3
"""Of the mean: what a fleet sends in its busiest hour, to leave room for."""

BUSY = 0.7
"""Of a core, beyond which it is called full."""

KEPT_DAYS = (30, 90, 365)
_TICKS = os.sysconf("SC_CLK_TCK")
_ATTEMPT_S = 10


@dataclass(frozen=True, slots=True)
class Cost:
    """What one event takes."""

    stored_bytes: float
    results_bytes: float  #: of them, what retention leaves
    server_us: float
    worker_us: float
    database_us: float

    @property
    def core_us(self) -> float:
        """Processor time of all processes."""
        return self.server_us + self.worker_us + self.database_us


def batches(jobs: int, rounds: int, each: int) -> Iterator[tuple[str, list[dict[str, object]]]]:
    """Yield what trainers send: a batch of each job, round for round."""
    began_us = time.time_ns() // 1_000 - rounds * each * _ATTEMPT_S * 1_000_000
    for turn in range(rounds):
        for job in range(jobs):
            first = turn * each
            numbers = range(first, first + each)
            yield f"job-{job}", [_event(number, began_us, rounds * each) for number in numbers]


def _event(number: int, began_us: int, last: int) -> dict[str, object]:
    at = rfc3339(began_us + number * _ATTEMPT_S * 1_000_000)
    event: dict[str, object] = {"at": at, "attempt": 0, "rank": 0, "host": "node-17"}
    if number == 0:
        return event | {"type": "attempt_started", "gpus": 64}
    if number == 1:
        return event | {"type": "phase_started", "phase": "train_loop"}
    if number == last - 1:
        return event | {"type": "attempt_ended", "outcome": "completed"}
    if number % 10 in (5, 6):
        kind = "phase_started" if number % 10 == 5 else "phase_ended"  # noqa: PLR2004
        return event | {"type": kind, "phase": "checkpoint_blocking"}
    return event | {"type": "progress", "step": number, "samples": 8 * number}


def cpu_s(pid: int, *, with_ended: bool = False) -> float:
    """Return the processor time of a process, with that of children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(field) for field in fields[11 : 15 if with_ended else 13]) / _TICKS


def children(pid: int) -> list[int]:
    """Return the processes that a process has started, and theirs."""
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    own = [int(child) for child in text.split()]
    return [*own, *(each for child in own for each in children(child))]


@dataclass(frozen=True, slots=True)
class Machine:
    """The processes whose time is counted."""

    server: list[int]
    worker: list[int]
    postmaster: int | None

    def spent_s(self) -> tuple[float, float, float]:
        """Return the processor time of server, worker and database."""
        database = 0.0
        if self.postmaster is not None:
            backends = children(self.postmaster)
            database = cpu_s(self.postmaster, with_ended=True) + sum(map(cpu_s, backends))
        return sum(map(cpu_s, self.server)), sum(map(cpu_s, self.worker)), database


def processes(store: Readable) -> Machine:
    """Find the processes of our own that serve, and those of the database."""
    by_verb: dict[str, list[int]] = {"serve": [], "worker": []}
    for child in children(os.getpid()):
        words = Path(f"/proc/{child}/cmdline").read_text().split("\0")
        for verb, pids in by_verb.items():
            if verb in words:
                pids.append(child)
    postmaster = None
    if store.dialect == "postgresql":
        with store.reading() as conn:
            folder: str = conn.exec_driver_sql("SHOW data_directory").scalar_one()
        postmaster = int((Path(folder) / "postmaster.pid").read_text().splitlines()[0])
    return Machine(by_verb["serve"], by_verb["worker"], postmaster)


def cost(url: str, jobs: int, rounds: int, each: int) -> Cost:
    """Send, wait until all is folded, and return what an event took."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(serving(url, folder, ETT_DETECTION='{"enabled":false}'))
        store = stack.enter_context(closing(open_for_reading(url)))
        machine = processes(store)
        empty = _sizes(store)
        before = machine.spent_s()
        _send(server, jobs, rounds, each)
        while _waiting(store):
            time.sleep(0.2)
        spent = [late - early for early, late in zip(before, machine.spent_s(), strict=True)]
        full = _sizes(store)
    events = jobs * rounds * each
    grown = {name: full[name] - empty.get(name, 0) for name in full}
    record = sum(grown.get(name, 0) for name in ("event", "segment", "producer"))
    stored = sum(grown.values())
    server_us, worker_us, database_us = (1e6 * seconds / events for seconds in spent)
    return Cost(stored / events, (stored - record) / events, server_us, worker_us, database_us)


def _send(server: Address, jobs: int, rounds: int, each: int) -> None:
    client = Client(server)
    for job, events in batches(jobs, rounds, each):
        client.send(job, *events)


def _sizes(store: Readable) -> dict[str, int]:
    with store.reading() as conn:
        return sizes.table_sizes(conn)


def _waiting(store: Readable) -> int:
    def count(conn: Connection) -> int:
        return conn.scalar(select(func.count()).select_from(dirty)) or 0

    with store.reading() as conn:
        return count(conn)


def floor(jobs: int, rounds: int, each: int) -> tuple[float, float]:
    """Return bytes and processor time, in microseconds, of an event in one bare table."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bare.db"
        conn = sqlite3.connect(path, isolation_level=None)
        conn.execute("PRAGMA journal_mode=WAL")
        conn.execute("PRAGMA synchronous=FULL")
        conn.execute("CREATE TABLE event (job TEXT, n INTEGER, body TEXT, PRIMARY KEY (job, n))")
        sent = [
            [(job, number, json.dumps(event)) for number, event in enumerate(events, turn * each)]
            for turn, (job, events) in _numbered(jobs, rounds, each)
        ]
        began = time.process_time()
        for rows in sent:
            conn.execute("BEGIN")
            conn.executemany("INSERT INTO event VALUES (?, ?, ?)", rows)
            conn.execute("COMMIT")
        spent = time.process_time() - began
        conn.close()
        events = jobs * rounds * each
        return path.stat().st_size / events, 1e6 * spent / events


def _numbered(
    jobs: int, rounds: int, each: int
) -> Iterator[tuple[int, tuple[str, list[dict[str, object]]]]]:
    for place, batch in enumerate(batches(jobs, rounds, each)):
        yield place // jobs, batch


def _say(name: str, costs: list[Cost], bare: tuple[float, float]) -> None:
    """Print the medians, and what they make of days of several sizes."""

    def median(of: str) -> float:
        return float(statistics.median(getattr(each, of) for each in costs))

    stored, results, core_us = median("stored_bytes"), median("results_bytes"), median("core_us")
    worker_us = median("worker_us")
    print(
        f"{name}: {stored:.0f} bytes an event ({stored / bare[0]:.1f} x the floor), of which "
        f"{results:.0f} stay when the record is pruned; {core_us:.0f} us of a core "
        f"({core_us / bare[1]:.0f} x): server {median('server_us'):.0f}, worker {worker_us:.0f}, "
        f"database {median('database_us'):.0f}"
    )
    print(f"  {'events a day':>13} {'cores, mean':>12} {'at the peak':>12} {'workers':>8} ", end="")
    print(" ".join(f"{f'GiB in {days} d':>14}" for days in KEPT_DAYS))
    for events in A_DAY:
        cores = events * core_us / 1e6 / 86_400
        fold_us = worker_us or median("server_us") / 2
        workers = max(1, math.ceil(PEAK * events * fold_us / 1e6 / 86_400 / BUSY))
        disk = " ".join(f"{events * days * stored / (1 << 30):14.1f}" for days in KEPT_DAYS)
        print(f"  {events:13,} {cores:12.2f} {PEAK * cores:12.2f} {workers:8} {disk}")


def main() -> int:
    """Measure both stores, print the table; there is no goal to miss."""
    parser = argparse.ArgumentParser(description="Print what a fleet takes.")
    parser.add_argument("urls", nargs="*", help="empty databases; default: one of each kind")
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=12, help="batches of a job")
    parser.add_argument("--batch", type=int, default=25, help="events of a batch")
    parser.add_argument("--tries", type=int, default=3)
    args = parser.parse_args()
    shape = (args.jobs, args.rounds, args.batch)
    bare = floor(*shape)
    print(
        f"floor: {bare[0]:.0f} bytes an event, {bare[1]:.1f} us of a core; {os.cpu_count()} cores"
    )
    costs: dict[str, list[Cost]] = {}
    for _ in range(1 if args.urls else args.tries):
        with databases(args.urls) as urls:
            for url in urls:
                costs.setdefault(url.partition(":")[0], []).append(cost(url, *shape))
    for name, each in costs.items():
        _say(name, each, bare)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
