"""How soon a batch is acknowledged while the worker of the same process folds what came before.

Eight trainers send a batch of a hundred events every tenth of a second, to a server on SQLite whose
worker folds them and to one without a worker: both use one interpreter and one writer. The floor
is one page kept on disk.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.client import HTTPConnection
from itertools import islice
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.drain import MIB, accepted, lines_of
from benchmarks.freshness import Server, serving
from benchmarks.one_more_event import microseconds, synced_page
from ett_service.client.identity import Identity
from ett_service.client.lines import Lines, new_producer
from ett_service.client.sending.delivery import Batch
from ett_service.client.sending.seals import bare

GOAL_RATIO = 4.0
TRAINERS, BATCH, EVERY_S = 8, 100, 0.1


def bodies_of(job: str, batches: int) -> Iterator[bytes]:
    """Yield batches of a trainer as the client sends them."""
    producer = new_producer()
    lines = lines_of(Lines(Identity(job, "launch", rank=0, host="host-1"), producer), MIB * batches)
    for number in range(batches):
        events = [bare(line) for line in islice(lines, BATCH)]
        yield Batch(events, producer, sent_at=None).body(f"{producer}-{number}")


def acknowledged(server: Server, bodies: Sequence[bytes]) -> list[float]:
    """Send batches at their pace over one connection, and return how long each took, in seconds."""
    headers = {"Authorization": f"Bearer {server.key}", "Content-Type": "application/json"}
    taken, due = [], time.perf_counter()
    with closing(HTTPConnection(urlsplit(server.address).netloc, timeout=60)) as connection:
        for body in bodies:
            time.sleep(max(0.0, due - time.perf_counter()))
            due += EVERY_S
            began = time.perf_counter()
            accepted(connection, headers, body)
            taken.append(time.perf_counter() - began)
    return taken


def measured(batches: int, *, worker: bool) -> dict[str, float]:
    """Serve an empty file, send so many batches for each trainer, and return milliseconds."""
    trainers = [list(bodies_of(f"job-{number}", batches)) for number in range(TRAINERS)]
    with tempfile.TemporaryDirectory() as name:
        url = f"sqlite:///{name}/ett.db"
        with (
            serving(url, Path(name), ETT_EMBEDDED_WORKER=json.dumps(worker)) as server,
            ThreadPoolExecutor(TRAINERS) as pool,
        ):
            began = time.perf_counter()
            sending = [pool.submit(acknowledged, server, bodies) for bodies in trainers]
            taken = [seconds for each in sending for seconds in each.result()]
            lasted_s = time.perf_counter() - began
        page = synced_page(Path(name) / "page")
        page_ms = statistics.median(microseconds(page()) for _ in range(50)) / 1000
    hundredths = statistics.quantiles(taken, n=100, method="inclusive")
    return {
        "p50": 1000 * hundredths[49],
        "p99": 1000 * hundredths[98],
        "page": page_ms,
        "behind": lasted_s - batches * EVERY_S,
    }


def main() -> int:
    """Print what was measured; 3 if the goal is not met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=100, help="of each trainer, in a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rounds: dict[bool, list[dict[str, float]]] = {False: [], True: []}
    for _ in range(arguments.rounds):
        for worker, results in rounds.items():
            results.append(measured(arguments.batches, worker=worker))
    medians = {
        name: {
            key: statistics.median(each[key] for each in rounds[worker])
            for key in rounds[worker][0]
        }
        for name, worker in (("without a worker", False), ("with a worker", True))
    }
    ratio = medians["with a worker"]["p50"] / medians["without a worker"]["p50"]
    if arguments.json:
        print(json.dumps({**medians, "ratio": ratio}))
    else:
        for name, ms in medians.items():
            print(
                f"{name:18} acknowledged after {ms['p50']:.1f} ms (p99 {ms['p99']:.1f}), a page"
                f" {ms['page']:.1f} ms; {max(0.0, ms['behind']):.1f} s behind the pace"
            )
        print(f"{ratio:.1f} times as long beside the worker (goal: under {GOAL_RATIO:g})")
    return 0 if ratio < GOAL_RATIO else 3


if __name__ == "__main__":
    sys.exit(main())
