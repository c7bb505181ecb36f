"""Whether a scrape each second makes those wait who send events, with 24,000 series on the page.

A real server takes batches at a steady rate from jobs of 200 cohorts in turn, and publishes each
second, so that every scrape finds a new page. Windows with and without scrapes take turns. What
counts is the median, over all pairs, of the 99th percentile of the requests of a scraped window
over that of the quiet one beside it; the floor is the same of two quiet ones.
"""

import argparse
import http.client
import json
import multiprocessing
import statistics
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, closing
from itertools import count, cycle, pairwise, product
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Event
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.freshness import Server, databases, serving
from benchmarks.scrape import CLUSTERS, COHORTS, fill, series
from ett_service.metrics.families import TextFormat
from ett_service.storage.engine.migrate import migrate
from ett_service.storage.engine.store import open_store

GOAL_RATIO = 1.5
SENDERS = 4
EVENTS_A_BATCH = 10
SCRAPE_EVERY_S = 1.0
LEAST_SERIES = 15_000  # the publisher works gauges out anew, and makes none up


class Senders:
    """Jobs that report their steps, from several connections, with the duration of each request."""

    def __init__(self, server: Server, every_s: float) -> None:
        self._server = server
        self._every_s = every_s
        self._stop = threading.Event()
        self._taken: list[float] = []
        self._threads = [threading.Thread(target=self._send, args=(n,)) for n in range(SENDERS)]

    def start(self) -> None:
        """Begin to send."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End after the requests that are under way."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def p99(self, seconds: float) -> float:
        """Send on for so long, and return the 99th percentile of the requests, in seconds."""
        first = len(self._taken)
        time.sleep(seconds)
        return statistics.quantiles(self._taken[first:], n=100, method="inclusive")[98]

    def _send(self, number: int) -> None:
        client = self._server.connect()
        labels = list(product(CLUSTERS, COHORTS))[number::SENDERS]
        for (cluster, cohort), first_step in zip(
            cycle(labels), count(0, EVENTS_A_BATCH), strict=False
        ):
            began = time.perf_counter()
            steps = range(first_step, first_step + EVENTS_A_BATCH)
            client.send(
                f"{cluster}-{cohort}",
                {"type": "job", "cluster": cluster, "model": cohort, "gpus": 8},
                {"type": "phase_started", "phase": "train_loop"},
                *({"type": "progress", "step": step} for step in steps),
            )
            self._taken.append(time.perf_counter() - began)
            if self._stop.wait(max(0.0, began + self._every_s - time.perf_counter())):
                return


def scrape(url: str, enabled: Event, answers: "Synchronized[int]") -> None:
    """Read the page each second while it is *wanted*, as Prometheus does, and count."""
    while enabled.wait():
        began = time.monotonic()
        with closing(http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)) as connection:
            connection.request("GET", "/metrics", headers={"Accept": TextFormat.OPENMETRICS.value})
            page = connection.getresponse().read()
        answers.value += series(page) >= LEAST_SERIES
        time.sleep(max(0.0, began + SCRAPE_EVERY_S - time.monotonic()))


class Scraper:
    """Scrapes from a process of its own while it is switched on."""

    def __init__(self, url: str) -> None:
        spawn = multiprocessing.get_context("spawn")
        self.wanted = spawn.Event()
        self._answers = spawn.Value("i", 0)
        arguments = (url, self.wanted, self._answers)
        self._running = spawn.Process(target=scrape, args=arguments, daemon=True)
        self._running.start()

    def stop(self) -> None:
        """End it."""
        self._running.terminate()
        self._running.join()

    @property
    def answers(self) -> int:
        """How many full pages it has read."""
        count: int = self._answers.value
        return count


def measured(url: str, pairs: int, window_s: float, every_s: float) -> dict[str, float]:
    """Serve a full page, let jobs send, and compare windows."""
    migrate(url)
    with closing(open_store(url)) as store:
        store.write(fill)
    quiet, scraped = [], []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(serving(url, folder, ETT_METRICS='{"every_seconds": 1}'))
        scraper = Scraper(server.address)
        stack.callback(scraper.stop)
        senders = Senders(server, every_s)
        senders.start()
        stack.callback(senders.stop)
        senders.p99(2 * window_s)
        for _ in range(pairs):
            quiet.append(senders.p99(window_s))
            scraper.wanted.set()
            scraped.append(senders.p99(window_s))
            scraper.wanted.clear()
        answers = scraper.answers
    if answers < pairs:
        raise RuntimeError(f"only {answers} full pages were read in {pairs} windows")
    return {
        "scrapes": answers,
        "quiet_p99_s": statistics.median(quiet),
        "scraped_p99_s": statistics.median(scraped),
        "ratio": statistics.median(s / q for q, s in zip(quiet, scraped, strict=True)),
        "floor": statistics.median(max(pair) / min(pair) for pair in pairwise(quiet)),
    }


def main() -> int:
    """Print what was measured; 3 if the goal is not met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--window", type=float, default=5.0, help="seconds")
    parser.add_argument(
        "--every", type=float, default=0.1, help="seconds between a sender's batches"
    )
    parser.add_argument("--database", action="append", default=[], help="address of an empty one")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rounds = (arguments.pairs, arguments.window, arguments.every)
    with databases(arguments.database) as urls:
        results = {url.partition(":")[0]: measured(url, *rounds) for url in urls}
    if arguments.json:
        print(json.dumps(results))
    else:
        print(f"{SENDERS} senders, {arguments.pairs} pairs of windows of {arguments.window:.0f} s")
        for name, row in results.items():
            print(
                f"{name:20} {row['scrapes']} scrapes, p99 quiet {row['quiet_p99_s'] * 1000:.1f} ms,"
                f" scraped {row['scraped_p99_s'] * 1000:.1f} ms: {row['ratio']:.2f} times"
                f" (goal: at most {GOAL_RATIO}; quiet windows among themselves {row['floor']:.2f})"
            )
    return 0 if all(row["ratio"] <= GOAL_RATIO for row in results.values()) else 3


if __name__ == "__main__":
    sys.exit(main())
