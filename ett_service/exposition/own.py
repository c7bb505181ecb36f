"""What this process counts about itself."""

from collections.abc import Iterator
from threading import Lock

from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

SOURCES = ("events", "traces", "import")


class OwnMetrics(Collector):
    """Counters of one process; they start at 0 with it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._events = dict.fromkeys(SOURCES, 0)

    def count_events(self, accepted: int, *, history: bool) -> None:
        """Add the *accepted* events of one batch; ``history`` is what importers send."""
        with self._lock:
            self._events["import" if history else "events"] += accepted

    def collect(self) -> Iterator[CounterMetricFamily]:
        """Yield the counters as they stand."""
        family = CounterMetricFamily(
            "ett_ingest_events_total",
            "Events accepted by this process, duplicates apart.",
            labels=["source"],
        )
        with self._lock:
            counts = dict(self._events)
        for source, count in counts.items():
            family.add_metric([source], count)
        yield family
