"""The tables. Keys of a job's facts start with project and job, so they can be spread by job.

Instants and durations are integer microseconds (``_us``), instants since the Unix epoch.
Ratios are never stored: readers divide.
"""

from ett_service.storage.schema.alerting import (
    accepted_baseline,
    delivery,
    detection_run,
    lease,
    mute,
    receiver,
    receiver_health,
    regression,
    regression_change,
)
from ett_service.storage.schema.definition import metadata
from ett_service.storage.schema.fleet import (
    cohort,
    cohort_day,
    contribution,
    rollup_daily,
    rollup_hourly,
    tally_daily,
    tally_hourly,
)
from ett_service.storage.schema.ledger import (
    attempt_ledger,
    checkpoint,
    job_ledger,
    recovery,
    segment,
    share,
    stage_time,
)
from ett_service.storage.schema.metrics import counted, counter, exemplar, label_value, published
from ett_service.storage.schema.record import (
    api_key,
    correction,
    dirty,
    event,
    job,
    job_history,
    marker,
    producer,
    project,
    store,
)

__all__ = [
    "accepted_baseline",
    "api_key",
    "attempt_ledger",
    "checkpoint",
    "cohort",
    "cohort_day",
    "contribution",
    "correction",
    "counted",
    "counter",
    "delivery",
    "detection_run",
    "dirty",
    "event",
    "exemplar",
    "job",
    "job_history",
    "job_ledger",
    "label_value",
    "lease",
    "marker",
    "metadata",
    "mute",
    "producer",
    "project",
    "published",
    "receiver",
    "receiver_health",
    "recovery",
    "regression",
    "regression_change",
    "rollup_daily",
    "rollup_hourly",
    "segment",
    "share",
    "stage_time",
    "store",
    "tally_daily",
    "tally_hourly",
]
