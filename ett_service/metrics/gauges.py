"""Gauges of the fleet and of its regressions, from the rollups and the tables."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import reduce
from operator import add
from statistics import median
from typing import TypeAlias

from sqlalchemy import Connection

from ett_service.core.fleet.totals import PHASE, PLAIN, WEIGHTED, Totals, ratio
from ett_service.core.intervals import DAY_US, SECOND_US
from ett_service.core.regressions.clocks import Moments, ResponseTime, Sla, clocks
from ett_service.core.words import OTHER, Category, label
from ett_service.fleet.economy import Economy, Part
from ett_service.fleet.scope import Window, window
from ett_service.storage.fleet import rollups
from ett_service.storage.fleet.rollups import CohortFilter
from ett_service.storage.metrics import labels as counter_labels
from ett_service.storage.metrics import running
from ett_service.storage.metrics.counters import PublishedMetrics
from ett_service.storage.metrics.labels import CLUSTER, COHORT, ShownLabels
from ett_service.storage.metrics.running import Running
from ett_service.storage.regressions import status
from ett_service.storage.regressions.status import Deliveries, Firing

Samples: TypeAlias = list[tuple[tuple[str, ...], float]]
Gauges: TypeAlias = dict[str, Samples]
"""Samples by the name of the family, each with the values of its labels."""

ALL = "all"
"""The label of a dimension that a finding is not limited to."""

PRECISION_DAYS = 90
"""How far back triage and clocks are looked at."""

MOST_RECEIVERS = 50
_HOUR_S = 3600


def regressions(conn: Connection, shown: ShownLabels, sla: Sla, now_us: int) -> Gauges:
    """Return what fires, how long that took to find and to mend, and whether people are told."""
    since_us = now_us - PRECISION_DAYS * DAY_US
    told = status.counts(conn)
    real, noise = status.triaged(conn, since_us)
    return {
        **_firing(status.firing(conn), shown),
        "ett_regressions": [(key, float(count)) for key, count in sorted(told.items())],
        "ett_regression_precision_ratio": [((), real / (real + noise))] if real + noise else [],
        **_timings(status.clocks(conn, since_us), sla, now_us),
        **_runs(conn),
        **_deliveries(status.deliveries(conn, now_us - DAY_US), status.disabled(conn)),
    }


def _firing(found: Iterable[Firing], shown: ShownLabels) -> Gauges:
    active: Counter[tuple[str, ...]] = Counter()
    lost: defaultdict[tuple[str, ...], float] = defaultdict(float)
    for one in found:
        labels = (*_cohort(one, shown), one.phase, one.metric)
        active[*labels, one.severity] += 1
        if one.gpu_hours_per_week is not None:
            lost[labels] += one.gpu_hours_per_week * _HOUR_S
    return {
        "ett_regression_active": [(key, float(count)) for key, count in sorted(active.items())],
        "ett_regression_lost_gpu_seconds": sorted(lost.items()),
    }


def _cohort(one: Firing, shown: ShownLabels) -> tuple[str, str]:
    cluster, model = (
        label(one.cohort[name]) if name in one.cohort else ALL for name in ("cluster", "model")
    )
    named = shown.of(cluster, model)
    return (
        cluster if cluster == ALL else named[0],
        model if model == ALL else named[1],
    )


def _timings(found: Iterable[Moments], sla: Sla, now_us: int) -> Gauges:
    """Tell the median of what is over, and how many took, or have taken, too long."""
    read = [clocks(one, sla, now_us) for one in found]
    gauges: Gauges = {"ett_regression_sla_breached": []}
    for name in ("detect", "acknowledge", "resolve"):
        of_all: list[ResponseTime] = [getattr(one, name) for one in read]
        late = float(sum(one.breached for one in of_all))
        gauges["ett_regression_sla_breached"].append(((name,), late))
        over = [one.us for one in of_all if not one.runs]
        gauges[f"ett_regression_{name}_seconds"] = [((), median(over) / SECOND_US)] if over else []
    return gauges


def _runs(conn: Connection) -> Gauges:
    runs = status.runs(conn)
    if runs is None:
        return {}
    return {
        "ett_detection_last_run_timestamp_seconds": [((), runs.oldest_us / SECOND_US)],
        "ett_detection_duration_seconds": [((), runs.took_us / SECOND_US)],
        "ett_detection_series": [((), float(runs.series))],
    }


def _deliveries(found: Sequence[Deliveries], disabled: Iterable[str]) -> Gauges:
    done: Counter[tuple[str, str]] = Counter()
    waiting: Counter[tuple[str, ...]] = Counter()
    oldest: dict[tuple[str, ...], float] = {}
    for place, one in enumerate(found):
        name = label(one.receiver) if place < MOST_RECEIVERS else OTHER
        for result, count in one.done.items():
            done[name, result] += count
        waiting[name,] += one.waiting
        if one.oldest_us is not None:
            since = one.oldest_us / SECOND_US
            oldest[name,] = min(since, oldest.get((name,), since))
    return {
        "ett_webhook_recent_deliveries": [(key, float(n)) for key, n in sorted(done.items())],
        "ett_webhook_waiting": [(key, float(n)) for key, n in sorted(waiting.items())],
        "ett_webhook_oldest_waiting_timestamp_seconds": sorted(oldest.items()),
        "ett_webhook_disabled_receivers": [((), float(len(list(disabled))))],
    }


Adding: TypeAlias = defaultdict[str, Samples]

WINDOWS: Mapping[str, int] = {"1d": 1, "7d": 7, "28d": 28}
"""In days, by the value of the label."""

MOST_JOBS = 200
"""So many running jobs are shown by name at most."""

_BASELINE = "28d"
_SILENT_SHARE = 3  #: of ``lost_after``, the part of silence that is worth a look
_P99 = 0.99
_LAST_SIGN = "ett_cohort_last_event_timestamp_seconds"
_COHORT = ("cluster", "model")
_EVERYTHING = CohortFilter()
_TIMES = (*PLAIN.categories.values(), *WEIGHTED.categories.values(), "restart_wait_gpu_us")


@dataclass(frozen=True, slots=True)
class GaugeOptions:
    """What the gauges are worked out with."""

    economy: Economy = field(default_factory=Economy)
    lost_after_us: int = 900 * SECOND_US
    jobs: tuple[str, ...] = ()  #: patterns of the names of jobs that are shown by name
    sla: Sla = field(default_factory=Sla)


def windows(conn: Connection, shown: ShownLabels, asked: GaugeOptions, now_us: int) -> Gauges:
    """Return what is summed over days: ratios, GPU time, its cost, targets, percentiles."""
    gauges: defaultdict[str, Samples] = defaultdict(list)
    end_us = window(None, now_us, now_us).to_us
    for name, days in WINDOWS.items():
        span = Window(end_us - days * DAY_US, end_us)
        _add_ratios(gauges, name, conn, span, shown)
        _add_gpu_time(gauges, name, conn, span, shown, asked.economy)
        if name == _BASELINE:
            _add_percentiles(gauges, conn, span, shown)
    _add_settings(gauges, asked.economy, now_us)
    gauges["ett_db_size_bytes"] = [((), running.size_bytes(conn))]
    return dict(gauges)


def current(
    conn: Connection, shown: ShownLabels, asked: GaugeOptions, now_us: int, before: PublishedMetrics
) -> Gauges:
    """Return what runs and how far the numbers are; *before* is what was published last."""
    found = running.running(conn)
    waiting = running.waiting(conn)
    watermark_us = now_us if waiting.since_us is None else min(now_us, waiting.since_us)
    markers = running.latest_markers(conn, now_us)
    folded = counter_labels.folded(conn)
    return {
        **_work(found, shown, asked, now_us, before),
        **regressions(conn, shown, asked.sla, now_us),
        _LAST_SIGN: _signs(found, shown, before),
        "ett_job_ratio": _named_jobs(found, asked.jobs),
        "ett_jobs_waiting": [((), waiting.jobs)],
        "ett_aggregation_watermark_timestamp_seconds": [((), watermark_us / SECOND_US)],
        "ett_published_timestamp_seconds": [((), now_us / SECOND_US)],
        "ett_last_marker_timestamp_seconds": [
            ((kind,), at_us / SECOND_US) for kind, at_us in sorted(markers.items())
        ],
        "ett_label_values_folded": [((kind,), count) for kind, count in sorted(folded.items())],
    }


def weights(conn: Connection, now_us: int) -> dict[str, dict[str, float]]:
    """Return the GPU time of clusters and of cohorts over 28 days, by word."""
    end_us = window(None, now_us, now_us).to_us
    span = Window(end_us - WINDOWS[_BASELINE] * DAY_US, end_us)
    found: dict[str, dict[str, float]] = {CLUSTER: {}, COHORT: {}}
    for (_, labels), totals in _totals(conn, span, _COHORT).items():
        for kind, word in zip((CLUSTER, COHORT), map(label, labels), strict=True):
            found[kind][word] = found[kind].get(word, 0.0) + totals.gpu_us
    return found


def _totals(
    conn: Connection, span: Window, group_by: Sequence[str], cuts: Sequence[int] = ()
) -> dict[rollups.Place, Totals]:
    return rollups.totals(
        conn, _EVERYTHING, span, group_by, measures=_TIMES, tallies=False, cuts=cuts
    )


def _named(shown: ShownLabels, cluster: str, model: str, other: str) -> tuple[str, str]:
    """Return the labels of a group; what the cap on cohorts of a day took is told as such."""
    return (OTHER, OTHER) if other else shown.of(label(cluster), label(model))


def _add_ratios(
    gauges: Adding, name: str, conn: Connection, span: Window, shown: ShownLabels
) -> None:
    found: defaultdict[tuple[str, str], Totals] = defaultdict(Totals)
    for (_, labels), totals in _totals(conn, span, (*_COHORT, "other")).items():
        found[_named(shown, *labels)] += totals
    for labels, totals in sorted(found.items()):
        ratios = {"accelerators": totals.ett_ratio, "wall": totals.ett_ratio_wall}
        lengths = {"accelerators": totals.weighted_us, "wall": totals.e2e_us}
        gauges["ett_window_ratio"] += [
            ((*labels, name, weighting), told)
            for weighting, told in ratios.items()
            if lengths[weighting]
        ]
        gauges["ett_window_weighted_seconds"].append(
            ((*labels, name), totals.weighted_us / SECOND_US)
        )


def _add_gpu_time(
    gauges: Adding, name: str, conn: Connection, span: Window, shown: ShownLabels, economy: Economy
) -> None:
    cuts = economy.cuts(*span)
    starts = (span.from_us, *cuts)
    parts: defaultdict[str, list[Part]] = defaultdict(list)
    for (_, labels), totals in _totals(conn, span, ("cluster", "hardware", "other"), cuts).items():
        cluster, hardware, other, *since = labels
        word, _ = _named(shown, cluster, "", other)
        at_us = starts[int(since[0])] if since else span.from_us
        parts[word].append(Part(hardware, "", at_us, totals))
    for cluster, of_cluster in sorted(parts.items()):
        totals = reduce(add, (part.totals for part in of_cluster))
        cost = economy.cost(of_cluster)
        for category in Category:
            gpu_us = totals.category_gpu_us(category)
            gauges["ett_window_gpu_seconds"].append(
                ((cluster, name, category.value), gpu_us / SECOND_US)
            )
            money = cost.by_category[category]
            if money is not None:
                gauges["ett_window_cost"].append(
                    ((cluster, name, category.value, economy.currency), money)
                )


def _add_percentiles(gauges: Adding, conn: Connection, span: Window, shown: ShownLabels) -> None:
    found: defaultdict[str, Totals] = defaultdict(Totals)
    for (_, labels), totals in rollups.distributions(
        conn, _EVERYTHING, span, ("cluster", "other")
    ).items():
        cluster, other = labels
        found[_named(shown, cluster, "", other)[0]] += totals
    for cluster, totals in sorted(found.items()):
        for name, tally in sorted(totals.tallies.items()):
            p99_us = tally.quantile(_P99)
            if name.startswith(PHASE) and p99_us is not None:
                phase = name.removeprefix(PHASE)
                gauges["ett_phase_p99_seconds"].append(((cluster, phase), p99_us / SECOND_US))


def _add_settings(gauges: Adding, economy: Economy, now_us: int) -> None:
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


def _work(
    found: Sequence[Running],
    shown: ShownLabels,
    asked: GaugeOptions,
    now_us: int,
    before: PublishedMetrics,
) -> Gauges:
    """Count what runs by cohort, with a 0 for each that ever counted."""
    running_by = Counter({labels: 0 for labels in before.marks if labels[1]})
    silent_by = running_by.copy()
    since: dict[tuple[str, ...], int] = {}
    loud_us = now_us - asked.lost_after_us // _SILENT_SHARE
    for job in found:
        labels = shown.of(job.cluster, job.cohort)
        running_by[labels] += len(job.heard)
        silent_by[labels] += sum(heard < loud_us for heard in job.heard)
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


def _signs(found: Sequence[Running], shown: ShownLabels, before: PublishedMetrics) -> Samples:
    """Return the last sign by cohort; one of which nothing runs any more keeps the one it had."""
    signs = {
        (cluster, cohort): sign
        for (cluster, cohort), sign in before.gauges.get(_LAST_SIGN, ())
        if shown.of(cluster, cohort) == (cluster, cohort)
    }
    for job in found:
        labels = shown.of(job.cluster, job.cohort)
        sign = job.heard_us / SECOND_US
        signs[labels] = max(sign, signs.get(labels, sign))
    return sorted(signs.items())


def _named_jobs(found: Sequence[Running], patterns: Sequence[str]) -> Samples:
    named = sorted(
        (job for job in found if any(fnmatchcase(job.job, pattern) for pattern in patterns)),
        key=lambda job: (job.project, job.job),
    )
    told = {
        (label(job.project), label(job.job)): ratio(job.effective_us, job.e2e_us)
        for job in named[:MOST_JOBS]
    }
    return list(told.items())
