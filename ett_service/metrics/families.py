"""Every family of metrics: its type, labels, help, and text for Prometheus or OpenMetrics.

Counters and histograms come from high-water marks in the database that never go down, gauges from
the last publication there; both are the same on every replica. A process's own metrics start at 0
with it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum
from math import inf, isfinite, isnan

from ett_service.core.fleet.counters import BOUNDS_US, DEDUCTIONS, GAPS, PHASES
from ett_service.core.words import ORIGIN_OF_CAUSE, TIMED, Category

_UNITS = ("seconds", "bytes", "ratio")
_IN_HELP = str.maketrans({"\\": r"\\", "\n": r"\n"})
_QUOTED = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


class Kind(StrEnum):
    """The type of a family, as both text formats name it."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Family:
    """One family. ``name`` is that of its samples: of a counter with ``_total``.

    ``initial`` are values of the labels behind ``cluster`` and ``cohort`` that are exposed at 0
    before anything was counted.
    """

    name: str
    kind: Kind
    labels: tuple[str, ...]
    text: str
    initial: Sequence[tuple[str, ...]] = ()

    @property
    def key(self) -> str:
        """The beginning of its keys in ``core.fleet.counters``."""
        return self.name.removeprefix("ett_").removesuffix("_total")

    def series(self, own: Sequence[str]) -> str:
        """Return the key of one series there, by its labels behind ``cluster`` and ``cohort``."""
        return f"{self.key}:{'/'.join(own)}" if own else self.key

    @property
    def bounds_us(self) -> tuple[int, ...]:
        """Upper bounds of the buckets but the last; empty unless it is a histogram of durations."""
        return BOUNDS_US.get(self.key, ())

    @property
    def of_cohorts(self) -> bool:
        """Whether each cohort has series of its own."""
        return "cohort" in self.labels

    @property
    def own_labels(self) -> tuple[str, ...]:
        """The labels behind ``cluster`` and ``cohort``."""
        return self.labels[2 if self.of_cohorts else 1 :]

    @property
    def is_seconds(self) -> bool:
        """Whether its values are seconds, which the marks hold as microseconds."""
        return self.key.endswith("_seconds")


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
        "Wall-clock seconds by reported phase; phases sum to the end-to-end time.",
        [(phase,) for phase in PHASES],
    ),
    Family(
        "ett_phase_weighted_seconds_total", Kind.COUNTER, (*_COHORT, "phase", "held"),
        'Seconds by reported phase, times accelerators; held="true" are GPU-seconds.',
        _HELD,
    ),
    Family(
        "ett_deducted_seconds_total", Kind.COUNTER, (*_COHORT, "phase", "category"),
        "Seconds of a phase that belong to another category.",
        DEDUCTIONS,
    ),
    Family(
        "ett_deducted_weighted_seconds_total", Kind.COUNTER, (*_COHORT, "phase", "category"),
        "Seconds of a phase that belong to another category, times accelerators.",
        DEDUCTIONS,
    ),
    Family(
        "ett_between_runs_seconds_total", Kind.COUNTER, _COHORT,
        "Seconds from the end of a job's run to the first sign of its next; in no phase.", ((),),
    ),
    Family(
        "ett_effective_speed_seconds_total", Kind.COUNTER, (*_COHORT, "speed"),
        "Seconds of effective training of attempts that ended: at reference speed, slowed, or not "
        "measured.",
        (("at_reference",), ("slowed",), ("unmeasured",)),
    ),
    Family(
        "ett_data_wait_seconds_total", Kind.COUNTER, _COHORT,
        "Seconds that loops waited for data, of attempts that ended and report it.", ((),),
    ),
    Family(
        "ett_data_wait_loop_seconds_total", Kind.COUNTER, _COHORT,
        "Seconds of the loops of these attempts.", ((),),
    ),
    Family(
        "ett_attempts_started_total", Kind.COUNTER, (*_COHORT, "start"),
        "Attempts started: the first of a run, or a restart.",
        (("first",), ("restart",)),
    ),
    Family(
        "ett_failures_total", Kind.COUNTER, ("cluster", "origin", "cause"),
        "Attempts that failed, were preempted or were lost.",
        [(origin, cause) for cause, origin in ORIGIN_OF_CAUSE.items()],
    ),
    Family(
        "ett_reporting_gaps_total", Kind.COUNTER, ("cluster", "kind"),
        "Attempts with a broken hook of the client, and facts that senders did not report.",
        [(kind,) for kind in GAPS],
    ),
    Family(
        "ett_time_to_start_seconds", Kind.HISTOGRAM, _COHORT,
        "Time from the allocation of hardware to the first training loop.", ((),),
    ),
    Family(
        "ett_time_to_recover_seconds", Kind.HISTOGRAM, _COHORT,
        "Time from the end of an interrupted attempt's last training loop to the next loop.", ((),),
    ),
    Family(
        "ett_checkpoint_blocking_seconds", Kind.HISTOGRAM, _COHORT,
        "Time that a checkpoint blocked the training loop.", ((),),
    ),
    Family(
        "ett_phase_duration_seconds", Kind.HISTOGRAM, ("cluster", "phase"),
        "Time an attempt spent in a phase before its first training loop, or in shutdown.",
        [(phase,) for phase in TIMED],
    ),
)  # fmt: skip
"""High-water marks: they never go down, whatever is corrected, deleted or restarted."""

GAUGES: tuple[Family, ...] = (
    Family("ett_attempts_running", Kind.GAUGE, _COHORT, "Running attempts."),
    Family("ett_attempts_silent", Kind.GAUGE, _COHORT,
           "Running attempts without an event for a third of lost_after."),
    Family("ett_cohort_last_event_timestamp_seconds", Kind.GAUGE, _COHORT,
           "Time of the latest event of any attempt."),
    Family("ett_oldest_open_phase_start_timestamp_seconds", Kind.GAUGE, (*_COHORT, "phase"),
           "Start of the longest open phase of this name among running attempts; absent if none "
           "is open. A silent tail counts as an open stalled."),
    Family("ett_phase_p99_seconds", Kind.GAUGE, ("cluster", "phase"),
           "99th percentile of the time that attempts spent in the phase, over 28 days."),
    Family("ett_window_ratio", Kind.GAUGE, (*_COHORT, "window", "weighting"),
           "ETT as a ratio over the window, restated, up to the end of this hour. Do not average."),
    Family("ett_window_weighted_seconds", Kind.GAUGE, (*_COHORT, "window"),
           "Denominator of the ratio that is weighted by accelerators."),
    Family("ett_window_gpu_seconds", Kind.GAUGE, ("cluster", "window", "category"),
           "GPU-seconds of held accelerators by category, restated."),
    Family("ett_window_wait_weighted_seconds", Kind.GAUGE, ("cluster", "window", "owner"),
           "Seconds before the first step and of recoveries by whose wait they are, times "
           "accelerators, restated."),
    Family("ett_window_cost", Kind.GAUGE, ("cluster", "window", "category", "currency"),
           "Cost of these GPU-seconds; absent if any of them has no price."),
    Family("ett_gpu_hour_price", Kind.GAUGE, ("hardware", "currency"),
           "Present price of one accelerator for an hour."),
    Family("ett_target_ratio", Kind.GAUGE, ("cluster",), "Target ETT of the cluster."),
    Family("ett_cohort_target_ratio", Kind.GAUGE, _COHORT, "Target ETT of the cohort."),
    Family("ett_last_marker_timestamp_seconds", Kind.GAUGE, ("marker",),
           "Time of the latest marker of a kind."),
    Family("ett_job_ratio", Kind.GAUGE, ("project", "training_job"),
           "ETT of a running job that metrics.jobs names."),
    Family("ett_regression_active", Kind.GAUGE, (*_COHORT, "phase", "metric", "severity"),
           'Firing regressions; "all" if one is not limited to a cluster or cohort.'),
    Family("ett_regression_lost_gpu_seconds", Kind.GAUGE, (*_COHORT, "phase", "metric"),
           "GPU-seconds a week that firing regressions cost; absent while accelerators are "
           "unknown."),
    Family("ett_regressions", Kind.GAUGE, ("state", "verdict"),
           "Findings that are pending or firing."),
    Family("ett_regression_precision_ratio", Kind.GAUGE, (),
           "Share of real findings among those triaged as real or noise in 90 days."),
    Family("ett_regression_detect_seconds", Kind.GAUGE, (),
           "Time from the onset of a regression until it fired; median over 90 days."),
    Family("ett_regression_acknowledge_seconds", Kind.GAUGE, (),
           "Time from firing until a regression was acknowledged or resolved; median over 90 "
           "days."),
    Family("ett_regression_resolve_seconds", Kind.GAUGE, (),
           "Time from firing until a regression was resolved; median over 90 days."),
    Family("ett_regression_sla_breached", Kind.GAUGE, ("sla",),
           "Regressions of 90 days that took longer than the SLA allows, or have by now."),
    Family("ett_detection_last_run_timestamp_seconds", Kind.GAUGE, (),
           "Time of the latest search for regressions, of the project that is furthest behind."),
    Family("ett_detection_duration_seconds", Kind.GAUGE, (),
           "Duration of the latest search over all projects."),
    Family("ett_detection_series", Kind.GAUGE, (), "Series that the latest search covered."),
    Family("ett_webhook_recent_deliveries", Kind.GAUGE, ("receiver", "result"),
           "Deliveries of the last day that were sent, given up (dead) or superseded."),
    Family("ett_webhook_waiting", Kind.GAUGE, ("receiver",),
           "Pending deliveries."),
    Family("ett_webhook_oldest_waiting_timestamp_seconds", Kind.GAUGE, ("receiver",),
           "Creation time of the oldest pending delivery."),
    Family("ett_webhook_disabled_receivers", Kind.GAUGE, (),
           "Receivers that were disabled because they answered 410 Gone."),
    Family("ett_jobs_waiting", Kind.GAUGE, (),
           "Jobs with events that are not aggregated yet."),
    Family("ett_aggregation_watermark_timestamp_seconds", Kind.GAUGE, (),
           "Events received before this time are aggregated."),
    Family("ett_published_timestamp_seconds", Kind.GAUGE, (),
           "Time of the last publication of this page."),
    Family("ett_publish_duration_seconds", Kind.GAUGE, (), "Duration of the last publication."),
    Family("ett_mark_excess_seconds", Kind.GAUGE, (),
           "Wall-clock seconds by which counters exceed the present totals."),
    Family("ett_label_values_folded", Kind.GAUGE, ("label",),
           'Clusters and cohorts that are counted under "other".'),
    Family("ett_db_size_bytes", Kind.GAUGE, (), "Size of the database."),
    Family("ett_db_table_size_bytes", Kind.GAUGE, ("table",),
           "Size of a table with its indexes; of a large SQLite file only all of it."),
    Family("ett_db_prunable_bytes", Kind.GAUGE, (),
           "What pruning would free; of what is never pruned, as if after 90 days. "
           "Unknown of a large SQLite file."),
)  # fmt: skip
"""The state of the fleet, as last published."""

OWN: tuple[Family, ...] = (
    Family("ett_ingest_events_total", Kind.COUNTER, ("source",),
           "Events accepted, without duplicates; import is history.",
           (("events",), ("import",))),
    Family("ett_ingest_events_rejected_total", Kind.COUNTER, ("code",),
           "Events rejected, by error code."),
    Family("ett_ingest_events_duplicate_total", Kind.COUNTER, (),
           "Duplicate events."),
    Family("ett_ingest_sender_drops_total", Kind.COUNTER, ("reason",),
           "Events that senders had to drop, as they report it.",
           (("spool_full",), ("spool_old",), ("memory_full",), ("unreadable",), ("other",))),
    Family("ett_ingest_event_lag_seconds", Kind.HISTOGRAM, (),
           "Time from an event's timestamp to its arrival, without history."),
    Family("ett_ingest_last_event_timestamp_seconds", Kind.GAUGE, (),
           "Time of the last event received, without history; before the first, the process's "
           "start."),
    Family("ett_otlp_spans_total", Kind.COUNTER, ("result",),
           "OpenTelemetry spans received, by whether the mapping names them.",
           (("mapped",), ("unmapped",), ("rejected",))),
    Family("ett_http_requests_total", Kind.COUNTER, ("method", "route", "status"),
           "Requests answered, by route template."),
    Family("ett_http_request_duration_seconds", Kind.HISTOGRAM, ("route",),
           "Time from a request's first byte to its answer's last."),
    Family("ett_http_refused_total", Kind.COUNTER, ("reason",),
           "Requests refused and connections closed to protect the process, by reason."),
    Family("ett_key_requests_total", Kind.COUNTER, ("key", "result"),
           "Requests by the prefix of their key, the first 50 of a process; refused for want of "
           "room, or answered."),
    Family("ett_key_events_total", Kind.COUNTER, ("key",),
           "Events accepted, by the prefix of their key."),
    Family("ett_http_requests_in_flight", Kind.GAUGE, ("work",),
           "Requests that are worked on, by class of work."),
    Family("ett_http_requests_waiting", Kind.GAUGE, ("work",),
           "Requests that wait for a place, by class of work."),
    Family("ett_http_body_bytes", Kind.GAUGE, (),
           "Bytes of request bodies in memory, as they were sent."),
    Family("ett_collector_duration_seconds", Kind.GAUGE, (),
           "Duration of rendering the fleet's part of this page."),
    Family("ett_collector_errors_total", Kind.COUNTER, (),
           "Samples left out of this page; 1 if it was the fleet's whole part."),
    Family("ett_build_info", Kind.INFO, ("version",), "Version of the running build."),
    Family("ett_schema_info", Kind.INFO, ("revision",), "Revision of the database schema."),
)  # fmt: skip
"""Metrics of a process itself; to be summed over replicas."""

OF_THE_LIBRARY: tuple[str, ...] = (
    "process_virtual_memory_bytes", "process_resident_memory_bytes", "process_start_time_seconds",
    "process_cpu_seconds_total", "process_open_fds", "process_max_fds", "python_info",
)  # fmt: skip
"""Metrics of prometheus_client about a process, where the system has them."""


class TextFormat(Enum):
    """A text format; its value is the media type of the page."""

    PLAIN = "text/plain; version=0.0.4; charset=utf-8"
    OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


END = "# EOF\n"
"""The last line in OpenMetrics."""


def head(family: Family, form: TextFormat) -> str:
    """Return the lines above the samples of a family."""
    if form is TextFormat.PLAIN:
        kind = Kind.GAUGE if family.kind is Kind.INFO else family.kind
        text = family.text.translate(_IN_HELP)
        return f"# HELP {family.name} {text}\n# TYPE {family.name} {kind}\n"
    name = family.name.removesuffix("_total").removesuffix("_info")
    unit = name.rpartition("_")[2]
    unit_line = f"# UNIT {name} {unit}\n" if unit in _UNITS else ""
    text = family.text.translate(_QUOTED)
    return f"# HELP {name} {text}\n# TYPE {name} {family.kind}\n{unit_line}"


def labelled(names: Iterable[str], values: Iterable[str]) -> str:
    """Return labels as they follow a name; nothing if there are none.

    Raises:
        UnicodeEncodeError: A value has half of a surrogate pair, which UTF-8 cannot hold.
    """
    pairs = zip(names, values, strict=True)
    inside = ",".join(f'{name}="{value.translate(_QUOTED)}"' for name, value in pairs)
    inside.encode()
    return f"{{{inside}}}" if inside else ""


def number(value: float) -> str:
    """Return a number as text from which the same number is read."""
    if isfinite(value):
        return repr(value)
    return "+Inf" if value == inf else "-Inf" if value == -inf else "NaN"


_OPENMETRICS = "application/openmetrics-text"
_PLAIN = ("text/plain", "text/*", "*/*")
_VERSIONS = {None, "0.0.1", "1.0.0"}
"""Of OpenMetrics. Readers of the draft, 0.0.1, take what became 1.0.0."""


def negotiate(accept: str) -> TextFormat:
    """Return the format that the header ``Accept`` prefers; of two equal ones OpenMetrics.

    OpenMetrics has to be named: a reader that accepts anything gets the plain format.
    """
    weights = {TextFormat.OPENMETRICS: 0.0, TextFormat.PLAIN: 0.0}
    for part in accept.split(","):
        media, *parameters = (word.strip() for word in part.split(";"))
        values = dict(map(_parameter, parameters))
        if media.lower() == _OPENMETRICS and values.get("version") in _VERSIONS:
            form = TextFormat.OPENMETRICS
        elif media.lower() in _PLAIN:
            form = TextFormat.PLAIN
        else:
            continue
        weights[form] = max(weights[form], _weight(values.get("q", "1")))
    best = weights[TextFormat.OPENMETRICS]
    return (
        TextFormat.OPENMETRICS if best and best >= weights[TextFormat.PLAIN] else TextFormat.PLAIN
    )


def _parameter(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name.strip().lower(), value.strip().strip('"')


def _weight(text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        return 0.0
    return 0.0 if isnan(weight) else min(max(weight, 0.0), 1.0)
