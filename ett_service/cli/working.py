"""The worker that the settings ask for, in a server or beside it."""

from ett_service.analysis.standing import Asked
from ett_service.cli.now import now_us
from ett_service.core.interval import SECOND_US
from ett_service.settings import Settings
from ett_service.storage.engine import Store
from ett_service.storage.label_values import Most
from ett_service.worker.loop import Worker
from ett_service.worker.publishing import Publication


def worker(settings: Settings, store: Store) -> Worker:
    """Make the worker of a store; it is still to be started."""
    limits, metrics = settings.limits, settings.metrics
    return Worker(
        store,
        now_us,
        limits,
        poll_seconds=settings.worker_poll_seconds,
        cohorts_a_day=settings.cohorts_a_day,
        publication=Publication(
            every_us=round(metrics.every_seconds * SECOND_US),
            most=Most(metrics.clusters, metrics.cohorts),
            asked=Asked(settings.economy, limits.lost_after_us, metrics.jobs, settings.sla),
        ),
    )
