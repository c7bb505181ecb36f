"""How the watch over the fleet stands, as the gauges of /metrics."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from statistics import median
from typing import TypeAlias

from sqlalchemy import Connection

from ett_service.core.interval import DAY_US, SECOND_US
from ett_service.core.label import OTHER, label
from ett_service.core.regression_clocks import Clock, Moments, Sla, clocks
from ett_service.storage import watch
from ett_service.storage.label_values import Shown
from ett_service.storage.watch import Deliveries, Firing

Gauges: TypeAlias = dict[str, list[tuple[tuple[str, ...], float]]]

ALL = "all"
"""The label of a dimension that a finding is not limited to."""

PRECISION_DAYS = 90
"""How far back triage and clocks are looked at."""

MOST_RECEIVERS = 50
_HOUR_S = 3600


def regressions(conn: Connection, shown: Shown, sla: Sla, now_us: int) -> Gauges:
    """Return what fires, how long that took to find and to mend, and whether people are told."""
    since_us = now_us - PRECISION_DAYS * DAY_US
    told = watch.counts(conn)
    real, noise = watch.triaged(conn, since_us)
    return {
        **_firing(watch.firing(conn), shown),
        "ett_regressions": [(key, float(count)) for key, count in sorted(told.items())],
        "ett_regression_precision_ratio": [((), real / (real + noise))] if real + noise else [],
        **_timings(watch.clocks(conn, since_us), sla, now_us),
        **_runs(conn),
        **_deliveries(watch.deliveries(conn, now_us - DAY_US), watch.disabled(conn)),
    }


def _firing(found: Iterable[Firing], shown: Shown) -> Gauges:
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


def _cohort(one: Firing, shown: Shown) -> tuple[str, str]:
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
        of_all: list[Clock] = [getattr(one, name) for one in read]
        late = float(sum(one.breached for one in of_all))
        gauges["ett_regression_sla_breached"].append(((name,), late))
        over = [one.us for one in of_all if not one.runs]
        gauges[f"ett_regression_{name}_seconds"] = [((), median(over) / SECOND_US)] if over else []
    return gauges


def _runs(conn: Connection) -> Gauges:
    runs = watch.runs(conn)
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
