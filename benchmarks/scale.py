"""How much faster more workers fold, with a wire between them and PostgreSQL.

A proxy between the workers and the database holds all that they send back for some milliseconds, so
that waiting decides and not the processor, of which all share what there is. It also counts round
trips: what is sent after an answer is one. Workers are processes; once they have shared the slots,
jobs of 100 events are marked at once, and the time until all are folded and merged is taken. All
jobs ran in one hour, either in one cohort or in 500.

Workers are measured as they are, and again folding about one job at a time each: then one machine
has the processor time for all of them, as machines of their own would.
"""

import argparse
import asyncio
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from sqlalchemy import func, make_url, select

from benchmarks.fold import SECOND, START, attempt
from ett_service.core.events import Event, JobFacts
from ett_service.storage.engine.lease import SLOTS
from ett_service.storage.engine.migrate import migrate
from ett_service.storage.engine.postgresql import PostgresqlStore
from ett_service.storage.engine.store import Store, open_store
from ett_service.storage.folded_jobs import RowChanges
from ett_service.storage.record.events import encode_body
from ett_service.storage.record.keys import create_project
from ett_service.storage.schema import job_ledger, lease, rollup_daily
from ett_service.worker import ledgers
from ett_service.worker.ledgers import Worker
from tests.builders.databases import postgres

GOAL_SPEED_UP = 6.5
GOAL_TRIPS = 4.0
COHORTS = {"one hot cohort": 1, "500 cohorts": 500}
MANY = 8
DELAY_MS = 10.0
PATIENCE_S = 300.0


class Wire:
    """A proxy to a PostgreSQL server; *round_trips* counts requests that follow an answer."""

    def __init__(self, server: Path | tuple[str, int], delay_s: float) -> None:
        """*server* is a socket, or a host and a port."""
        self.round_trips = 0
        self.delay_s = delay_s
        self._server_at = server
        self._loop = asyncio.new_event_loop()
        self._server = self._loop.run_until_complete(
            self._loop.create_server(lambda: _FromWorker(self, self._loop), "127.0.0.1", 0)
        )
        self.port: int = self._server.sockets[0].getsockname()[1]
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def connect(self, protocol: Callable[[], asyncio.Protocol]) -> asyncio.Task[object]:
        """Open a connection to the database."""
        if isinstance(self._server_at, Path):
            socket = str(self._server_at)
            return self._loop.create_task(self._loop.create_unix_connection(protocol, socket))
        return self._loop.create_task(self._loop.create_connection(protocol, *self._server_at))

    def due(self, now: float, request_due: float | None) -> float:
        """Return when what came now is sent on; *request_due* if it goes on with a request."""
        del request_due
        return now + self.delay_s

    def close(self) -> None:
        """Stop to listen; open connections stay until they are closed."""
        self._loop.call_soon_threadsafe(self._server.close)


class _FromWorker(asyncio.Protocol):
    """A connection of a worker, whose requests reach the database late."""

    def __init__(self, wire: Wire, loop: asyncio.AbstractEventLoop) -> None:
        self.answered = True
        self._wire, self._loop = wire, loop
        self._database: asyncio.Transport | None = None
        self._due: float | None = None
        self._held: deque[bytes] = deque()
        self._early: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Connect to the database, too."""
        assert isinstance(transport, asyncio.Transport)
        self._opening = self._wire.connect(lambda: _FromDatabase(self, transport))

    def connected(self, database: asyncio.Transport) -> None:
        """Send on what has come meanwhile."""
        self._database = database
        for data in self._early:
            database.write(data)

    def data_received(self, data: bytes) -> None:
        """Send it on later."""
        self._wire.round_trips += self.answered
        self._due = self._wire.due(self._loop.time(), None if self.answered else self._due)
        self.answered = False
        self._held.append(data)
        self._loop.call_at(self._due, self._send)

    def connection_lost(self, exc: Exception | None) -> None:
        """Close the other side."""
        del exc
        if self._database is not None:
            self._loop.call_later(self._wire.delay_s, self._database.close)

    def _send(self) -> None:
        data = self._held.popleft()  # what is due at the same instant stays in order
        if self._database is None:
            self._early.append(data)
        else:
            self._database.write(data)


class _FromDatabase(asyncio.Protocol):
    """The other side of that connection."""

    def __init__(self, request: _FromWorker, worker: asyncio.Transport) -> None:
        self._request, self._worker = request, worker

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Let requests go through."""
        assert isinstance(transport, asyncio.Transport)
        self._request.connected(transport)

    def data_received(self, data: bytes) -> None:
        """Send it on at once."""
        self._request.answered = True
        self._worker.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Close the other side."""
        del exc
        self._worker.close()


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast jobs were folded."""

    jobs_a_second: float
    trips_a_fold: float


@dataclass(frozen=True, slots=True)
class Fleet:
    """A database, with a way to it that costs time."""

    store: Store
    wire: Wire
    project_id: int

    @property
    def url(self) -> str:
        """The way over the wire."""
        address = make_url(self.store.url).set(host="127.0.0.1", port=self.wire.port, query={})
        return address.render_as_string(hide_password=False)

    def send(self, jobs: Sequence[str], cohorts: int) -> None:
        """Store jobs as ingest would."""
        changes = RowChanges()
        for number, job in enumerate(jobs):
            changes.new["job"].append((self.project_id, job, START, None))
            changes.new["event"] += [
                (self.project_id, job, e.id, e.type, e.at, START, number, encode_body(e))
                for e in events_of(f"team-{number % cohorts}")
            ]
        self.store.write(changes.write)

    def mark(self, jobs: Sequence[str]) -> None:
        """Have the jobs folded."""
        rows = [(self.project_id, job, number, START) for number, job in enumerate(jobs)]
        marks = RowChanges()
        marks.new["dirty"] += rows
        self.store.write(marks.write)

    def n_merged(self) -> int:
        """Count the jobs that the rollups know."""
        with self.store.reading() as conn:
            return int(conn.scalar(select(func.sum(rollup_daily.c.jobs_started))) or 0)

    def is_shared(self, workers: int) -> bool:
        """Whether as many workers share the slots evenly."""
        held = select(lease.c.holder, func.count()).where(
            lease.c.name.startswith("slot "), lease.c.expires_us > time.time_ns() // 1000
        )
        with self.store.reading() as conn:
            counts = [count for _, count in map(tuple, conn.execute(held.group_by("holder")))]
        return (
            len(counts) == workers and sum(counts) == SLOTS and max(counts) <= -(-SLOTS // workers)
        )

    def check(self, jobs: Sequence[str]) -> None:
        """Require that each job was folded, once."""
        revisions = select(job_ledger.c.revision).where(job_ledger.c.job.in_(jobs))
        with self.store.reading() as conn:
            revised = list(conn.scalars(revisions))
        assert revised == [1] * len(jobs), "not every job was folded once"


def events_of(team: str) -> Iterator[Event]:
    """Yield the 100 events of a job within an hour."""
    yield JobFacts(id="facts", at=START, team=team, model="llm", hardware="h100", gpus=64)
    yield from attempt(0, START)
    *rest, _, ended = attempt(1, START + 600 * SECOND)
    yield from (*rest, ended)


def work(url: str, at_once: int) -> None:
    """Be a worker that folds up to so many jobs at once; 0 for what it does of itself."""
    with closing(open_store(url)) as store:
        assert isinstance(store, PostgresqlStore)
        if at_once:
            ledgers._THREADS = {"postgresql": at_once}  # noqa: SLF001 - a narrower worker
            ledgers._COLD = at_once  # noqa: SLF001 - likewise
            store._threads = ThreadPoolExecutor(at_once)  # noqa: SLF001 - likewise
        worker = Worker(store, lambda: time.time_ns() // 1000)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        worker.start()
        signal.sigwait({signal.SIGTERM})
        worker.stop()


@contextmanager
def working(url: str, workers: int, at_once: int) -> Iterator[None]:
    """Run workers in processes of their own."""
    command = [sys.executable, "-m", "benchmarks.scale", "--work", url, "--at-once", str(at_once)]
    running = [subprocess.Popen(command, env=os.environ) for _ in range(workers)]  # noqa: S603
    try:
        yield
    finally:
        for process in running:
            process.terminate()
        for process in running:
            process.wait(60)


def until(done: Callable[[], bool], what: str) -> None:
    """Wait for a condition."""
    limit = time.monotonic() + PATIENCE_S
    while not done():
        if time.monotonic() > limit:
            raise RuntimeError(f"still waiting until {what}")
        time.sleep(0.02)


def measured(
    fleet: Fleet, name: str, cohorts: int, workers: int, at_once: int, n_jobs: int
) -> Pace:
    """Let so many workers fold so many jobs."""
    jobs = [f"{name} {number}" for number in range(n_jobs)]
    fleet.send(jobs, cohorts)
    n_merged = fleet.n_merged() + n_jobs
    with working(fleet.url, workers, at_once):
        until(lambda: fleet.is_shared(workers), "the workers share the slots")
        time.sleep(1.0)
        trips, began = fleet.wire.round_trips, time.perf_counter()
        fleet.mark(jobs)
        until(lambda: fleet.n_merged() == n_merged, "all is folded and merged")
        seconds = time.perf_counter() - began
        trips = fleet.wire.round_trips - trips
    fleet.check(jobs)
    return Pace(n_jobs / seconds, trips / n_jobs)


@contextmanager
def fleets(delay_ms: float) -> Iterator[Fleet]:
    """Start a PostgreSQL, and a wire to it."""
    programs = postgres.binaries()
    if programs is None:
        raise SystemExit(postgres.MISSING)
    with postgres.server(programs, "max_connections=400") as url:
        migrate(url)
        folder = parse_qs(urlsplit(url).query)["host"][0]
        wire = Wire(Path(folder) / ".s.PGSQL.5432", delay_ms / 1000)
        with closing(wire), closing(open_store(url)) as store:
            project_id = store.write(lambda conn: create_project(conn, "fleet", START))
            yield Fleet(store, wire, project_id)


def row(fleet: Fleet, shape: str, at_once: int, n_jobs: int, rounds: int) -> dict[str, float]:
    """Measure one worker and many in turn, and return medians."""
    paces: dict[int, list[Pace]] = {1: [], MANY: []}
    for number in range(rounds):
        for workers, of_these in paces.items():
            name = f"{shape} {at_once} {workers} {number}"
            jobs = n_jobs if workers > 1 or not at_once else max(16, n_jobs // MANY)
            of_these.append(measured(fleet, name, COHORTS[shape], workers, at_once, jobs))
    one_worker, many_workers = (
        statistics.median(p.jobs_a_second for p in paces[n]) for n in (1, MANY)
    )
    ratio = statistics.median(
        b.jobs_a_second / a.jobs_a_second for a, b in zip(paces[1], paces[MANY], strict=True)
    )
    trips = statistics.median(p.trips_a_fold for p in paces[1])  # many look for jobs in vain, too
    return {"one": one_worker, "many": many_workers, "speed_up": ratio, "trips_a_fold": trips}


def main() -> int:
    """Print what was measured; 3 if a goal is not met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--delay-ms", type=float, default=DELAY_MS)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--work", metavar="URL", help=argparse.SUPPRESS)
    parser.add_argument("--at-once", type=int, default=0, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        work(arguments.work, arguments.at_once)
        return 0
    results: dict[str, dict[str, float]] = {}
    with fleets(arguments.delay_ms) as fleet:
        for shape in COHORTS:
            for at_once, what in ((1, "one job at a time"), (0, "as they are")):
                medians = row(fleet, shape, at_once, arguments.jobs, arguments.rounds)
                results[f"{shape}, {what}"] = medians
                if not arguments.json:
                    print(
                        f"{shape:15} {what:18} 1 -> {MANY} workers: {medians['one']:6.1f} ->"
                        f" {medians['many']:6.1f} jobs/s, {medians['speed_up']:4.1f} times;"
                        f" {medians['trips_a_fold']:.1f} round trips a fold",
                        flush=True,
                    )
    if arguments.json:
        print(json.dumps(results))
    # One job at a time takes a pick and a merge of its own.
    alone = [medians for name, medians in results.items() if name.endswith("at a time")]
    together = [medians for name, medians in results.items() if name.endswith("as they are")]
    is_fast = all(each["speed_up"] >= GOAL_SPEED_UP for each in alone)
    takes_few = all(each["trips_a_fold"] <= GOAL_TRIPS for each in together)
    return 0 if is_fast and takes_few else 3


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        sys.exit(main())
