"""The one place where parts are put together, for ``serve``, ``worker``, ``detect`` and tests.

It reads no clock: entry points hand theirs in.
"""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from importlib.metadata import version
from pathlib import Path

from ett_service.api.state import (
    AppState,
    Capacities,
    Capacity,
    ConnectionLimits,
    Notifications,
    is_loopback,
)
from ett_service.core.dimensions import DIMENSIONS
from ett_service.core.intervals import DAY_US, HOUR_US, SECOND_US
from ett_service.core.regressions.state import StateRules
from ett_service.detection.sample import Options, Plan
from ett_service.ingest.wire import Limits
from ett_service.metrics.gauges import GaugeOptions
from ett_service.notifications.guard import Allowed
from ett_service.notifications.routing import Directory, Schedule
from ett_service.notifications.sender import Sender, Sending
from ett_service.setting_tables import OverloadTable
from ett_service.settings import Settings
from ett_service.storage.engine import migrate, sqlite
from ett_service.storage.engine.errors import WrongStore
from ett_service.storage.engine.seal import SECRETS, Keyring
from ett_service.storage.engine.store import Store, open_store
from ett_service.storage.metrics.labels import LabelLimits
from ett_service.storage.record.sessions import PURPOSE as SESSIONS
from ett_service.storage.record.sessions import Sessions
from ett_service.storage.retention import Kept
from ett_service.storage.sizes import suggested
from ett_service.worker.ledgers import Worker
from ett_service.worker.metrics import MetricsOptions
from ett_service.worker.notify import Audience, DeliveryThread
from ett_service.worker.regressions import DetectionOptions, DetectionThread
from ett_service.worker.retention import RetentionThread
from ett_service.worker.thread import PeriodicThread

_LARGE_WRITES = 8

Clock = Callable[[], int]
"""Tells the time in microseconds since the Unix epoch."""


def serve(
    settings: Settings, now_us: Clock, first_key: Path | None = None, n_processes: int = 1
) -> None:
    """Serve the API until SIGINT or SIGTERM, with a worker inside where the settings ask for one.

    The first key of a new SQLite file is written to the file *first_key*, or else printed. Several
    processes need PostgreSQL, and each has a worker inside where the settings ask for one.

    Raises:
        EttError: The database cannot be opened.
        OSError: The address cannot be listened on.
    """
    # The web framework is for it alone.
    from ett_service.api.app import serve  # noqa: PLC0415
    from ett_service.pages.site import ROUTERS  # noqa: PLC0415

    if n_processes > 1 and settings.database_url.startswith("sqlite"):
        hint = "Leave out --workers, or use PostgreSQL: see docs/operations.md."
        raise WrongStore("One process writes a SQLite file.", hint)
    serve(settings, application(settings, now_us), ROUTERS, first_key, n_processes)


@contextmanager
def application(settings: Settings, now_us: Clock) -> Iterator[AppState]:
    """Open what the API stands on, with a worker inside where the settings ask for one.

    A SQLite file that is not there yet is made.
    """
    _make_file(settings.database_url)
    with closing(open_store(settings.database_url, settings.min_free_bytes)) as store:
        inner = worker(settings, store, now_us) if settings.embedded_worker else None
        state = app_state(settings, store, now_us, inner)
        if inner is None:
            yield state
            return
        inner.start()
        try:
            yield state
        finally:
            inner.stop()


def app_state(
    settings: Settings, store: Store, now_us: Clock, inner: Worker | None = None
) -> AppState:
    """Return what the API stands on, beside the worker *inner* of this process."""
    return AppState(
        store=store,
        now_us=now_us,
        limits=_limits(settings),
        worker=inner,
        version=version("ett-service"),
        open_metrics=settings.open_metrics,
        local_metrics=is_loopback(settings.host),
        cohort_histograms=settings.metrics.cohort_histograms,
        body_deadline_s=settings.body_deadline_seconds,
        capacities=_capacities(settings.overload),
        connections=_connection_limits(settings.overload),
        economy=settings.economy,
        sla=settings.sla,
        notifications=notifications(settings),
        sessions=Sessions(_keyring(settings, SESSIONS)),
        grafana_url=settings.grafana_url,
    )


def worker(settings: Settings, store: Store, now_us: Clock) -> Worker:
    """Make the worker of a store; it is still to be started."""
    limits, metrics = settings.limits, settings.metrics
    notified = notifications(settings)
    threads: list[PeriodicThread] = [_delivery(settings, store, notified)]
    if settings.retention_days or settings.rollups.hourly_days:
        kept = Kept.for_days(settings.retention_days, settings.rollups.hourly_days)
        threads.append(RetentionThread(store, now_us, kept))
    if settings.detection.enabled:
        threads.append(_detection(settings, store, notified))
    return Worker(
        store,
        now_us,
        limits,
        poll_seconds=settings.worker_poll_seconds,
        cohorts_a_day=settings.cohorts_a_day,
        metrics=MetricsOptions(
            every_us=round(metrics.every_seconds * SECOND_US),
            limits=LabelLimits(metrics.clusters, metrics.cohorts),
            gauges=GaugeOptions(settings.economy, limits.lost_after_us, metrics.jobs, settings.sla),
            kept=suggested(settings.retention_days, settings.rollups.hourly_days),
        ),
        threads=threads,
    )


def notifications(settings: Settings) -> Notifications:
    """Return who is notified of regressions, and what sends to them."""
    alerting = settings.alerting
    sending = Sending(
        connect_seconds=alerting.connect_seconds,
        total_seconds=alerting.total_seconds,
        resend_us=round(alerting.resend_seconds * SECOND_US),
        allowed=Allowed.of(settings.webhook_allow),
    )
    return Notifications(
        directory=Directory(settings.configured_receivers, _keyring(settings, SECRETS)),
        sender=lambda: Sender(sending),
        public_url=settings.public_url,
    )


def _keyring(settings: Settings, purpose: bytes) -> Keyring:
    return Keyring(settings.secret_key.get_secret_value(), settings.database_url, purpose=purpose)


def detection_plan(settings: Settings) -> Plan:
    """Return how regressions are searched for; each project is searched by itself."""
    detection = settings.detection
    return Plan(
        cohort=tuple(name for name in detection.cohort if name in DIMENSIONS),
        strata=tuple(name for name in detection.strata if name in DIMENSIONS),
        options=Options(
            recent_days=detection.recent_days,
            baseline_days=detection.baseline_days,
            effect_floor=detection.effect_floor,
            impact_floor=detection.impact_floor,
            q=detection.q,
        ),
        economy=settings.economy,
    )


def _delivery(settings: Settings, store: Store, notified: Notifications) -> DeliveryThread:
    alerting = settings.alerting
    schedule = Schedule(
        steps_us=tuple(round(seconds * SECOND_US) for seconds in alerting.retry_seconds),
        resend_us=round(alerting.resend_seconds * SECOND_US),
    )
    return DeliveryThread(
        store,
        notified.directory,
        notified.sender(),
        schedule,
        keep_us=round(alerting.keep_days * DAY_US),
    )


def _detection(settings: Settings, store: Store, notified: Notifications) -> DetectionThread:
    detection = settings.detection
    options = DetectionOptions(
        plan=detection_plan(settings),
        tune=detection.tune,
        rules=StateRules(runs=detection.runs),
        audience=Audience(
            notified.directory, notified.public_url, round(detection.remind_hours * HOUR_US)
        ),
        every_us=round(detection.every_seconds * SECOND_US),
        settle_us=round(detection.settle_seconds * SECOND_US),
        lease_seconds=settings.alerting.lease_seconds,
    )
    return DetectionThread(store, options)


def _limits(settings: Settings) -> Limits:
    return Limits(
        max_body_bytes=settings.max_body_bytes,
        max_inflated_bytes=settings.max_inflated_bytes,
        max_batch_events=settings.max_batch_events,
        max_event_bytes=settings.max_event_bytes,
        max_depth=settings.max_depth,
        max_future_us=settings.max_future_seconds * SECOND_US,
    )


def _capacities(overload: OverloadTable) -> Capacities:
    def capacity(requests: int, cost: int) -> Capacity:
        return Capacity(requests, cost, overload.waiting, overload.wait_seconds)

    return Capacities(
        writes=capacity(overload.write_requests, overload.write_bytes),
        large_writes=capacity(_LARGE_WRITES, overload.large_write_bytes),
        reads=capacity(overload.read_requests, overload.read_bytes),
        body_bytes=overload.body_bytes,
    )


def _connection_limits(overload: OverloadTable) -> ConnectionLimits:
    return ConnectionLimits(
        connections=overload.connections,
        header_bytes=overload.header_bytes,
        headers=overload.headers,
        address_bytes=overload.address_bytes,
        header_s=overload.header_seconds,
        idle_s=overload.idle_seconds,
        answer_s=overload.answer_seconds,
    )


def _make_file(url: str) -> None:
    address = migrate.address(url)
    if address.get_backend_name() == "sqlite" and not sqlite.path_of(address).exists():
        migrate.migrate(url)
