"""What a request leaves behind: its id, a line in the log, what its key sent, and own metrics."""

import logging
import re
import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Self
from uuid import uuid4

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.metrics_core import HistogramMetricFamily, Metric
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector
from sqlalchemy import Connection
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from typing_extensions import override

from ett_service.api.answers import add_headers
from ett_service.api.load.admission import Admission, Refused
from ett_service.api.state import AppState
from ett_service.core.intervals import SECOND_US
from ett_service.core.words import OTHER
from ett_service.metrics.families import OWN, TextFormat
from ett_service.storage.engine.errors import StorageUnavailable
from ett_service.storage.engine.store import Store
from ett_service.storage.record.keys import USAGE_SLOT_US, Usage, add_usage

log = logging.getLogger(__name__)

_ACCEPTABLE_ID = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)


class Access:
    """ASGI middleware. It keeps a request id of the sender that is a plain word."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, and log it when it is over."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request_id = _request_id(scope)
        scope.setdefault("state", {})["request_id"] = request_id
        status, n_bytes = 500, 0
        began = time.perf_counter()

        async def receive_counted() -> Message:
            nonlocal n_bytes
            message = await receive()
            n_bytes += len(message.get("body", b""))
            return message

        async def send_marked(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                add_headers(MutableHeaders(scope=message), request_id)
            await send(message)

        try:
            await self.app(scope, receive_counted, send_marked)
        finally:
            seconds = time.perf_counter() - began
            # The route rather than the path: a path holds names that a client made up.
            route = getattr(scope.get("route"), "path", None)
            scope["state"]["own"].count_request(scope["method"], route, status, seconds)
            _count_usage(scope["state"], status, n_bytes)
            # Of what is refused for want of room the admission writes its sums.
            if "is_refused" not in scope["state"]:
                _write_line(scope, request_id, route, status, seconds)


def _count_usage(state: dict[str, Any], status: int, n_bytes: int) -> None:
    prefix = state.get("key_prefix")
    if prefix is None:
        return
    app: AppState = state["app"]
    usage: UsageCounts = state["usage"]
    events = state.get("accepted_events", 0)
    usage.count(prefix, status, events=events, n_bytes=n_bytes, now_us=app.now_us())
    state["own"].count_key(prefix, status, events=events)


def _request_id(scope: Scope) -> str:
    sent = Headers(scope=scope).get("x-request-id", "")
    return sent if _ACCEPTABLE_ID.fullmatch(sent) else uuid4().hex


def _write_line(
    scope: Scope, request_id: str, route: str | None, status: int, seconds: float
) -> None:
    log.info(
        "%s %s %d",
        scope["method"],
        route or "-",
        status,
        extra={
            "event": "request",
            "request_id": request_id,
            "method": scope["method"],
            "route": route,
            "status": status,
            "seconds": round(seconds, 6),
            "key": scope["state"].get("key_prefix"),
        },
    )


_EVERY_S = 10.0
REFUSED = frozenset({429, 503})
"""Statuses of what there was no room for."""


class UsageCounts:
    """What each key sent and nobody wrote yet: no row a request.

    It is counted on the event loop and written in a thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._usages: dict[tuple[str, int], Usage] = {}
        self._last_used: dict[str, int] = {}

    def count(self, prefix: str, status: int, *, events: int, n_bytes: int, now_us: int) -> None:
        """Count a request of the key that begins so, by the *status* of its answer."""
        counted = Usage(1, int(status in REFUSED), events, n_bytes)
        with self._lock:
            self._sum(prefix, now_us - now_us % USAGE_SLOT_US).add(counted)
            self._last_used[prefix] = now_us

    def write(self, store: Store, now_us: int) -> None:
        """Add what was counted to what is stored. If that fails it stays for the next time.

        Raises:
            StorageUnavailable: The database does not answer.
        """
        with self._lock:
            usages, self._usages = self._usages, {}
            last_used, self._last_used = self._last_used, {}
        if not usages:
            return

        def add(conn: Connection) -> None:
            add_usage(conn, usages, last_used, now_us)

        try:
            store.write(add)
        except BaseException:  # raised again: it is counted with what comes
            self._put_back(usages, last_used)
            raise

    def _put_back(self, usages: dict[tuple[str, int], Usage], last_used: dict[str, int]) -> None:
        with self._lock:
            for (prefix, slot_us), each in usages.items():
                self._sum(prefix, slot_us).add(each)
            self._last_used = last_used | self._last_used

    def _sum(self, prefix: str, slot_us: int) -> Usage:
        return self._usages.setdefault((prefix, slot_us), Usage())


class UsageThread:
    """Writes what was counted every ten seconds while the block runs, and once more at its end."""

    def __init__(self, counts: UsageCounts, store: Store, now_us: Callable[[], int]) -> None:
        self._counts = counts
        self._store = store
        self._now_us = now_us
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ett-usage", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(_EVERY_S):
            self._write()
        self._write()

    def _write(self) -> None:
        try:
            self._counts.write(self._store, self._now_us())
        except StorageUnavailable as error:
            log.warning("%s", error, extra={"event": "storage_unavailable"})
        except Exception:  # logged, and counted with what comes
            log.exception("What keys send was not written.", extra={"event": "usage_failed"})


_LAGS_S = (0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 21600.0)
_REQUESTS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

UNMATCHED = "unmatched"
"""The route of a request that no route matches."""

OTHER_METHOD = "other"
"""A method that HTTP does not define."""

MOST_KEYS = 50
"""Keys with series of their own."""

_FAMILIES = {family.name: family for family in OWN}


class Lags(Collector):
    """A histogram that takes a batch at once: one by one, events took as long as to insert."""

    def __init__(self, name: str, bounds_s: Sequence[float]) -> None:
        self._name = name
        self._bounds_us = [round(bound * SECOND_US) for bound in bounds_s]
        self._counts = [0] * len(bounds_s)  #: up to each bound
        self._count = self._sum_us = 0
        self._lock = threading.Lock()

    def observe(self, instants: Iterable[int], now_us: int) -> None:
        """Take note of events that came now; their instants are microseconds."""
        ordered = sorted(instants)
        # The clock of a sender may be ahead, and the sum is a counter, which must not go down.
        past = bisect_right(ordered, now_us)
        with self._lock:
            self._counts = [
                count + len(ordered) - bisect_left(ordered, now_us - bound)
                for count, bound in zip(self._counts, self._bounds_us, strict=True)
            ]
            self._count += len(ordered)
            self._sum_us += past * now_us - sum(ordered[:past])

    @override
    def collect(self) -> Iterator[Metric]:
        """Yield the one family."""
        with self._lock:
            counts, count, sum_us = self._counts, self._count, self._sum_us
        bounds = [str(bound / SECOND_US) for bound in self._bounds_us]
        buckets = [*zip(bounds, counts, strict=True), ("+Inf", count)]
        text = _FAMILIES[self._name].text
        yield HistogramMetricFamily(self._name, text, buckets, sum_value=sum_us / SECOND_US)


class OwnMetrics:
    """Metrics of one process, in a registry of their own; counters start at 0 with it."""

    def __init__(self, *, version: str, revision: str, codes: Iterable[str], now_us: int) -> None:
        # Disabled for the whole process, as the library has no other way. Counters that start
        # with a process have process_start_time_seconds.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self._events = self._counter("ett_ingest_events_total")
        self._rejected = self._counter("ett_ingest_events_rejected_total")
        self._duplicates = self._counter("ett_ingest_events_duplicate_total")
        self._drops = self._counter("ett_ingest_sender_drops_total")
        self._lag = Lags("ett_ingest_event_lag_seconds", _LAGS_S)
        self.registry.register(self._lag)
        self._last_event = self._gauge("ett_ingest_last_event_timestamp_seconds")
        self._spans = self._counter("ett_otlp_spans_total")
        self._requests = self._counter("ett_http_requests_total")
        self._durations = self._histogram("ett_http_request_duration_seconds", _REQUESTS_S)
        self._refused = self._counter("ett_http_refused_total")
        self._key_requests = self._counter("ett_key_requests_total")
        self._key_events = self._counter("ett_key_events_total")
        self._keys: set[str] = set()
        self._collecting = self._gauge("ett_collector_duration_seconds")
        self._left_out = self._counter("ett_collector_errors_total")
        self._info("ett_build_info", version=version)
        self._info("ett_schema_info", revision=revision)
        self._last_event.set(now_us / SECOND_US)
        for code in codes:
            self._rejected.labels(code)
        for refused in Refused:
            self._refused.labels(refused)
        for (source,) in _FAMILIES["ett_ingest_events_total"].initial:
            self._events.labels(source)
        for (result,) in _FAMILIES["ett_otlp_spans_total"].initial:
            self._spans.labels(result)
        for (reason,) in _FAMILIES["ett_ingest_sender_drops_total"].initial:
            self._drops.labels(reason)

    def count_events(
        self,
        accepted_at: Iterable[int],
        *,
        duplicate: int,
        rejected: Iterable[str],
        now_us: int,
        history: bool,
    ) -> None:
        """Count one batch: the instants of accepted events, and the codes of rejected ones."""
        instants = tuple(accepted_at)
        self._events.labels("import" if history else "events").inc(len(instants))
        self._duplicates.inc(duplicate)
        for code in rejected:
            self._rejected.labels(code).inc()
        if history or not instants:
            return
        self._last_event.set(now_us / SECOND_US)
        self._lag.observe(instants, now_us)

    def count_drops(self, dropped: Mapping[str, int]) -> None:
        """Count what a sender says that it has dropped, by reason; one of its own is ``other``."""
        named = _FAMILIES["ett_ingest_sender_drops_total"].initial
        for reason, count in dropped.items():
            self._drops.labels(reason if (reason,) in named else OTHER).inc(count)

    def count_spans(self, count: int, *, unmapped: int, rejected: int) -> None:
        """Count the spans of one request; a rejected one may be unmapped, too."""
        self._spans.labels("mapped").inc(max(0, count - unmapped - rejected))
        self._spans.labels("unmapped").inc(unmapped)
        self._spans.labels("rejected").inc(rejected)

    def count_request(self, method: str, route: str | None, status: int, seconds: float) -> None:
        """Count one request by the template of its *route*, None if no route matches."""
        template = UNMATCHED if route is None else route
        defined = method if method in _METHODS else OTHER_METHOD
        self._requests.labels(defined, template, str(status)).inc()
        self._durations.labels(template).observe(seconds)

    def count_key(self, prefix: str, status: int, *, events: int) -> None:
        """Count one request of a key; keys beyond the first so many are one."""
        if len(self._keys) < MOST_KEYS:
            self._keys.add(prefix)
        key = prefix if prefix in self._keys else OTHER
        self._key_requests.labels(key, "refused" if status in REFUSED else "answered").inc()
        if events:
            self._key_events.labels(key).inc(events)

    def count_refused(self, reason: Refused) -> None:
        """Count a request that was refused, or a connection that was closed, for want of room."""
        self._refused.labels(reason).inc()

    def watch(self, admission: Admission) -> None:
        """Show what *admission* has under way."""
        requests = self._gauge("ett_http_requests_in_flight")
        waiting = self._gauge("ett_http_requests_waiting")
        for name, pool in admission.pools.items():
            requests.labels(name).set_function(partial(getattr, pool, "requests"))
            waiting.labels(name).set_function(partial(getattr, pool, "waiting"))
        self._gauge("ett_http_body_bytes").set_function(lambda: admission.bodies.total)

    def count_scrape(self, seconds: float, left_out: int) -> None:
        """Record the duration of the fleet's part of the page, and the samples left out of it."""
        self._collecting.set(seconds)
        self._left_out.inc(left_out)

    def text(self, form: TextFormat) -> bytes:
        """Return the text of all metrics; in OpenMetrics it ends the page."""
        if form is TextFormat.PLAIN:
            return generate_latest(self.registry)
        text: bytes = openmetrics.generate_latest(self.registry)  # type: ignore[no-untyped-call]
        return text

    def _counter(self, name: str) -> Counter:
        family = _FAMILIES[name]
        return Counter(name, family.text, family.labels, registry=self.registry)

    def _gauge(self, name: str) -> Gauge:
        family = _FAMILIES[name]
        return Gauge(name, family.text, family.labels, registry=self.registry)

    def _histogram(self, name: str, bounds_s: tuple[float, ...]) -> Histogram:
        family = _FAMILIES[name]
        return Histogram(name, family.text, family.labels, registry=self.registry, buckets=bounds_s)

    def _info(self, name: str, **values: str) -> None:
        family = _FAMILIES[name]
        Info(name.removesuffix("_info"), family.text, registry=self.registry).info(values)
