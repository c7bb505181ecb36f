"""How fast a spool is sent, beside the fastest that the same server takes events.

Dead processes leave spools, which ``ett sync`` sends to a real server in a process of its own. The
ceiling is what a bare loader reaches with bodies that were made beforehand and several connections,
the better of plain and compressed. Spools and loads take turns. Every event must be acknowledged,
and no spool may remain. One GiB, as it was measured: ``--mib 1024``, which takes a quarter of an
hour.
"""

import argparse
import http.client
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.freshness import ETT, Server, databases, serving
from ett_service.client.clock import mono_us
from ett_service.client.identity import Identity
from ett_service.client.lines import Lines, new_producer
from ett_service.client.sending.delivery import MAX_EVENTS, Batch
from ett_service.client.sending.spool import Spool
from ett_service.client.sending.transport import compressed

GOAL_RATIO = 0.5
CONNECTIONS = 4
SPOOLS = 4  #: of one job, in each slice
MIB = 1 << 20
PLAIN, GZIP = "plain", "gzip"
_EVENT_US = 1000


@dataclass(frozen=True, slots=True)
class Rate:
    """What was taken in how long."""

    events: int = 0
    size: int = 0  #: bytes of the events as JSON
    seconds: float = 0.0

    def __add__(self, other: "Rate") -> "Rate":
        """Put two together."""
        return Rate(
            self.events + other.events, self.size + other.size, self.seconds + other.seconds
        )

    @property
    def per_second(self) -> float:
        """How many events a second."""
        return self.events / self.seconds


@dataclass(frozen=True, slots=True)
class Drain:
    """What became of a spool."""

    rate: Rate
    rss_kib: int  #: at most, of the process that sent it


def lines_of(lines: Lines, size: int) -> Iterator[bytes]:
    """Yield so many bytes of what a trainer writes: steps, checkpoints, signs of life."""
    at = mono_us()
    written = 0
    for number in count():
        at += _EVENT_US
        line = lines.line(_members(number), at)
        written += len(line)
        if written > size:
            return
        yield line


def _members(number: int) -> dict[str, object]:
    match number % 4:
        case 0:
            return {"type": "phase_started", "phase": "checkpoint_blocking"}
        case 1:
            return {"type": "phase_ended", "phase": "checkpoint_blocking"}
        case 2:
            return {"type": "progress", "step": number, "samples": 8 * number}
        case _:
            return {"type": "heartbeat"}


def leave_spool(root: Path, job: str, size: int) -> Rate:
    """Leave the spool of a dead process in *root*, and return how much is in it."""
    producer = new_producer()
    lines = Lines(Identity(job, "launch", rank=0, host="host-1"), producer)
    spool = Spool(root / producer, {"job": job, "base_us": lines.base_us})
    events = written = 0
    for line in lines_of(lines, size):
        spool.write(line)
        events, written = events + 1, written + len(line)
        if events % MAX_EVENTS == 0:
            spool.tend(0)
    spool.close()
    return Rate(events, written)


def drained(server: Server, root: Path, job: str, size: int) -> Drain:
    """Let ``ett sync`` send some spools; all of it must be acknowledged."""
    left = total([leave_spool(root, job, size // SPOOLS) for _ in range(SPOOLS)])
    command = [ETT, "sync", str(root), "--url", server.address, "--json"]
    environment = {**os.environ, "ETT_API_KEY": server.key}
    with tempfile.TemporaryFile("w+") as answer:
        began = time.perf_counter()
        process = subprocess.Popen(command, env=environment, stdout=answer)  # noqa: S603 - our own
        _, code, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(code)
        seconds = time.perf_counter() - began
        answer.seek(0)
        counts = json.load(answer)
    if process.returncode or counts["accepted"] != left.events or any(root.rglob("*.jsonl")):
        raise RuntimeError(f"of {left.events} events: {counts}")
    return Drain(Rate(left.events, left.size, seconds), usage.ru_maxrss)


def bodies_of(job: str, size: int, encoding: str) -> tuple[list[bytes], Rate]:
    """Return batches as the client sends them, made beforehand, and how much is in them."""
    producer = new_producer()
    lines = list(lines_of(Lines(Identity(job, "launch", rank=0, host="host-1"), producer), size))
    bodies = []
    for first in range(0, len(lines), MAX_EVENTS):
        events = [line.rstrip() for line in lines[first : first + MAX_EVENTS]]
        body = Batch(events, producer, sent_at=None).body(f"{producer}-{first}")
        bodies.append(compressed(body) if encoding == GZIP else body)
    return bodies, Rate(len(lines), sum(map(len, lines)))


def loaded(server: Server, job: str, size: int, encoding: str) -> Rate:
    """Measure how fast the server takes prepared bodies from several connections."""
    bodies, prepared = bodies_of(job, size, encoding)
    headers = {"Authorization": f"Bearer {server.key}", "Content-Type": "application/json"}
    if encoding == GZIP:
        headers["Content-Encoding"] = "gzip"
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        began = time.perf_counter()
        loads = [
            pool.submit(load, server.address, headers, bodies[place::CONNECTIONS])
            for place in range(CONNECTIONS)
        ]
        n_accepted = sum(each.result() for each in loads)
        seconds = time.perf_counter() - began
    if n_accepted != prepared.events:
        raise RuntimeError(f"{n_accepted} of {prepared.events} events were accepted")
    return Rate(prepared.events, prepared.size, seconds)


def load(address: str, headers: dict[str, str], bodies: Sequence[bytes]) -> int:
    """Send bodies over one connection, and return how many events were accepted."""
    with closing(http.client.HTTPConnection(urlsplit(address).netloc, timeout=60)) as connection:
        return sum(accepted(connection, headers, body) for body in bodies)


def accepted(connection: http.client.HTTPConnection, headers: dict[str, str], body: bytes) -> int:
    """Send a body, again when the server says so while it has no room; return what it accepted."""
    while True:
        connection.request("POST", "/v1/events", body, headers)
        response = connection.getresponse()
        answer = json.loads(response.read())
        if response.status == HTTPStatus.OK:
            return int(answer["accepted"])
        if response.status != HTTPStatus.SERVICE_UNAVAILABLE:
            raise RuntimeError(f"{response.status}: {answer}")
        time.sleep(float(response.headers["Retry-After"]))


@dataclass(frozen=True)
class Turns:
    """Drains and loads of one server, in turn."""

    server: Server
    spools: Path
    drains: list[Drain] = field(default_factory=list)
    loads: dict[str, list[Rate]] = field(default_factory=lambda: {PLAIN: [], GZIP: []})

    def take(self, number: int, size: int) -> None:
        """Drain so many bytes, and load a quarter of that before or after it.

        Whoever comes second shares the server with the folding of what the first has sent.
        """
        if number % 2:
            self._drain(number, size)
            self._load(number, size // 4)
        else:
            self._load(number, size // 4)
            self._drain(number, size)

    def _drain(self, number: int, size: int) -> None:
        self.drains.append(drained(self.server, self.spools, f"drained-{number}", size))

    def _load(self, number: int, size: int) -> None:
        encoding = (PLAIN, GZIP)[number // 2 % 2]
        self.loads[encoding].append(loaded(self.server, f"loaded-{number}", size, encoding))


def measured(url: str, mib: int, slice_mib: int) -> dict[str, float]:
    """Serve a database, and let drains and loads take turns until all is sent."""
    with tempfile.TemporaryDirectory() as name, serving(url, Path(name)) as server:
        turns = Turns(server, Path(name) / "spool")
        for number, first in enumerate(range(0, mib, slice_mib)):
            turns.take(number, min(slice_mib, mib - first) * MIB)
    drains, loads = turns.drains, turns.loads
    ceiling = max(total(rates).per_second for rates in loads.values() if rates)
    drain = total([each.rate for each in drains])
    return {
        "mib": drain.size / MIB,
        "drained_per_s": drain.per_second,
        "drained_mib_per_s": drain.size / MIB / drain.seconds,
        "ceiling_per_s": ceiling,
        "ratio": drain.per_second / ceiling,
        "rss_mib": max(each.rss_kib for each in drains) / 1024,
    }


def total(rates: Sequence[Rate]) -> Rate:
    """Add up rates."""
    return sum(rates, start=Rate())


def main() -> int:
    """Print what was measured; 3 if the goal is not met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=16, help="of spool, in all")
    parser.add_argument("--slice", type=int, default=8, help="MiB that are sent at a time")
    parser.add_argument("--database", action="append", default=[], help="address of an empty one")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with databases(arguments.database) as urls:
        results = {
            url.partition(":")[0]: measured(url, arguments.mib, arguments.slice) for url in urls
        }
    if arguments.json:
        print(json.dumps(results))
    else:
        for name, row in results.items():
            print(
                f"{name:20} {row['mib']:.0f} MiB of spool acknowledged at"
                f" {row['drained_per_s']:.0f} events/s ({row['drained_mib_per_s']:.1f} MiB/s),"
                f" {row['ratio']:.2f} of a bare loader's {row['ceiling_per_s']:.0f} (goal: at least"
                f" {GOAL_RATIO}); at most {row['rss_mib']:.0f} MiB of memory"
            )
    return 0 if all(row["ratio"] >= GOAL_RATIO for row in results.values()) else 3


if __name__ == "__main__":
    sys.exit(main())
