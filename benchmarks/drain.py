"""How fast a spool is sent, beside the fastest that the same server takes events.

Dead processes leave spools, which ``ett sync`` sends to a real server in a process of its own. The
ceiling is what a bare loader reaches with bodies that were made beforehand and several connections,
the better of plain and compressed. Each slice of spool is sent between two such loads of the same
kind, and compared with them: so whatever else the machine does slows all three. A load is no
burst, which the server would take faster than it folds. The median over the slices counts. Every
event must be acknowledged, and no spool may remain. One GiB is ``--mib 1024 --slice 64``, which
takes about ten minutes on a quiet machine.
"""

import argparse
import http.client
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from http import HTTPStatus
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.freshness import ETT, Server, databases, serving
from ett_service.client.clock import mono_us
from ett_service.client.identity import Identity
from ett_service.client.lines import Lines, new_producer
from ett_service.client.sending.delivery import MAX_EVENTS, Batch
from ett_service.client.sending.seals import bare
from ett_service.client.sending.spool import Spool
from ett_service.client.sending.transport import compressed

GOAL_RATIO = 0.5
CONNECTIONS = 4
SPOOLS = 4  #: of one job, in each slice
MIB = 1 << 20
LONGEST_LOAD = 16 * MIB
PLAIN, GZIP = "plain", "gzip"
BUSY = (HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS)
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
    begin = lines.template(type="phase_started", phase="checkpoint_blocking")
    end = lines.template(type="phase_ended", phase="checkpoint_blocking")
    beat = lines.template(type="heartbeat")
    at = mono_us()
    written = 0
    for number in count():
        at += _EVENT_US
        if number % 4 == 2:  # noqa: PLR2004 -- one kind in four
            line = lines.line({"type": "progress", "step": number, "samples": 8 * number}, at)
        else:
            line = dated(lines, (begin, end, b"", beat)[number % 4], at)
        written += len(line)
        if written > size:
            return
        yield line


def dated(lines: Lines, template: bytes, at: int) -> bytes:
    """Fill in the number and the instant of an event."""
    seq = next(lines.numbers)
    second, micros = lines.second(at)
    return template % (seq, seq, at, second, micros)


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
    left = sum((leave_spool(root, job, size // SPOOLS) for _ in range(SPOOLS)), start=Rate())
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
    n_acknowledged = counts["accepted"] + counts["duplicate"]  # twice where an answer was lost
    if process.returncode or n_acknowledged != left.events or any(root.rglob("*.jsonl")):
        raise RuntimeError(f"of {left.events} events: {counts}")
    return Drain(Rate(left.events, left.size, seconds), usage.ru_maxrss)


def bodies_of(job: str, size: int, encoding: str) -> tuple[list[bytes], Rate]:
    """Return batches as the client sends them, made beforehand, and how much is in them."""
    producer = new_producer()
    lines = list(lines_of(Lines(Identity(job, "launch", rank=0, host="host-1"), producer), size))
    bodies = []
    for first in range(0, len(lines), MAX_EVENTS):
        events = [bare(line) for line in lines[first : first + MAX_EVENTS]]
        body = Batch(events, producer, sent_at=None).body(f"{producer}-{first}")
        bodies.append(compressed(body) if encoding == GZIP else body)
    return bodies, Rate(len(lines), sum(map(len, lines)))


def loaded(server: Server, job: str, size: int, encoding: str) -> Rate:
    """Measure how fast the server takes prepared bodies from several connections."""
    made = [bodies_of(job, size // CONNECTIONS, encoding) for _ in range(CONNECTIONS)]
    prepared = sum((rate for _, rate in made), start=Rate())
    headers = {"Authorization": f"Bearer {server.key}", "Content-Type": "application/json"}
    if encoding == GZIP:
        headers["Content-Encoding"] = "gzip"
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        began = time.perf_counter()
        loads = [pool.submit(load, server.address, headers, bodies) for bodies, _ in made]
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
        if response.status not in BUSY:
            raise RuntimeError(f"{response.status}: {answer}")
        time.sleep(float(response.headers["Retry-After"]))


@dataclass(frozen=True, slots=True)
class Turn:
    """A drain, and the loads before and after it."""

    drain: Drain
    loads: tuple[Rate, Rate]

    @property
    def ceiling(self) -> float:
        """The better of the loads, in events a second."""
        return max(load.per_second for load in self.loads)

    @property
    def ratio(self) -> float:
        """What the drain reached of it."""
        return self.drain.rate.per_second / self.ceiling


def turn(server: Server, spools: Path, number: int, size: int) -> Turn:
    """Drain so many bytes between two loads, and say how fast each was.

    Whoever comes later shares the server with the folding of what came before.
    """
    first, second = (PLAIN, GZIP) if number % 2 else (GZIP, PLAIN)
    load_size = min(size, LONGEST_LOAD)
    before = loaded(server, f"{first}-{number}", load_size, first)
    drain = drained(server, spools, f"drained-{number}", size)
    after = loaded(server, f"{second}-{number}", load_size, second)
    taken = Turn(drain, (before, after))
    print(
        f"{first} {before.per_second:.0f}, spool {drain.rate.per_second:.0f},"
        f" {second} {after.per_second:.0f} events/s: {taken.ratio:.2f}",
        file=sys.stderr,
        flush=True,
    )
    return taken


def measured(url: str, mib: int, slice_mib: int) -> dict[str, float]:
    """Serve a database, and take turns until all is sent."""
    with tempfile.TemporaryDirectory() as name, serving(url, Path(name)) as server:
        turns = [
            turn(server, Path(name) / "spool", number, min(slice_mib, mib - first) * MIB)
            for number, first in enumerate(range(0, mib, slice_mib))
        ]
    drain = sum((each.drain.rate for each in turns), start=Rate())
    return {
        "mib": drain.size / MIB,
        "drained_per_s": drain.per_second,
        "drained_mib_per_s": drain.size / MIB / drain.seconds,
        "ceiling_per_s": statistics.median(each.ceiling for each in turns),
        "ratio": statistics.median(each.ratio for each in turns),
        "rss_mib": max(each.drain.rss_kib for each in turns) / 1024,
    }


def main() -> int:
    """Print what was measured; 3 if the goal is not met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=48, help="of spool, in all")
    parser.add_argument("--slice", type=int, default=16, help="MiB that are sent at a time")
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
