"""Every family of metrics that the service exposes: its type, its labels and what it says.

Counters and histograms come from marks in the database that never go down, gauges from what was
last published there; both are the same from every replica. What a process counts of itself starts
at 0 with it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from ett_service.core.fleet.counters import BOUNDS_US, DEDUCTIONS, PHASES
from ett_service.core.words import ORIGIN_OF_CAUSE, TIMED, Category


class Kind(StrEnum):
    """The type of a family, as both text formats name it."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Family:
    """One family. ``name`` is that of its samples: of a counter with ``_total``.

    ``known`` are values of the labels behind ``cluster`` and ``cohort`` that are exposed at 0
    before anything was counted, ``bounds_us`` the upper bounds of a histogram's buckets but the
    last.
    """

    name: str
    kind: Kind
    labels: tuple[str, ...]
    text: str
    known: Sequence[tuple[str, ...]] = ()

    @property
    def key(self) -> str:
        """What its keys in ``core.counters`` begin with."""
        return self.name.removeprefix("ett_").removesuffix("_total")

    def series(self, own: Sequence[str]) -> str:
        """Return the key there of one series, by its labels behind ``cluster`` and ``cohort``."""
        return f"{self.key}:{'/'.join(own)}" if own else self.key

    @property
    def bounds_us(self) -> tuple[int, ...]:
        """Upper bounds of the buckets but the last; empty unless it is a histogram of durations."""
        return BOUNDS_US.get(self.key, ())


_COHORT = ("cluster", "cohort")
_HELD = tuple(
    (phase, held)
    for phase in PHASES
    for held in ("true", "false")
    if held == ("false" if phase == Category.SCHEDULING else "true")
    or phase == Category.RESTART_WAIT
)

COUNTERS: tuple[Family, ...] = (
    Family(
        "ett_phase_seconds_total", Kind.COUNTER, (*_COHORT, "phase"),
        "Wall seconds by reported phase; phases sum to E2E.",
        [(phase,) for phase in PHASES],
    ),
    Family(
        "ett_phase_weighted_seconds_total", Kind.COUNTER, (*_COHORT, "phase", "held"),
        'Seconds by reported phase times accelerators; held="true" are GPU-seconds.',
        _HELD,
    ),
    Family(
        "ett_deducted_seconds_total", Kind.COUNTER, (*_COHORT, "phase", "category"),
        "Seconds of a phase found to belong to another category.",
        DEDUCTIONS,
    ),
    Family(
        "ett_deducted_weighted_seconds_total", Kind.COUNTER, (*_COHORT, "phase", "category"),
        "Seconds of a phase found to belong to another category, times accelerators.",
        DEDUCTIONS,
    ),
    Family(
        "ett_attempts_started_total", Kind.COUNTER, (*_COHORT, "start"),
        "Attempts that began: the first of a job, or a restart.",
        (("first",), ("restart",)),
    ),
    Family(
        "ett_failures_total", Kind.COUNTER, ("cluster", "origin", "cause"),
        "Attempts that ended failed, preempted or lost.",
        [(origin, cause) for cause, origin in ORIGIN_OF_CAUSE.items()],
    ),
    Family(
        "ett_time_to_start_seconds", Kind.HISTOGRAM, _COHORT,
        "Hardware allocated to the first loop.", ((),),
    ),
    Family(
        "ett_time_to_recover_seconds", Kind.HISTOGRAM, _COHORT,
        "End of the interrupted attempt's last loop to the next loop.", ((),),
    ),
    Family(
        "ett_checkpoint_blocking_seconds", Kind.HISTOGRAM, _COHORT,
        "The loop stood still for a save.", ((),),
    ),
    Family(
        "ett_phase_duration_seconds", Kind.HISTOGRAM, ("cluster", "phase"),
        "What an attempt spent on a phase before its first loop, or on its shutdown.",
        [(phase,) for phase in TIMED],
    ),
)  # fmt: skip
"""Marks: they never go down, whatever is corrected, deleted or restarted."""

GAUGES: tuple[Family, ...] = (
    Family("ett_attempts_running", Kind.GAUGE, _COHORT, "Attempts that run."),
    Family("ett_attempts_silent", Kind.GAUGE, _COHORT,
           "Attempts that run, and of which nothing was heard for a third of lost_after."),
    Family("ett_cohort_last_event_timestamp_seconds", Kind.GAUGE, _COHORT,
           "The latest sign of any attempt."),
    Family("ett_oldest_open_phase_start_timestamp_seconds", Kind.GAUGE, (*_COHORT, "phase"),
           "Since when the running attempt is in the phase that is in it longest; absent where "
           "none is. A silent tail is an open stalled."),
    Family("ett_phase_p99_seconds", Kind.GAUGE, ("cluster", "phase"),
           "99 % of attempts spent no longer on the phase, over 28 days."),
    Family("ett_window_ratio", Kind.GAUGE, (*_COHORT, "window", "weighting"),
           "ETT as a ratio, restated, up to the end of this hour. Do not average."),
    Family("ett_window_weighted_seconds", Kind.GAUGE, (*_COHORT, "window"),
           "What the ratio weighted by accelerators divides by."),
    Family("ett_window_gpu_seconds", Kind.GAUGE, ("cluster", "window", "category"),
           "Seconds of held accelerators by category, restated."),
    Family("ett_window_cost", Kind.GAUGE, ("cluster", "window", "category", "currency"),
           "What they cost; absent where any of them has no price."),
    Family("ett_gpu_hour_price", Kind.GAUGE, ("hardware", "currency"),
           "What an hour of one accelerator costs now."),
    Family("ett_target_ratio", Kind.GAUGE, ("cluster",), "The ETT that the cluster aims at."),
    Family("ett_cohort_target_ratio", Kind.GAUGE, _COHORT, "The ETT that the cohort aims at."),
    Family("ett_last_marker_timestamp_seconds", Kind.GAUGE, ("marker",),
           "The latest marker of a kind."),
    Family("ett_job_ratio", Kind.GAUGE, ("project", "training_job"),
           "ETT of a running job, of those that metrics.jobs names."),
    Family("ett_regression_active", Kind.GAUGE, (*_COHORT, "phase", "metric", "severity"),
           'Regressions that fire; "all" where one is not limited to a cluster or cohort.'),
    Family("ett_regression_lost_gpu_seconds", Kind.GAUGE, (*_COHORT, "phase", "metric"),
           "What they cost a week; absent while accelerators are unknown."),
    Family("ett_regressions", Kind.GAUGE, ("state", "verdict"),
           "Findings that are pending or fire."),
    Family("ett_regression_precision_ratio", Kind.GAUGE, (),
           "Of the findings that people called real or noise in 90 days, the real ones."),
    Family("ett_regression_detect_seconds", Kind.GAUGE, (),
           "From the onset of a regression until it fired; the median over 90 days."),
    Family("ett_regression_acknowledge_seconds", Kind.GAUGE, (),
           "From there until somebody took it on; likewise."),
    Family("ett_regression_resolve_seconds", Kind.GAUGE, (),
           "From there until it was gone; likewise."),
    Family("ett_regression_sla_breached", Kind.GAUGE, ("sla",),
           "Regressions of 90 days that took longer than the settings ask for, or have by now."),
    Family("ett_detection_last_run_timestamp_seconds", Kind.GAUGE, (),
           "Up to when the project was searched for regressions that is furthest behind."),
    Family("ett_detection_duration_seconds", Kind.GAUGE, (),
           "How long the latest search of all projects took."),
    Family("ett_detection_series", Kind.GAUGE, (), "What it looked at."),
    Family("ett_webhook_recent_deliveries", Kind.GAUGE, ("receiver", "result"),
           "Messages of the last day that were sent, given up (dead) or superseded."),
    Family("ett_webhook_waiting", Kind.GAUGE, ("receiver",),
           "Messages that are still to be delivered."),
    Family("ett_webhook_oldest_waiting_timestamp_seconds", Kind.GAUGE, ("receiver",),
           "Since when the oldest of them waits."),
    Family("ett_webhook_disabled_receivers", Kind.GAUGE, (),
           "Receivers that are sent nothing any more, because they said 410 Gone."),
    Family("ett_jobs_waiting", Kind.GAUGE, (),
           "Jobs with facts that are not in the numbers yet."),
    Family("ett_aggregation_watermark_timestamp_seconds", Kind.GAUGE, (),
           "What came in before is in the numbers."),
    Family("ett_published_timestamp_seconds", Kind.GAUGE, (),
           "When the numbers of this page were last worked out."),
    Family("ett_publish_duration_seconds", Kind.GAUGE, (), "How long that took."),
    Family("ett_mark_excess_seconds", Kind.GAUGE, (),
           "Wall seconds by which counters stand above what is known now."),
    Family("ett_label_values_folded", Kind.GAUGE, ("label",),
           'Clusters and cohorts that count under "other".'),
    Family("ett_db_size_bytes", Kind.GAUGE, (), "Size of the database."),
)  # fmt: skip
"""The state of the fleet, as it was last published."""

OWN: tuple[Family, ...] = (
    Family("ett_ingest_events_total", Kind.COUNTER, ("source",),
           "Events taken in, duplicates apart; import is what came marked as history.",
           (("events",), ("import",))),
    Family("ett_ingest_events_rejected_total", Kind.COUNTER, ("code",),
           "Events refused, by the code that their sender was told."),
    Family("ett_ingest_events_duplicate_total", Kind.COUNTER, (),
           "Events that were known already."),
    Family("ett_ingest_event_lag_seconds", Kind.HISTOGRAM, (),
           "From the instant that an event names to its arrival; what came as history is left "
           "out."),
    Family("ett_ingest_last_event_timestamp_seconds", Kind.GAUGE, (),
           "When an event last came in that was no history; the process's start before any did."),
    Family("ett_http_requests_total", Kind.COUNTER, ("method", "route", "status"),
           "Requests answered, by the template of their route."),
    Family("ett_http_request_duration_seconds", Kind.HISTOGRAM, ("route",),
           "From a request's first byte to its answer's last."),
    Family("ett_collector_duration_seconds", Kind.GAUGE, (),
           "How long the fleet's part of this page took."),
    Family("ett_collector_errors_total", Kind.COUNTER, (),
           "What had to be left out of this page: samples, or once the fleet's whole part."),
    Family("ett_build_info", Kind.INFO, ("version",), "The running build."),
    Family("ett_schema_info", Kind.INFO, ("revision",), "The schema that it reads and writes."),
)  # fmt: skip
"""What a process tells of itself; to be summed over replicas."""

OF_THE_LIBRARY: tuple[str, ...] = (
    "process_virtual_memory_bytes", "process_resident_memory_bytes", "process_start_time_seconds",
    "process_cpu_seconds_total", "process_open_fds", "process_max_fds", "python_info",
)  # fmt: skip
"""What prometheus_client tells of a process, where the system has it."""
