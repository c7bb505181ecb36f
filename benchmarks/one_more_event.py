"""What one more event costs, from its bytes to new numbers committed in SQLite.

The floor does the same two transactions with bare ``sqlite3``, and knows beforehand what to write:
insert the event and its mark; then delete the mark, read the event, and replace the rows of the
numbers, the job's and the fleet's.
The same holds for jobs that are much longer, where it must not cost more.
"""

import argparse
import json
import os
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from ett_service.aggregation.fold_job import KeptFold, refresh
from ett_service.ingest.accept import accept
from ett_service.ingest.decode import decode
from ett_service.ingest.wire import Limits
from ett_service.storage.engine.migrate import migrate
from ett_service.storage.engine.store import Store, open_store
from ett_service.storage.fleet import rollup_deltas
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.storage.record.keys import create_project

FLOORS_GOAL, GROWTH_GOAL = 4.0, 2.0
SHORT, ATTEMPTS, MANY, OPEN = 100, 20, 20_000, 100_000
SECOND = 1_000_000
START = 1_760_000_000 * SECOND
BATCH = 5_000
STEPS_A_CHECKPOINT = 50
COLD_ROUNDS = 5
HEADERS = {"content-type": "application/json"}

Wire = dict[str, Any]


def instant(at_us: int) -> str:
    """Write microseconds since the Unix epoch as RFC 3339."""
    return (datetime.fromtimestamp(0, UTC) + timedelta(microseconds=at_us)).isoformat()


def attempt(number: int, at_us: int, events: int) -> Iterator[tuple[int, Wire]]:
    """Yield so many events of an attempt in its loop, and when each happens.

    It stops for its checkpoints, after which it says that they are durable.
    """
    common = {"attempt": number, "rank": 0}
    yield at_us, {"type": "attempt_started", "gpus": 64, **common}
    yield at_us, {"type": "phase_started", "phase": "launcher_init", **common}
    yield at_us + 60 * SECOND, {"type": "phase_started", "phase": "train_loop", **common}
    at_us += 60 * SECOND
    for step in range(3, events):
        at_us += 10 * SECOND
        if step % STEPS_A_CHECKPOINT == 0:
            yield at_us, {"type": "checkpoint_saved", "step": number * events + step, **common}
        elif step % STEPS_A_CHECKPOINT == STEPS_A_CHECKPOINT - 1:
            stop = {"phase": "checkpoint_blocking", "start": instant(at_us - 2 * SECOND)}
            yield at_us, {"type": "span", **stop, **common}
        else:
            yield at_us, {"type": "progress", "step": number * events + step, **common}


def restarted(attempts: int, events: int) -> Iterator[tuple[int, Wire]]:
    """Yield the events of a job of so many attempts; all but the last fail."""
    at_us = START
    for number in range(attempts):
        life = list(attempt(number, at_us, events // attempts - 1))
        yield from life
        at_us = life[-1][0] + SECOND
        if number < attempts - 1:
            yield at_us, {"type": "attempt_ended", "attempt": number, "outcome": "failed"}
        at_us += 30 * SECOND


class Job:
    """A job in a store, to which one more event can come."""

    def __init__(self, store: Store, key: JobKey, events: Iterator[tuple[int, Wire]]) -> None:
        self.store, self.key, self.step = store, key, 1_000_000
        self.kept: KeptFold | None = None
        sent = list(events)
        self.attempt = max(wire.get("attempt", 0) for _, wire in sent)
        for start in range(0, len(sent), BATCH):
            self._accept(self._body(sent[start : start + BATCH]))
        self.at_us = sent[-1][0]

    def _body(self, sent: list[tuple[int, Wire]]) -> bytes:
        events = [{"job": self.key.job, "at": instant(at), **wire} for at, wire in sent]
        return json.dumps({"events": events}).encode()

    def _accept(self, body: bytes) -> None:
        batch = decode(body, HEADERS, now_us=time.time_ns() // 1000, limits=Limits())
        assert not batch.refusals, batch.refusals[0]
        project_id = self.key.project_id
        self.store.write(partial(accept, batch=batch, project_id=project_id, now_us=START))

    def refresh(self) -> None:
        """Have the job's numbers say what came in."""
        work = partial(refresh, key=self.key, now_us=self.at_us, kept_fold=self.kept)
        self.kept = self.store.write(work)
        assert self.kept is not None
        self.store.write(rollup_deltas.merge)

    def one_more(self) -> Callable[[], None]:
        """Return the work: a step is done, and the job's numbers say so."""
        body = self._next_step()

        def work() -> None:
            self._accept(body)
            self.refresh()

        return work

    def send_one_more(self) -> None:
        """Take in that a step is done."""
        self._accept(self._next_step())

    def _next_step(self) -> bytes:
        self.at_us += 10 * SECOND
        self.step += 1
        step = {"type": "progress", "step": self.step, "attempt": self.attempt, "rank": 0}
        return self._body([(self.at_us, step)])


class Floor:
    """The same two transactions on a copy of a job's database, by hand."""

    def __init__(self, path: Path, key: JobKey) -> None:
        self.conn = sqlite3.connect(path, isolation_level=None)
        for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
            self.conn.execute(f"PRAGMA {pragma}")
        self.of_job, self.count = tuple(key), 0
        self.event = self._row("event", "at_us")
        self.numbers = {
            table: self._row(table, order)
            for table, order in (
                ("job_ledger", "job"),
                ("attempt_ledger", "number"),
                ("share", "us"),
                ("segment", "started_us"),
                ("contribution", "hour_us"),
                ("rollup_hourly", "start_us"),
                ("rollup_daily", "start_us"),
            )
        }

    def _row(self, table: str, order: str) -> list[Any]:
        sql = f"SELECT * FROM {table} ORDER BY {order} DESC LIMIT 1"  # noqa: S608 - names from above
        return list(self.conn.execute(sql).fetchone())

    def one_more(self) -> Callable[[], None]:
        """Return the work; what is written stands already."""
        self.count += 1
        batch = -self.count
        event = [*self.event[:2], f"{self.event[2]}-{self.count}", *self.event[3:]]
        event[6] = batch
        put = {
            table: f"INSERT OR REPLACE INTO {table} VALUES ({', '.join('?' * len(row))})"  # noqa: S608 - names from above
            for table, row in {"event": event, **self.numbers}.items()
        }
        conn, of_job = self.conn, self.of_job
        mark = (*of_job, batch, START)

        def work() -> None:
            conn.execute("BEGIN IMMEDIATE")
            conn.execute(put["event"], event)
            conn.execute("INSERT INTO dirty VALUES (?, ?, ?, ?)", mark)
            conn.execute("COMMIT")
            conn.execute("BEGIN IMMEDIATE")
            sql = "DELETE FROM dirty WHERE project_id = ? AND job = ? RETURNING batch"
            conn.execute(sql, of_job).fetchall()
            sql = "SELECT type, body FROM event WHERE project_id = ? AND job = ? AND batch = ?"
            conn.execute(sql, (*of_job, batch)).fetchall()
            for table, row in self.numbers.items():
                conn.execute(put[table], row)
            conn.execute("COMMIT")

        return work


def bare_insert(path: Path) -> Callable[[], Callable[[], None]]:
    """Return the least that SQLite can do: commit one small row."""
    conn = sqlite3.connect(path, isolation_level=None)
    conn.execute("PRAGMA journal_mode = WAL")
    conn.execute("PRAGMA synchronous = FULL")
    conn.execute("CREATE TABLE t (text TEXT)")

    def work() -> None:
        conn.execute("INSERT INTO t VALUES ('one more')")

    return lambda: work


def synced_page(path: Path) -> Callable[[], Callable[[], None]]:
    """Return the least that the disk can do: keep one page."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT)

    def work() -> None:
        os.pwrite(file, b"\0" * 4096, 0)
        os.fdatasync(file)

    return lambda: work


def microseconds(work: Callable[[], None]) -> float:
    """Time one run."""
    began = time.perf_counter_ns()
    work()
    return (time.perf_counter_ns() - began) / 1000


def new_store(folder: Path, name: str) -> tuple[Store, JobKey]:
    """Make an empty database with one project."""
    url = f"sqlite:///{folder / name}.db"
    migrate(url)
    store = open_store(url)
    project_id = store.write(lambda conn: create_project(conn, "bench", START))
    return store, JobKey(project_id, "llm-70b")


def measured(folder: Path, rounds: int, many: int, open_events: int) -> dict[str, float]:
    """Return the median microseconds of each, one run of each at a time."""
    shapes = {
        f"a job of {SHORT} events": (1, SHORT),
        f"of {many:,} events over {ATTEMPTS} attempts": (ATTEMPTS, many),
        f"of {open_events:,} events in one open attempt": (1, open_events),
    }
    jobs = {}
    for number, (name, (attempts, events)) in enumerate(shapes.items()):
        jobs[name] = Job(*new_store(folder, str(number)), restarted(attempts, events))
        jobs[name].refresh()
    short = next(iter(jobs.values()))
    short.one_more()()
    with sqlite3.connect(folder / "floor.db") as copy, sqlite3.connect(folder / "0.db") as source:
        source.backup(copy)
    turns = {
        "a page on disk": synced_page(folder / "page"),
        "a bare insert": bare_insert(folder / "bare.db"),
        "the floor": Floor(folder / "floor.db", short.key).one_more,
        **{name: job.one_more for name, job in jobs.items()},
    }
    times: dict[str, list[float]] = {name: [] for name in turns}
    for turn in range(rounds + COLD_ROUNDS):
        for name, prepare in turns.items():
            taken = microseconds(prepare())
            if turn >= COLD_ROUNDS:
                times[name].append(taken)
    for job in jobs.values():
        job.store.close()
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> int:
    """Print what was measured; 3 if a goal is not met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--many", type=int, default=MANY, help="events over twenty attempts")
    parser.add_argument("--open", type=int, default=OPEN, help="events in one open attempt")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        us = measured(Path(folder), arguments.rounds, arguments.many, arguments.open)
    floor, short, *long = list(us.values())[2:]
    floors, growths = short / floor, [seconds / short for seconds in long]
    if arguments.json:
        print(json.dumps({"microseconds": us, "floors": floors, "growths": growths}))
    else:
        for name, cost in us.items():
            print(f"{name:44}{cost:10.0f} us")
        print(f"one more event costs {floors:.2f} floors (goal: under {FLOORS_GOAL})")
        for name, growth in zip(list(us)[4:], growths, strict=True):
            print(f"{name}: {growth:.2f} times that (goal: under {GROWTH_GOAL})")
    met = floors < FLOORS_GOAL and max(growths) < GROWTH_GOAL
    return 0 if met else 3


if __name__ == "__main__":
    sys.exit(main())
