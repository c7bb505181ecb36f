"""How soon new numbers can be read once a batch was acknowledged, with many jobs sending.

A real server is asked over HTTP, with the worker inside it on SQLite and beside it on PostgreSQL.
Each try sends a job one more millisecond of blocking checkpoint, and from the answer on asks for
the job until its numbers hold it. The floor is one such request, and one page kept on disk.
"""

import argparse
import http.client
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ett_service.storage.engine.migrate import migrate
from tests.builders.databases import postgres

GOAL_SECONDS = 1.0
ETT = str(Path(sys.executable).with_name("ett"))
SERVING = re.compile(r"Serving on (http://[^\s\"]+)")
MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True)
class Server:
    """Where a server listens, and a key to it."""

    address: str
    key: str

    def connect(self) -> "Client":
        """Open a connection of its own."""
        return Client(self)


class Client:
    """One connection to the server, kept open."""

    def __init__(self, server: Server) -> None:
        self._http = http.client.HTTPConnection(urlsplit(server.address).netloc, timeout=30)
        self._headers = {
            "Authorization": f"Bearer {server.key}",
            "Content-Type": "application/json",
        }

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """Send a request and return the answer, which must be a success."""
        sent = None if body is None else json.dumps(body).encode()
        self._http.request(method, path, sent, self._headers)
        answer = self._http.getresponse()
        text = answer.read()
        if answer.status != http.client.OK:
            raise RuntimeError(f"{method} {path}: {answer.status} {text.decode()}")
        return json.loads(text)

    def send(self, job: str, *events: dict[str, Any]) -> None:
        """Send events that happen now; return once they are acknowledged."""
        now = datetime.now(UTC).isoformat()
        self.ask("POST", "/v1/events", {"events": [{"job": job, "at": now, **e} for e in events]})

    def blocked_ms(self, job: str) -> int:
        """Read how many milliseconds the job's checkpoints have blocked."""
        seconds: float = self.ask("GET", f"/v1/jobs/{job}")["categories"]["checkpoint_blocking"]
        return round(seconds * 1000)


@contextmanager
def process(*arguments: str, folder: Path, **variables: str) -> Iterator[subprocess.Popen[str]]:
    """Run ``ett`` until the end of the block."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("ETT_")}
    with (
        (folder / f"{arguments[0]}.log").open("w") as log,
        subprocess.Popen(  # noqa: S603 - our own command
            [ETT, *arguments],
            cwd=folder,
            env=plain | variables,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        ) as running,
    ):
        try:
            yield running
        finally:
            running.terminate()
            running.communicate(timeout=180)  # it ends what it folds


@contextmanager
def serving(database_url: str, folder: Path, **settings: str) -> Iterator[Server]:
    """Serve a database that has no key yet, with a worker where it belongs."""
    migrate(database_url)
    variables = {"ETT_DATABASE_URL": database_url, **settings}
    embedded = database_url.startswith("sqlite")
    if not embedded:
        variables["ETT_EMBEDDED_WORKER"] = "false"
    with ExitStack() as stack:
        if not embedded:
            stack.enter_context(process("worker", folder=folder, **variables))
        server = stack.enter_context(process("serve", "--port", "0", folder=folder, **variables))
        assert server.stdout is not None
        # An embedded database prints its first key.
        key = server.stdout.readline().strip() if embedded else new_key(folder, variables)
        yield Server(address(folder / "serve.log"), key)


def new_key(folder: Path, variables: dict[str, str]) -> str:
    """Create a key that may write and read."""
    arguments = ["keys", "create", "--project", "bench", "--scope", "write", "--scope", "read"]
    done = subprocess.run(  # noqa: S603 - our own command
        [ETT, *arguments],
        cwd=folder,
        env=os.environ | variables,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout.split()[-1]


def address(log: Path) -> str:
    """Wait until the server says where it serves."""
    for _ in range(600):
        if serving := SERVING.search(log.read_text()):
            return serving.group(1)
        time.sleep(0.05)
    raise RuntimeError(f"The server did not start:\n{log.read_text()}")


def keep_sending(server: Server, job: str, every_seconds: float, stop: threading.Event) -> None:
    """Report a step every so often."""
    client, step = server.connect(), 0
    while not stop.wait(every_seconds):
        step += 1
        client.send(job, {"type": "progress", "step": step})


@contextmanager
def senders(server: Server, jobs: list[str], every_seconds: float) -> Iterator[None]:
    """Let every job train, each from a connection of its own."""
    client, stop = server.connect(), threading.Event()
    started = {"type": "attempt_started", "gpus": 8}
    for job in jobs:
        client.send(job, started, {"type": "phase_started", "phase": "train_loop"})
    threads = [
        threading.Thread(target=keep_sending, args=(server, job, every_seconds, stop))
        for job in jobs
    ]
    for place, thread in enumerate(threads):
        thread.start()
        time.sleep(every_seconds / len(threads) if place else 0)
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def tried(server: Server, jobs: list[str], tries: int) -> list[float]:
    """Return the seconds from each acknowledgement to the numbers that hold its event."""
    client, sent, taken = server.connect(), defaultdict[str, int](int), []
    for number in range(tries):
        job = jobs[number % len(jobs)]
        start = datetime.now(UTC) - MILLISECOND
        span = {"type": "span", "phase": "checkpoint_blocking", "start": start.isoformat()}
        sent[job] += 1
        client.send(job, span | {"at": (start + MILLISECOND).isoformat()})
        acknowledged = time.perf_counter()
        while client.blocked_ms(job) < sent[job]:
            time.sleep(0.002)
        taken.append(time.perf_counter() - acknowledged)
        time.sleep(0.02)
    return taken


def floors(server: Server, job: str, folder: Path) -> dict[str, float]:
    """Return the median seconds of one request, and of one page kept on disk."""
    client, file = server.connect(), os.open(folder / "page", os.O_WRONLY | os.O_CREAT)
    reads, pages = [], []
    for _ in range(50):
        began = time.perf_counter()
        client.blocked_ms(job)
        reads.append(time.perf_counter() - began)
        began = time.perf_counter()
        os.pwrite(file, b"\0" * 4096, 0)
        os.fdatasync(file)
        pages.append(time.perf_counter() - began)
    os.close(file)
    return {"request": statistics.median(reads), "page": statistics.median(pages)}


def measured(database_url: str, tries: int, jobs: int, every_seconds: float) -> dict[str, float]:
    """Serve the database, let the jobs send, and measure."""
    names = [f"job-{number}" for number in range(jobs)]
    with tempfile.TemporaryDirectory() as folder, serving(database_url, Path(folder)) as server:
        with senders(server, names, every_seconds):
            taken = tried(server, names, tries)
        floor = floors(server, names[0], Path(folder))
    hundredths = statistics.quantiles(taken, n=100, method="inclusive")
    return {"p50": hundredths[49], "p99": hundredths[98], "worst": max(taken), **floor}


@contextmanager
def databases(chosen: list[str]) -> Iterator[list[str]]:
    """Yield the addresses of empty databases: the chosen ones, else one of each kind."""
    if chosen:
        yield chosen
        return
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        urls = [f"sqlite:///{folder}/ett.db"]
        if programs := postgres.binaries():
            server = urlsplit(stack.enter_context(postgres.server(programs)))
            urls.append(server._replace(scheme="postgresql+psycopg").geturl())
        else:
            print(postgres.MISSING, file=sys.stderr)
        yield urls


def main() -> int:
    """Print what was measured; 3 if the goal is not met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tries", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=50)
    parser.add_argument("--every", type=float, default=1.0, help="seconds between a job's sends")
    parser.add_argument("--database", action="append", default=[], help="address of an empty one")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with databases(arguments.database) as urls:
        results = {
            url.partition(":")[0]: measured(url, arguments.tries, arguments.jobs, arguments.every)
            for url in urls
        }
    if arguments.json:
        print(json.dumps(results))
    else:
        print(f"{arguments.jobs} jobs sending every {arguments.every} s, {arguments.tries} tries")
        for name, seconds in results.items():
            shown = "  ".join(f"{what} {value * 1000:.1f} ms" for what, value in seconds.items())
            print(f"{name:20} {shown}  (goal: p99 under {GOAL_SECONDS} s)")
    return 0 if all(times["p99"] < GOAL_SECONDS for times in results.values()) else 3


if __name__ == "__main__":
    sys.exit(main())
