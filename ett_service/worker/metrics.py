"""Publishes what /metrics shows: counters moved on, and gauges worked out anew."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from ett_service.metrics import gauges as fleet_gauges
from ett_service.metrics.gauges import GaugeOptions, Gauges
from ett_service.storage.engine.store import Store
from ett_service.storage.metrics import counters
from ett_service.storage.metrics import labels as counter_labels
from ett_service.storage.metrics.labels import CLUSTER, COHORT, LabelLimits

log = logging.getLogger(__name__)

EVERY_US = 5_000_000
"""How often counters move on and what runs now is told, in microseconds."""

_WINDOWS_SHARE = 20  #: sums over days are worked out again after so many times what they took
_LABELS_EVERY_US = 3_600_000_000


@dataclass(frozen=True, slots=True)
class MetricsOptions:
    """What is published, and how often."""

    every_us: int = EVERY_US
    most: LabelLimits = field(default_factory=LabelLimits)
    asked: GaugeOptions = field(default_factory=GaugeOptions)


class MetricsThread:
    """Goes on in a thread of its own, so that sums over days keep no job waiting.

    Of several workers on one database one publishes at a time, and the others pass.
    """

    def __init__(
        self, store: Store, now_us: Callable[[], int], publication: MetricsOptions | None = None
    ) -> None:
        self._store = store
        self._now_us = now_us
        self._publication = publication or MetricsOptions()
        self._windows: Gauges = {}
        self._windows_due_us = 0
        self._labels_due_us = 0
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin the thread."""
        self._thread = threading.Thread(target=self._run, name="ett-publisher", daemon=True)
        self._thread.start()

    def stop_soon(self) -> None:
        """Let the thread end after what it is at."""
        self._stopped.set()

    def join(self) -> None:
        """Wait for the end of the thread."""
        if self._thread is not None:
            self._thread.join()

    def publish(self) -> None:
        """Move the counters on and tell how the fleet stands."""
        now_us, began = self._now_us(), time.perf_counter()
        self._store.write(partial(counters.begin, now_us=now_us))
        self._choose_labels(now_us)
        while self._carried_on(now_us) == counters.AT_ONCE and not self._stopped.is_set():
            pass
        if self._stopped.is_set():
            return
        asked = self._publication.asked
        with self._store.reading() as conn:
            shown = counter_labels.read(conn)
            if now_us >= self._windows_due_us:
                began_us = self._now_us()
                self._windows = fleet_gauges.windows(conn, shown, asked, now_us)
                took_us = self._now_us() - began_us
                self._windows_due_us = now_us + _WINDOWS_SHARE * took_us
            before = counters.read(conn, with_exemplars=False)
            gauges = self._windows | fleet_gauges.current(conn, shown, asked, now_us, before)
        gauges["ett_mark_excess_seconds"] = [((), before.excess_us / 1_000_000)]
        gauges["ett_publish_duration_seconds"] = [((), time.perf_counter() - began)]
        self._store.write(partial(counters.put_gauges, gauges=gauges, now_us=now_us))

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self.publish()
            except Exception:  # the thread outlives all trouble: log it, wait, go on
                log.exception("Nothing could be published.", extra={"event": "publish_trouble"})
            self._stopped.wait(self._publication.every_us / 1_000_000)

    def _carried_on(self, now_us: int) -> int | None:
        most = self._publication.most
        return self._store.write(partial(counters.advance, now_us=now_us, most=most))

    def _choose_labels(self, now_us: int) -> None:
        if now_us < self._labels_due_us:
            return
        self._labels_due_us = now_us + _LABELS_EVERY_US
        with self._store.reading() as conn:
            weights = fleet_gauges.weights(conn, now_us)
        for kind in (CLUSTER, COHORT):
            most = self._publication.most.of(kind)
            self._store.write(
                partial(counter_labels.choose, kind=kind, weights=weights[kind], most=most)
            )
