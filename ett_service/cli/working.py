"""The worker that the settings ask for, in a server or beside it."""

from ett_service.api.serve import notifications
from ett_service.api.state import Notifications
from ett_service.cli.detection_plan import plan_of
from ett_service.cli.now import now_us
from ett_service.core.intervals import SECOND_US
from ett_service.core.regressions.state import StateRules
from ett_service.metrics.gauges import GaugeOptions
from ett_service.notifications.schedule import Schedule
from ett_service.settings import Settings
from ett_service.storage.engine.store import Store
from ett_service.storage.metrics.labels import LabelLimits
from ett_service.worker.deliver import DeliveryThread
from ett_service.worker.ledgers import Worker
from ett_service.worker.metrics import MetricsOptions
from ett_service.worker.notify import Audience
from ett_service.worker.regressions import DetectionOptions, DetectionThread
from ett_service.worker.thread import PeriodicThread


def worker(settings: Settings, store: Store) -> Worker:
    """Make the worker of a store; it is still to be started."""
    limits, metrics = settings.limits, settings.metrics
    told = notifications(settings)
    threads: list[PeriodicThread] = [_delivery(settings, store, told)]
    if settings.detection.enabled:
        threads.append(_detection(settings, store, told))
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
        ),
        threads=threads,
    )


def _delivery(settings: Settings, store: Store, told: Notifications) -> DeliveryThread:
    asked = settings.alerting
    schedule = Schedule(
        steps_us=tuple(round(seconds * SECOND_US) for seconds in asked.retry_seconds),
        resend_us=round(asked.resend_seconds * SECOND_US),
    )
    return DeliveryThread(store, told.directory, told.sender(), schedule)


def _detection(settings: Settings, store: Store, told: Notifications) -> DetectionThread:
    asked = settings.detection
    options = DetectionOptions(
        plan=plan_of(settings),
        rules=StateRules(runs=asked.runs),
        audience=Audience(told.directory, told.public_url),
        every_us=round(asked.every_seconds * SECOND_US),
        settle_us=round(asked.settle_seconds * SECOND_US),
        lease_seconds=settings.alerting.lease_seconds,
    )
    return DetectionThread(store, options)
