"""Gauges of the fleet, its regressions and its deliveries, from the rollups and the tables."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import reduce
from operator import add
from statistics import median
from typing import TypeAlias

from sqlalchemy import Connection

from ett_service.core.fleet.measures import PLAIN, WEIGHTED
from ett_service.core.fleet.totals import PHASE, Totals, ratio
from ett_service.core.intervals import DAY_US, SECOND_US
from ett_service.core.regressions.clocks import Moments, Sla, clocks
from ett_service.core.words import OTHER, Category, Owner
from ett_service.fleet.economy import Economy, Part
from ett_service.fleet.scope import Window, window
from ett_service.storage.fleet import rollups
from ett_service.storage.fleet.rollups import CohortFilter
from ett_service.storage.metrics import gauge_values
from ett_service.storage.metrics import labels as counter_labels
from ett_service.storage.metrics.counters import PublishedMetrics, label
from ett_service.storage.metrics.gauge_values import Deliveries, Firing, Running
from ett_service.storage.metrics.labels import CLUSTER, COHORT, ShownLabels
from ett_service.storage.sizes import StoreSize

Samples: TypeAlias = list[tuple[tuple[str, ...], float]]
Gauges: TypeAlias = dict[str, Samples]
"""Samples by the name of the family, each with the values of its labels."""

ALL = "all"
"""The label of a dimension to which a finding is not limited."""

WINDOWS: Mapping[str, int] = {"1d": 1, "7d": 7, "28d": 28}
"""In days, by the value of the label."""

PRECISION_DAYS = 90
"""How far back triage and response times go."""

MOST_JOBS = 200
"""The most running jobs that are shown by name."""

MOST_RECEIVERS = 50
_HOUR_S = 3600
_BASELINE = "28d"
_SILENT_SHARE = 3  #: of ``lost_after``, the part of silence that is worth a look
_P99 = 0.99
_LAST_EVENT = "ett_cohort_last_event_timestamp_seconds"
_COHORT = ("cluster", "model")
_EVERYTHING = CohortFilter()
_TIMES = (
    *PLAIN.categories.values(),
    *WEIGHTED.categories.values(),
    *WEIGHTED.owners.values(),
    "restart_wait_gpu_us",
)

_Adding: TypeAlias = defaultdict[str, Samples]


@dataclass(frozen=True, slots=True)
class GaugeOptions:
    """What gauges are computed with."""

    economy: Economy = field(default_factory=Economy)
    lost_after_us: int = 900 * SECOND_US
    jobs: tuple[str, ...] = ()  #: patterns of the jobs that are shown by name
    sla: Sla = field(default_factory=Sla)


def windows(conn: Connection, shown: ShownLabels, options: GaugeOptions, now_us: int) -> Gauges:
    """Return sums over days: ratios, GPU time, its cost, targets, percentiles."""
    gauges: _Adding = defaultdict(list)
    end_us = window(None, now_us, now_us).to_us
    for name, days in WINDOWS.items():
        span = Window(end_us - days * DAY_US, end_us)
        _add_ratios(gauges, name, conn, span, shown)
        _add_gpu_time(gauges, name, conn, span, shown, options.economy)
        if name == _BASELINE:
            _add_percentiles(gauges, conn, span, shown)
    _add_settings(gauges, options.economy, now_us)
    gauges["ett_db_size_bytes"] = [((), gauge_values.size_bytes(conn))]
    return dict(gauges)


def current(
    conn: Connection,
    shown: ShownLabels,
    options: GaugeOptions,
    now_us: int,
    before: PublishedMetrics,
) -> Gauges:
    """Return what runs now, and the lag of aggregation; *before* is the last publication."""
    jobs = gauge_values.running(conn)
    waiting = gauge_values.waiting(conn)
    watermark_us = now_us if waiting.since_us is None else min(now_us, waiting.since_us)
    markers = gauge_values.latest_markers(conn, now_us)
    folded = counter_labels.folded(conn)
    return {
        **_attempts(jobs, shown, options, now_us, before),
        **regressions(conn, shown, options.sla, now_us),
        _LAST_EVENT: _last_events(jobs, shown, before),
        "ett_job_ratio": _named_jobs(jobs, options.jobs),
        "ett_jobs_waiting": [((), waiting.jobs)],
        "ett_aggregation_watermark_timestamp_seconds": [((), watermark_us / SECOND_US)],
        "ett_published_timestamp_seconds": [((), now_us / SECOND_US)],
        "ett_last_marker_timestamp_seconds": [
            ((kind,), at_us / SECOND_US) for kind, at_us in sorted(markers.items())
        ],
        "ett_label_values_folded": [((kind,), count) for kind, count in sorted(folded.items())],
    }


def sizes(size: StoreSize) -> Gauges:
    """Return the room that tables take, and what pruning would free."""
    freed = size.all_prunable_bytes
    return {
        "ett_db_table_size_bytes": [
            ((name,), float(table_bytes)) for name, table_bytes in sorted(size.tables.items())
        ],
        "ett_db_prunable_bytes": [] if freed is None else [((), float(freed))],
    }


def weights(conn: Connection, now_us: int) -> dict[str, dict[str, float]]:
    """Return the GPU time of clusters and of cohorts over 28 days, by label."""
    end_us = window(None, now_us, now_us).to_us
    span = Window(end_us - WINDOWS[_BASELINE] * DAY_US, end_us)
    by_kind: dict[str, dict[str, float]] = {CLUSTER: {}, COHORT: {}}
    for (_, labels), totals in _totals(conn, span, _COHORT).items():
        for kind, value in zip((CLUSTER, COHORT), map(label, labels), strict=True):
            by_kind[kind][value] = by_kind[kind].get(value, 0.0) + totals.gpu_us
    return by_kind


def regressions(conn: Connection, shown: ShownLabels, sla: Sla, now_us: int) -> Gauges:
    """Return firing regressions, response times, detection runs and deliveries."""
    since_us = now_us - PRECISION_DAYS * DAY_US
    counts = gauge_values.counts(conn)
    real, noise = gauge_values.triaged(conn, since_us)
    return {
        **_firing(gauge_values.firing(conn), shown),
        "ett_regressions": [(key, float(count)) for key, count in sorted(counts.items())],
        "ett_regression_precision_ratio": [((), real / (real + noise))] if real + noise else [],
        **_response_times(gauge_values.clocks(conn, since_us), sla, now_us),
        **_runs(gauge_values.runs(conn)),
        **_deliveries(gauge_values.deliveries(conn, now_us - DAY_US), gauge_values.disabled(conn)),
    }


def _totals(
    conn: Connection, span: Window, group_by: Sequence[str], cuts: Sequence[int] = ()
) -> dict[rollups.RollupPlace, Totals]:
    return rollups.totals(
        conn, _EVERYTHING, span, group_by, measures=_TIMES, tallies=False, cuts=cuts
    )


def _labels(shown: ShownLabels, cluster: str, model: str, other: str) -> tuple[str, str]:
    """Return the labels of a group; the daily cap on cohorts makes both ``other``."""
    return (OTHER, OTHER) if other else shown.of(label(cluster), label(model))


def _add_ratios(
    gauges: _Adding, name: str, conn: Connection, span: Window, shown: ShownLabels
) -> None:
    by_labels: defaultdict[tuple[str, str], Totals] = defaultdict(Totals)
    for (_, group), totals in _totals(conn, span, (*_COHORT, "other")).items():
        by_labels[_labels(shown, *group)] += totals
    for labels, totals in sorted(by_labels.items()):
        for weighting, value, length_us in (
            ("accelerators", totals.ett_ratio, totals.weighted_us),
            ("wall", totals.ett_ratio_wall, totals.e2e_us),
        ):
            if length_us:
                gauges["ett_window_ratio"].append(((*labels, name, weighting), value))
        weighted_s = totals.weighted_us / SECOND_US
        gauges["ett_window_weighted_seconds"].append(((*labels, name), weighted_s))


def _add_gpu_time(
    gauges: _Adding,
    name: str,
    conn: Connection,
    span: Window,
    shown: ShownLabels,
    economy: Economy,
) -> None:
    cuts = economy.cuts(*span)
    starts = (span.from_us, *cuts)
    parts: defaultdict[str, list[Part]] = defaultdict(list)
    for (_, group), totals in _totals(conn, span, ("cluster", "hardware", "other"), cuts).items():
        cluster, hardware, other, *since = group
        at_us = starts[int(since[0])] if since else span.from_us
        parts[_labels(shown, cluster, "", other)[0]].append(Part(hardware, "", at_us, totals))
    for cluster, of_cluster in sorted(parts.items()):
        totals = reduce(add, (part.totals for part in of_cluster))
        cost = economy.cost(of_cluster)
        for category in Category:
            labels = (cluster, name, category.value)
            gpu_s = totals.category_gpu_us(category) / SECOND_US
            gauges["ett_window_gpu_seconds"].append((labels, gpu_s))
            money = cost.by_category[category]
            if money is not None:
                gauges["ett_window_cost"].append(((*labels, economy.currency), money))
        for owner in Owner:
            waited = ((cluster, name, owner.value), totals.wait_weighted_us(owner) / SECOND_US)
            gauges["ett_window_wait_weighted_seconds"].append(waited)


def _add_percentiles(gauges: _Adding, conn: Connection, span: Window, shown: ShownLabels) -> None:
    by_cluster: defaultdict[str, Totals] = defaultdict(Totals)
    distributions = rollups.distributions(conn, _EVERYTHING, span, ("cluster", "other"))
    for (_, (cluster, other)), totals in distributions.items():
        by_cluster[_labels(shown, cluster, "", other)[0]] += totals
    for cluster, totals in sorted(by_cluster.items()):
        for name, tally in sorted(totals.tallies.items()):
            p99_us = tally.quantile(_P99)
            if name.startswith(PHASE) and p99_us is not None:
                phase = name.removeprefix(PHASE)
                gauges["ett_phase_p99_seconds"].append(((cluster, phase), p99_us / SECOND_US))


def _add_settings(gauges: _Adding, economy: Economy, now_us: int) -> None:
    for hardware in sorted({price.hardware for price in economy.prices}):
        price = economy.price(hardware, now_us)
        if price is not None:
            gauges["ett_gpu_hour_price"].append(((label(hardware), economy.currency), float(price)))
    cohorts = sorted({labels[:2] for labels, _ in gauges["ett_window_ratio"]})
    for cluster in sorted({cluster for cluster, _ in cohorts}):
        target = economy.target({"cluster": cluster})
        if target is not None:
            gauges["ett_target_ratio"].append(((cluster,), target))
    for cluster, cohort in cohorts:
        target = economy.target({"cluster": cluster, "model": cohort})
        if target is not None:
            gauges["ett_cohort_target_ratio"].append(((cluster, cohort), target))


def _attempts(
    jobs: Sequence[Running],
    shown: ShownLabels,
    options: GaugeOptions,
    now_us: int,
    before: PublishedMetrics,
) -> Gauges:
    """Count running attempts by cohort, with a 0 for each cohort that was ever counted."""
    running_by = Counter({labels: 0 for labels in before.marks if labels[1]})
    silent_by = running_by.copy()
    since: dict[tuple[str, ...], int] = {}
    silent_before_us = now_us - options.lost_after_us // _SILENT_SHARE
    for job in jobs:
        labels = shown.of(job.cluster, job.cohort)
        running_by[labels] += len(job.heard)
        silent_by[labels] += sum(heard_us < silent_before_us for heard_us in job.heard)
        for phase, at_us in job.open_since.items():
            place = (*labels, phase)
            since[place] = min(at_us, since.get(place, at_us))
    return {
        "ett_attempts_running": [(labels, count) for labels, count in sorted(running_by.items())],
        "ett_attempts_silent": [(labels, count) for labels, count in sorted(silent_by.items())],
        "ett_oldest_open_phase_start_timestamp_seconds": [
            (labels, at_us / SECOND_US) for labels, at_us in sorted(since.items())
        ],
    }


def _last_events(jobs: Sequence[Running], shown: ShownLabels, before: PublishedMetrics) -> Samples:
    """Return the time of the last event by cohort; one that no longer runs keeps its last."""
    latest = {
        (cluster, cohort): at
        for (cluster, cohort), at in before.gauges.get(_LAST_EVENT, ())
        if shown.of(cluster, cohort) == (cluster, cohort)
    }
    for job in jobs:
        labels = shown.of(job.cluster, job.cohort)
        at = job.heard_us / SECOND_US
        latest[labels] = max(at, latest.get(labels, at))
    return sorted(latest.items())


def _named_jobs(jobs: Sequence[Running], patterns: Sequence[str]) -> Samples:
    named = sorted(
        (job for job in jobs if any(fnmatchcase(job.job, pattern) for pattern in patterns)),
        key=lambda job: (job.project, job.job),
    )
    ratios = {
        (label(job.project), label(job.job)): ratio(job.effective_us, job.e2e_us)
        for job in named[:MOST_JOBS]
    }
    return list(ratios.items())


def _firing(firing: Iterable[Firing], shown: ShownLabels) -> Gauges:
    active: Counter[tuple[str, ...]] = Counter()
    lost: defaultdict[tuple[str, ...], float] = defaultdict(float)
    for regression in firing:
        cluster, cohort = (
            label(regression.cohort[name]) if name in regression.cohort else ALL for name in _COHORT
        )
        named = shown.of(cluster, cohort)
        labels = (
            cluster if cluster == ALL else named[0],
            cohort if cohort == ALL else named[1],
            regression.phase,
            regression.metric,
        )
        active[*labels, regression.severity] += 1
        if regression.gpu_hours_per_week is not None:
            lost[labels] += regression.gpu_hours_per_week * _HOUR_S
    return {
        "ett_regression_active": [(key, float(count)) for key, count in sorted(active.items())],
        "ett_regression_lost_gpu_seconds": sorted(lost.items()),
    }


def _response_times(moments: Iterable[Moments], sla: Sla, now_us: int) -> Gauges:
    """Return the medians of what is over, and how many took, or have taken, too long."""
    all_clocks = [clocks(of_regression, sla, now_us) for of_regression in moments]
    gauges: Gauges = {"ett_regression_sla_breached": []}
    for name in ("detect", "acknowledge", "resolve"):
        each = (getattr(of_regression, name) for of_regression in all_clocks)
        times = [time for time in each if time is not None]
        breached = float(sum(time.breached for time in times))
        gauges["ett_regression_sla_breached"].append(((name,), breached))
        over = [time.us for time in times if not time.runs]
        gauges[f"ett_regression_{name}_seconds"] = [((), median(over) / SECOND_US)] if over else []
    return gauges


def _runs(runs: gauge_values.Runs | None) -> Gauges:
    if runs is None:
        return {}
    return {
        "ett_detection_last_run_timestamp_seconds": [((), runs.oldest_us / SECOND_US)],
        "ett_detection_duration_seconds": [((), runs.took_us / SECOND_US)],
        "ett_detection_series": [((), float(runs.series))],
    }


def _deliveries(by_receiver: Sequence[Deliveries], disabled: Sequence[str]) -> Gauges:
    done: Counter[tuple[str, str]] = Counter()
    waiting: Counter[tuple[str, ...]] = Counter()
    oldest: dict[tuple[str, ...], float] = {}
    for place, deliveries in enumerate(by_receiver):
        name = label(deliveries.receiver) if place < MOST_RECEIVERS else OTHER
        for result, count in deliveries.done.items():
            done[name, result] += count
        waiting[name,] += deliveries.waiting
        if deliveries.oldest_us is not None:
            since = deliveries.oldest_us / SECOND_US
            oldest[name,] = min(since, oldest.get((name,), since))
    return {
        "ett_webhook_recent_deliveries": [(key, float(n)) for key, n in sorted(done.items())],
        "ett_webhook_waiting": [(key, float(n)) for key, n in sorted(waiting.items())],
        "ett_webhook_oldest_waiting_timestamp_seconds": sorted(oldest.items()),
        "ett_webhook_disabled_receivers": [((), float(len(disabled)))],
    }
