"""Events at a steady rate for minutes: what is acknowledged, what is folded, how far folds lag.

Each connection sends the jobs of ``benchmarks.ingest``, one after the other, and ends each. The
ceiling is what the same server takes with nothing held back, with its worker running. Four fifths
of that are then sent, and twice a second the age of the oldest fact is taken that the ledgers or
the rollups do not know.
"""

import json
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit

from sqlalchemy import func, select

from benchmarks.drain import CONNECTIONS, PLAIN, accepted, bodies_of
from benchmarks.freshness import Server, serving
from benchmarks.ingest import EVENT_BYTES
from ett_service.client.lines import new_producer
from ett_service.core.intervals import SECOND_US, rfc3339
from ett_service.storage.engine.store import Readable, open_for_reading
from ett_service.storage.schema import dirty, job_ledger, unmerged

SHARE = 0.8  #: of the ceiling
BATCHES = 10  #: of a thousand events, of each job
_TEMPLATE = "sustained-000000-0"
_SAMPLE_S = 0.5
_PATIENCE_S = 300.0


@dataclass(frozen=True, slots=True)
class Sustained:
    """What came of a steady load; rates are events a second."""

    ceiling: float
    wanted: float
    acknowledged: float
    folded: float  #: by the end of the sending
    lag_s: float  #: the 99th percentile

    @property
    def ratio(self) -> float:
        """The smaller of the two rates, of what was wanted."""
        return min(self.acknowledged, self.folded) / self.wanted


class Load:
    """Connections that each send one job after the other, of so many *events*."""

    def __init__(
        self, server: Server, connections: int = CONNECTIONS, events: int = BATCHES * 1000
    ) -> None:
        self._server = server
        self._connections = connections
        self._numbers = count()
        self._template, _ = bodies_of(_TEMPLATE, events * EVENT_BYTES, PLAIN)
        self._producer = json.loads(self._template[0])["producer"]

    def send(self, seconds: float, rate: float = 0.0) -> float:
        """Send for so long, at *rate* events a second or as fast as it goes; return the rate."""
        began = time.perf_counter()
        with ThreadPoolExecutor(self._connections) as pool:
            sending = [
                pool.submit(self._send, place, began, seconds, rate / self._connections)
                for place in range(self._connections)
            ]
            events = sum(each.result() for each in sending)
        return events / (time.perf_counter() - began)

    def _send(self, place: int, began: float, seconds: float, rate: float) -> int:
        headers = {"Authorization": f"Bearer {self._server.key}"}
        headers["Content-Type"] = "application/json"
        address, events = urlsplit(self._server.address).netloc, 0
        with closing(HTTPConnection(address, timeout=60)) as connection:
            for body in self._bodies(place):
                ahead_s = began + events / rate - time.perf_counter() if rate else 0.0
                if time.perf_counter() + max(ahead_s, 0.0) >= began + seconds:
                    return events
                time.sleep(max(ahead_s, 0.0))
                events += accepted(connection, headers, body)
        raise AssertionError("there is always a next job")

    def _bodies(self, place: int) -> Iterator[bytes]:
        while True:
            job, producer = f"sustained-{next(self._numbers):06}-{place}", new_producer()
            for body in self._template:
                mine = body.replace(_TEMPLATE.encode(), job.encode())
                yield mine.replace(self._producer.encode(), producer.encode())
            at = rfc3339(time.time_ns() // 1000)
            ended = {"type": "job_ended", "job": job, "at": at, "outcome": "completed"}
            yield json.dumps({"events": [ended]}).encode()


@contextmanager
def sampled_lags(store: Readable) -> Iterator[list[float]]:
    """Yield a list that gets, again and again, for how long the oldest fact waits, in seconds."""
    lags: list[float] = []
    stop = threading.Event()

    def sample() -> None:
        while not stop.wait(_SAMPLE_S):
            lags.append(waiting_s(store))

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield lags
    finally:
        stop.set()
        thread.join()


def waiting_s(store: Readable) -> float:
    """Return for how long the oldest fact waits to be folded or merged, in seconds."""
    with store.reading() as conn:
        marked = [conn.scalar(select(func.min(table.c.marked_us))) for table in (dirty, unmerged)]
    now_us = time.time_ns() // 1000
    return max((now_us - at_us for at_us in marked if at_us), default=0) / SECOND_US


def folded(store: Readable) -> int:
    """Count the events that the ledgers know."""
    with store.reading() as conn:
        return int(conn.scalar(select(func.sum(job_ledger.c.event_count))) or 0)


def until(done: Callable[[], bool]) -> None:
    """Wait for what must come about."""
    limit = time.monotonic() + _PATIENCE_S
    while not done():
        if time.monotonic() > limit:
            raise RuntimeError(f"after {_PATIENCE_S:.0f} s it is still not folded")
        time.sleep(_SAMPLE_S)


def sustained(url: str, minutes: float) -> Sustained:
    """Find the ceiling in a sixth of so many minutes, and send four fifths of it for them."""
    with (
        tempfile.TemporaryDirectory() as name,
        serving(url, Path(name), ETT_DETECTION='{"enabled":false}') as server,
        closing(open_for_reading(url)) as store,
    ):
        load = Load(server)
        load.send(2.0)  # the first requests of a process take longer
        ceiling = load.send(minutes * 10)
        until(lambda: waiting_s(store) == 0.0)
        wanted, before = SHARE * ceiling, folded(store)
        began = time.perf_counter()
        with sampled_lags(store) as lags:
            acknowledged = load.send(minutes * 60, wanted)
        known = (folded(store) - before) / (time.perf_counter() - began)
    worst = statistics.quantiles(lags, n=100, method="inclusive")[98]
    return Sustained(ceiling, wanted, acknowledged, known, worst)
