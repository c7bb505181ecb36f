"""Publication of /metrics: counters advanced, and gauges computed anew."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from typing_extensions import override

from ett_service.core.intervals import HOUR_US, SECOND_US
from ett_service.metrics import gauges as fleet_gauges
from ett_service.metrics.gauges import GaugeOptions, Gauges
from ett_service.storage import sizes
from ett_service.storage.engine.store import Store
from ett_service.storage.metrics import counters, labels
from ett_service.storage.metrics.labels import CLUSTER, COHORT, LabelLimits
from ett_service.storage.retention import Kept
from ett_service.storage.sizes import suggested
from ett_service.worker.thread import PeriodicThread

_WINDOWS_SHARE = 20  #: window sums are computed again after so many times their own duration
_LABELS_EVERY_US = HOUR_US
_SIZES_EVERY_US = HOUR_US  #: of SQLite, all of the file is read


@dataclass(frozen=True, slots=True)
class MetricsOptions:
    """What is published, and how often."""

    every_us: int = 5 * SECOND_US
    limits: LabelLimits = field(default_factory=LabelLimits)
    gauges: GaugeOptions = field(default_factory=GaugeOptions)
    kept: Kept = field(default_factory=suggested)  #: what pruning would free is told for it


class MetricsThread(PeriodicThread):
    """Publishes in a thread of its own, so that sums over days keep no job waiting.

    Of several workers on one database one publishes at a time, and the others pass.
    """

    def __init__(
        self, store: Store, now_us: Callable[[], int], options: MetricsOptions | None = None
    ) -> None:
        self._options = options or MetricsOptions()
        self._every_seconds = self._options.every_us / SECOND_US
        super().__init__(
            "metrics",
            failure="Metrics could not be published.",
            event="publish_failed",
            retry_seconds=self._every_seconds,
        )
        self._store = store
        self._now_us = now_us
        self._windows: Gauges = {}
        self._windows_due_us = 0
        self._labels_due_us = 0
        self._sizes: Gauges = {}
        self._sizes_due_us = 0

    @override
    def step(self) -> float:
        self.publish()
        return self._every_seconds

    def publish(self) -> None:
        """Advance the counters, and replace the gauges."""
        now_us, began = self._now_us(), time.perf_counter()
        self._store.write(partial(counters.begin, now_us=now_us))
        self._choose_labels(now_us)
        self._measure(now_us)
        advance = partial(counters.advance, now_us=now_us, limits=self._options.limits)
        while self._store.write(advance) == counters.AT_ONCE and not self.stopping.is_set():
            pass
        if self.stopping.is_set():
            return
        options = self._options.gauges
        with self._store.reading() as conn:
            shown = labels.read(conn)
            if now_us >= self._windows_due_us:
                began_us = self._now_us()
                self._windows = fleet_gauges.windows(conn, shown, options, now_us)
                took_us = self._now_us() - began_us
                self._windows_due_us = now_us + _WINDOWS_SHARE * took_us
            before = counters.read(conn, with_exemplars=False)
            gauges = fleet_gauges.current(conn, shown, options, now_us, before)
        gauges |= self._windows | self._sizes
        gauges["ett_mark_excess_seconds"] = [((), before.excess_us / SECOND_US)]
        gauges["ett_publish_duration_seconds"] = [((), time.perf_counter() - began)]
        self._store.write(partial(counters.put_gauges, gauges=gauges, now_us=now_us))

    def _measure(self, now_us: int) -> None:
        if now_us < self._sizes_due_us:
            return
        self._sizes_due_us = now_us + _SIZES_EVERY_US
        with self._store.reading() as conn:
            size = sizes.measure_store(conn, now_us, self._options.kept)
        self._store.write(partial(sizes.record_sizes, tables=size.tables, now_us=now_us))
        self._sizes = fleet_gauges.sizes(size)

    def _choose_labels(self, now_us: int) -> None:
        if now_us < self._labels_due_us:
            return
        self._labels_due_us = now_us + _LABELS_EVERY_US
        with self._store.reading() as conn:
            weights = fleet_gauges.weights(conn, now_us)
        for kind in (CLUSTER, COHORT):
            most = self._options.limits.of(kind)
            self._store.write(partial(labels.choose, kind=kind, weights=weights[kind], most=most))
