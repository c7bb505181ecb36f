"""How the fleet stands, as the gauges of /metrics: windows restated from the rollups, and now.

Windows end with the current hour, as those of the API do; ratios are of sums, divided once.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import reduce
from operator import add
from typing import TypeAlias

from sqlalchemy import Connection

from ett_service.analysis.economy import Economy, Part
from ett_service.analysis.standing_regressions import regressions
from ett_service.analysis.window import Window, window
from ett_service.core.interval import DAY_US, SECOND_US
from ett_service.core.label import OTHER, label
from ett_service.core.regression_clocks import Sla
from ett_service.core.totals import PHASE, PLAIN, WEIGHTED, Totals, ratio
from ett_service.core.vocabulary import Category
from ett_service.storage import label_values, rollups, running
from ett_service.storage.label_values import CLUSTER, COHORT, Shown
from ett_service.storage.published import Published
from ett_service.storage.rollups import CohortFilter
from ett_service.storage.running import Running

Samples: TypeAlias = list[tuple[tuple[str, ...], float]]
Gauges: TypeAlias = dict[str, Samples]
"""Samples by the name of the family, each with the values of its labels."""

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
class Asked:
    """What the gauges are worked out with."""

    economy: Economy = field(default_factory=Economy)
    lost_after_us: int = 900 * SECOND_US
    jobs: tuple[str, ...] = ()  #: patterns of the names of jobs that are shown by name
    sla: Sla = field(default_factory=Sla)


def windows(conn: Connection, shown: Shown, asked: Asked, now_us: int) -> Gauges:
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


def current(conn: Connection, shown: Shown, asked: Asked, now_us: int, before: Published) -> Gauges:
    """Return what runs and how far the numbers are; *before* is what was published last."""
    found = running.running(conn)
    waiting = running.waiting(conn)
    watermark_us = now_us if waiting.since_us is None else min(now_us, waiting.since_us)
    markers = running.latest_markers(conn, now_us)
    folded = label_values.folded(conn)
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


def _named(shown: Shown, cluster: str, model: str, other: str) -> tuple[str, str]:
    """Return the labels of a group; what the cap on cohorts of a day took is told as such."""
    return (OTHER, OTHER) if other else shown.of(label(cluster), label(model))


def _add_ratios(gauges: Adding, name: str, conn: Connection, span: Window, shown: Shown) -> None:
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
    gauges: Adding, name: str, conn: Connection, span: Window, shown: Shown, economy: Economy
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


def _add_percentiles(gauges: Adding, conn: Connection, span: Window, shown: Shown) -> None:
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
    found: Sequence[Running], shown: Shown, asked: Asked, now_us: int, before: Published
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


def _signs(found: Sequence[Running], shown: Shown, before: Published) -> Samples:
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
