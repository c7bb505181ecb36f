"""The demo's fleet as it reported while it ran: the service runs along with a clock of ours.

The application, the worker and the publisher get the same instants, and at each the page that
Prometheus would have read is kept.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from importlib.metadata import version
from itertools import islice
from time import perf_counter, sleep

from starlette.testclient import TestClient

from ett_service.api.app import create_app
from ett_service.api.state import AppState
from ett_service.core.intervals import rfc3339
from ett_service.demo.calendar import WireEvent
from ett_service.demo.fleet import IMPACT_FLOOR
from ett_service.demo.generator import Fleet
from ett_service.demo.life import Story
from ett_service.detection.sample import Options, Plan
from ett_service.fleet.economy import Economy
from ett_service.ingest.members import parse_instant
from ett_service.ingest.wire import Limits
from ett_service.metrics.gauges import GaugeOptions
from ett_service.storage.engine.errors import StorageUnavailable
from ett_service.storage.engine.store import Store
from ett_service.storage.record.keys import SCOPES, create_key
from ett_service.worker.ledgers import Worker
from ett_service.worker.metrics import MetricsOptions, MetricsThread
from ett_service.worker.regressions import DetectionOptions, DetectionThread

_PROJECT = "demo"
_NAMED = ("*-pretrain-*",)  #: jobs that the page shows one by one
_A_BATCH = 5000
_A_MOMENT_S = 0.05
_ENDINGS = frozenset({"attempt_ended", "job_ended", "job"})
_PLACED_BY = ("launch", "attempt", "cycle")
_OPENMETRICS = {"Accept": "application/openmetrics-text; version=1.0.0"}


@dataclass(frozen=True, slots=True)
class Page:
    """What a scrape at an instant read, in OpenMetrics, and how many seconds that took."""

    at_us: int
    text: str
    took_s: float = 0.0


@dataclass
class _Clock:
    us: int

    def now(self) -> int:
        return self.us


class _Running:
    """The service at the instants of its clock."""

    def __init__(
        self,
        client: TestClient,
        worker: Worker,
        publishing: MetricsThread,
        detection: DetectionThread,
    ) -> None:
        self._client = client
        self._worker = worker
        self._publishing = publishing
        self._detection = detection

    def send(self, events: Sequence[WireEvent]) -> None:
        """Send events, all of which must be taken, and work them in."""
        rest = iter(events)
        while part := list(islice(rest, _A_BATCH)):
            answer = self._client.post("/v1/events", json={"events": part})
            if answer.status_code != 200 or answer.json()["rejected"]:  # noqa: PLR2004
                raise RuntimeError(f"The fleet's events are refused: {answer.text[:500]}")
        while self._goes_on():
            pass

    def _goes_on(self) -> bool:
        try:
            return self._worker.run_once() > 0
        except StorageUnavailable:  # folds that write the same rows waited for each other too long
            return True

    def mark(self, marker: object) -> None:
        """Record a marker."""
        self._client.post("/v1/markers", json=marker).raise_for_status()

    def search(self) -> None:
        """Look for regressions, if a day is over."""
        while (epoch := self._detection.lease.epoch) is None:
            sleep(_A_MOMENT_S)
        self._detection.run_once(epoch)

    def page(self, at_us: int) -> Page:
        """Publish, and read what is published."""
        self._publishing.publish()
        began = perf_counter()
        answer = self._client.get("/metrics", headers=_OPENMETRICS).raise_for_status()
        return Page(at_us, answer.text, perf_counter() - began)


def pages(store: Store, fleet: Fleet, economy: Economy, at_us: Iterable[int]) -> Iterator[Page]:
    """Send *fleet* as it happens to *store*, and yield the page at each instant of *at_us*.

    What was before the first is sent at once. Instants are microseconds since the Unix epoch.
    """
    timed = sorted(_timed_events(fleet), key=lambda each: each[0])
    instants = [at for at, _ in timed]
    markers = sorted((parse_instant(each["at"]), each) for each in fleet.markers)
    clock, done, marked = _Clock(0), 0, 0
    signs = [_Signs(story) for story in fleet.stories]
    with _running(store, clock, economy) as running:
        for now_us in at_us:
            clock.us = now_us
            due = bisect_right(instants, now_us)
            alive = (sign for story_signs in signs if (sign := story_signs.at(now_us)))
            running.send([*(event for _, event in timed[done:due]), *alive])
            done = due
            while marked < len(markers) and markers[marked][0] <= now_us:
                running.mark(markers[marked][1])
                marked += 1
            running.search()
            yield running.page(now_us)


@contextmanager
def _running(store: Store, clock: _Clock, economy: Economy) -> Iterator[_Running]:
    worker = Worker(store, clock.now)
    options = MetricsOptions(gauges=GaugeOptions(economy, jobs=_NAMED))
    state = AppState(
        store, clock.now, replace(Limits(), max_batch_events=_A_BATCH), worker,
        open_metrics=True, economy=economy, version=version("ett-service"),
    )  # fmt: skip
    key = store.write(
        lambda conn: create_key(conn, project=_PROJECT, name="demo", scopes=SCOPES, now_us=clock.us)
    )
    detection_options = DetectionOptions(
        Plan(options=Options(impact_floor=IMPACT_FLOOR), economy=economy),
        clock=lambda _conn: clock.us,
    )
    detection = DetectionThread(store, detection_options)
    detection.lease.start()
    with TestClient(create_app(lambda: nullcontext(state))) as client:
        client.headers["Authorization"] = f"Bearer {key}"
        publishing = MetricsThread(store, clock.now, options)
        yield _Running(client, worker, publishing, detection)
    detection.lease.stop_soon()
    detection.lease.join()


def _timed_events(fleet: Fleet) -> Iterator[tuple[int, WireEvent]]:
    for story in fleet.stories:
        for event in story.events:
            if event["type"] == "span":
                yield from _as_it_happens(event)
            else:
                yield parse_instant(event["at"]), event


def _as_it_happens(span: WireEvent) -> Iterator[tuple[int, WireEvent]]:
    """Split a span into its begin and its end, so that it shows while it lasts."""
    inside = {name: value for name, value in span.items() if name not in {"type", "start"}}
    yield (
        parse_instant(span["start"]),
        {"type": "phase_started", **inside, "at": span["start"]},
    )
    yield parse_instant(span["at"]), {"type": "phase_ended", **inside}


class _Signs:
    """Signs of life of what runs; without, an attempt would be lost between two instants."""

    def __init__(self, story: Story) -> None:
        self._name = story.job.name
        self._events = sorted(story.events, key=lambda event: str(event["at"]))
        self._instants = [parse_instant(event["at"]) for event in self._events]
        self._running = story.running

    def at(self, now_us: int) -> WireEvent | None:
        """Return the heartbeat of an attempt at an instant, if one runs."""
        before = bisect_right(self._instants, now_us)
        if not before:
            return None
        last = self._events[before - 1]
        if last["type"] in _ENDINGS or last.get("phase") == "queued":
            return None
        if before == len(self._events) and self._running is not None:
            return self._running.sign(now_us)
        named = {name: last[name] for name in _PLACED_BY if name in last}
        return {"type": "heartbeat", "at": rfc3339(now_us), "job": self._name, **named}
