"""How long a scrape of 24,000 series takes, 4 clusters of 50 cohorts, through a real server.

Before every scrape the numbers are published anew, so that nothing is served from memory. Beside
it stand the same page unchanged, `generate_latest` of prometheus_client over a registry of the same
series in this process, with neither HTTP nor a database, and the floor: the smallest request to
the same server. A real Prometheus, where it is installed, reports its own scrape duration.
"""

import argparse
import http.client
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics import exposition as openmetrics
from sqlalchemy import Connection, Engine, create_engine, insert, text

from benchmarks.freshness import address, databases, process
from ett_service.core.fleet.counters import PHASES
from ett_service.core.words import Category
from ett_service.metrics.families import COUNTERS, GAUGES, Family, Kind, TextFormat
from ett_service.storage.engine.migrate import migrate
from ett_service.storage.engine.store import open_store
from ett_service.storage.metrics.counters import Exemplar
from ett_service.storage.schema import counter, exemplar, label_value, published
from tests.builders.servers.prometheus import Prometheus

CLUSTERS = tuple(f"cluster-{number}" for number in range(4))
COHORTS = tuple(f"cohort-{number:02}" for number in range(50))
GOAL_SECONDS, GOAL_RATIO = 0.1, 5.0
PROMETHEUS_S = 12.0
AT_US = 1_772_366_400_000_000
WINDOWS = ("1d", "7d", "28d")

_RAISE = text("UPDATE published SET revision = revision + 1 WHERE name = 'turn'")
_MOVE = text("UPDATE counter SET marks = :marks WHERE cluster = :cluster AND cohort = :cohort")
_SHOWN = {"cluster": CLUSTERS, "cohort": COHORTS}
_VALUES = {
    "phase": PHASES[:9],  # those that an attempt can be in
    "window": WINDOWS,
    "weighting": ("accelerators", "wall"),
    "category": tuple(Category),
    "currency": ("USD",),
    "marker": ("deploy", "launch", "maintenance"),
    "hardware": ("H100", "H200"),
    **_SHOWN,
}


def fill(conn: Connection) -> None:
    """Publish every counter and gauge of every cohort, with an exemplar in every bucket."""
    words = [
        {"kind": kind, "value": word, "shown": 1} for kind, of in _SHOWN.items() for word in of
    ]
    conn.execute(insert(label_value), words)
    for of_labels, marks in moved(0):
        sums = json.dumps(marks)
        conn.execute(insert(counter), {**of_labels, "sums": sums, "marks": sums, "excess_us": 0})
        buckets = [key for key in marks if "#" in key and not key.endswith("#us")]
        seen = dict.fromkeys(buckets, Exemplar(AT_US, 12_345_678, "0123456789abcdef-3"))
        conn.execute(insert(exemplar), {**of_labels, "body": json.dumps(seen)})
    body = json.dumps({family.name: samples(family) for family in GAUGES})
    for name, of in (("turn", "{}"), ("gauges", body)):
        conn.execute(insert(published), {"name": name, "revision": 1, "at_us": AT_US, "body": of})


def moved(number: int) -> Iterator[tuple[dict[str, str], dict[str, int]]]:
    """Yield the marks of each cluster and cohort, all others for another *number*."""
    for place, (cluster, cohort) in enumerate(product(CLUSTERS, (*COHORTS, ""))):
        marked = (key for family in COUNTERS if ("cohort" in family.labels) == bool(cohort)
                 for key in keys(family))  # fmt: skip
        marks = {key: 1_234_567 * (place + each) + number for each, key in enumerate(marked)}
        yield {"cluster": cluster, "cohort": cohort}, marks


def keys(family: Family) -> Iterator[str]:
    """Yield all keys of one cluster and cohort, of one of those known beforehand."""
    for own in family.initial:
        key = family.series(own)
        if family.kind is Kind.HISTOGRAM:
            yield from (f"{key}#{place}" for place in (*range(len(family.bounds_us) + 1), "us"))
        else:
            yield key


def samples(family: Family) -> list[tuple[tuple[str, ...], float]]:
    """Return a value for every combination of a gauge's labels; of a job's gauge none."""
    if "training_job" in family.labels:
        return []
    words = [_VALUES.get(name, ("other",)) for name in family.labels]
    return [(labels, AT_US / 1e6) for labels in product(*words)]


def registry() -> CollectorRegistry:
    """Make the same series with the library's own counters, gauges and histograms."""
    disable_created_metrics()  # type: ignore[no-untyped-call]
    registry = CollectorRegistry()
    for family in (*COUNTERS, *GAUGES):
        metric = _metric(family, registry)
        for labels in _series(family):
            _set(metric.labels(*labels) if labels else metric)
    return registry


Metric = Counter | Gauge | Histogram


def _metric(family: Family, registry: CollectorRegistry) -> Metric:
    described = (family.name, family.text, family.labels)
    if family.kind is Kind.COUNTER:
        return Counter(*described, registry=registry)
    if family.kind is Kind.GAUGE:
        return Gauge(*described, registry=registry)
    bounds = [bound_us / 1e6 for bound_us in family.bounds_us]
    return Histogram(*described, buckets=bounds, registry=registry)


def _series(family: Family) -> list[tuple[str, ...]]:
    if family.kind is Kind.GAUGE:
        return [labels for labels, _ in samples(family)]
    shared = product(*(_SHOWN[name] for name in family.labels if name in _SHOWN))
    return [(*labels, *own) for labels, own in product(shared, family.initial)]


def _set(metric: Metric) -> None:
    if isinstance(metric, Counter):
        metric.inc(1_234_567.890123)
    elif isinstance(metric, Gauge):
        metric.set(AT_US / 1e6)
    else:
        metric.observe(12.345678)


@contextmanager
def filled(url: str, folder: Path) -> Iterator[str]:
    """Serve a database with a full page in it, and nobody who publishes; yield the address."""
    migrate(url)
    with closing(open_store(url)) as store:
        store.write(fill)
    variables = {"ETT_DATABASE_URL": url, "ETT_EMBEDDED_WORKER": "false"}
    with process("serve", "--port", "0", folder=folder, **variables):
        yield address(folder / "serve.log")


class Scraper:
    """Asks for pages on one connection."""

    def __init__(self, url: str) -> None:
        self._http = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)

    def read(self, path: str, accept: str = "*/*") -> bytes:
        """Return the body of an answer, which must be a success."""
        self._http.request("GET", path, headers={"Accept": accept})
        answer = self._http.getresponse()
        body = answer.read()
        if answer.status != http.client.OK:
            raise RuntimeError(f"{path}: {answer.status} {body[:500]!r}")
        return body


def timed(ask: Callable[[], object]) -> float:
    """Return the seconds that it takes."""
    began = time.perf_counter()
    ask()
    return time.perf_counter() - began


def spread(taken: list[float]) -> dict[str, float]:
    """Return the median and the 99th percentile."""
    hundredths = statistics.quantiles(taken, n=100, method="inclusive")
    return {"p50": hundredths[49], "p99": hundredths[98]}


def scraped(url: str, engine: Engine, form: TextFormat, runs: int) -> dict[str, Any]:
    """Time new pages, old pages, the library and the floor in turn."""
    scraper, library = Scraper(url), registry()
    write = openmetrics.generate_latest if form is TextFormat.OPENMETRICS else generate_latest
    asks: dict[str, Callable[[], object]] = {
        "new": lambda: scraper.read("/metrics", form.value),
        "same": lambda: scraper.read("/metrics", form.value),
        "library": lambda: write(library),
        "floor": lambda: scraper.read("/healthz"),
    }
    taken: dict[str, list[float]] = {name: [] for name in asks}
    page = scraper.read("/metrics", form.value)
    for run in range(runs):
        publish(engine, run + 1)
        for name, ask in asks.items():
            taken[name].append(timed(ask))
    spreads = {name: spread(of) for name, of in taken.items()}
    ratio = spreads["library"]["p50"] / spreads["new"]["p50"]
    return {**spreads, "series": series(page), "library_series": series(write(library)),
            "megabytes": len(page) / 1e6, "ratio": ratio}  # fmt: skip


def publish(engine: Engine, number: int) -> None:
    """Move every counter on, and say so."""
    with engine.begin() as conn:
        conn.execute(_MOVE, [{**of, "marks": json.dumps(marks)} for of, marks in moved(number)])
        conn.execute(_RAISE)


def series(page: bytes) -> int:
    """Count the series of the fleet."""
    own = (b"#", b"ett_http", b"ett_ingest", b"ett_collector", b"ett_build", b"ett_schema")
    lines = page.splitlines()
    return sum(line.startswith(b"ett_") and not line.startswith(own) for line in lines)


def prometheus(url: str, engine: Engine, folder: Path) -> dict[str, float] | None:
    """Let a real Prometheus scrape new pages each second, and ask how long it took it."""
    if shutil.which("prometheus") is None:
        return None
    scraping = Prometheus(folder, targets=[urlsplit(url).netloc])
    scraping.start()
    try:
        for number in range(int(PROMETHEUS_S)):
            publish(engine, number)
            time.sleep(1)
        window = f"[{PROMETHEUS_S:.0f}s]"
        queries = {
            "p50": f"quantile_over_time(0.5, scrape_duration_seconds{window})",
            "worst": f"max_over_time(scrape_duration_seconds{window})",
            "samples": "scrape_samples_scraped",
        }
        return {name: scraping.query(expression)[0].value for name, expression in queries.items()}
    finally:
        scraping.stop()


def measured(url: str, runs: int) -> dict[str, Any]:
    """Measure one database."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        served = stack.enter_context(filled(url, folder))
        engine = create_engine(url)
        stack.callback(engine.dispose)
        pages = {form.name.lower(): scraped(served, engine, form, runs) for form in TextFormat}
        return {**pages, "prometheus": prometheus(served, engine, folder)}


def shown(name: str, results: dict[str, Any]) -> None:
    """Print what was measured of one database."""
    for form in (each.name.lower() for each in TextFormat):
        page = results[form]
        print(f"{name}, {form}: {page['series']:,} series, {page['megabytes']:.1f} MB")
        for what, key in (
            ("a new page", "new"),
            ("the same page", "same"),
            ("generate_latest", "library"),
            ("floor: /healthz", "floor"),
        ):
            p50, p99 = (1000 * page[key][part] for part in ("p50", "p99"))
            print(f"  {what:16} p50 {p50:7.1f} ms  p99 {p99:7.1f} ms")
        print(f"  {page['ratio']:.1f} times as fast as generate_latest (goal: {GOAL_RATIO:.0f})")
    if prometheus_says := results["prometheus"]:
        p50, worst = 1000 * prometheus_says["p50"], 1000 * prometheus_says["worst"]
        print(
            f"{name}: Prometheus says scrape_duration_seconds p50 {p50:.1f} ms, worst {worst:.1f}"
            f" ms, {prometheus_says['samples']:,.0f} samples"
        )


def main() -> int:
    """Print what was measured; 3 if a goal is not met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--database", action="append", default=[], help="address of an empty one")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with databases(arguments.database) as urls:
        results = {url.partition(":")[0]: measured(url, arguments.runs) for url in urls}
    if arguments.json:
        print(json.dumps(results))
    else:
        for name, result in results.items():
            shown(name, result)
        print(f"(goal: a new page in {GOAL_SECONDS * 1000:.0f} ms at p99)")
    pages = [result[form.name.lower()] for result in results.values() for form in TextFormat]
    met = all(page["new"]["p99"] < GOAL_SECONDS and page["ratio"] >= GOAL_RATIO for page in pages)
    return 0 if met else 3


if __name__ == "__main__":
    sys.exit(main())
