"""Panels of the cost of failures: recovery, repeated training, silence."""

from dashboards.build.kit import Format, Kind, Paint, Query
from dashboards.build.prometheus.promql import HOUR_S, clusters, once, quantile, traced
from dashboards.build.prometheus.shared import FleetPanel, fleet_series
from ett_service.core.words import Category

_RECOVERIES = clusters("ett_time_to_recover_seconds_bucket")
_OF_FAILURES = f"{Category.REPEATED_TRAINING}|{Category.STALLED}|{Category.RESTART_WAIT}"
_SPENT = clusters("ett_window_gpu_seconds", 'window="7d"', f'category=~"{_OF_FAILURES}"')

COSTS = (
    fleet_series(
        "GPU-hours around failures, 7 days",
        "Hours of held accelerators in the 7 days before each point: repeated "
        "training, stalled loops, and waits for a restart inside an allocation. More "
        "repeated_training asks for more checkpoints, more stalled for a shorter timeout.",
        Query(f"sum by (category) ({once(_SPENT)}) / {HOUR_S}", "{{category}}"),
        unit="short",
        decimals=0,
        paint=Paint.SERIES,
    ),
    fleet_series(
        "Time to recover, by cluster",
        "From the end of the interrupted training loop to the next one, over the "
        "recoveries after failures in the day before each point.",
        Query(quantile(0.5, _RECOVERIES, "cluster, "), "p50 {{cluster}}"),
        Query(quantile(0.9, _RECOVERIES, "cluster, "), "p90 {{cluster}}"),
        unit="s",
    ),
    FleetPanel(
        title="Time to recover distribution",
        description="Number of recoveries after failures by duration. A band far above the rest is "
        "a kind of failure that is noticed late or restarted by hand. A point is an attempt.",
        kind=Kind.HEATMAP,
        unit="s",
        step="6h",
        queries=(
            Query(
                f"sum by (le) ({traced(_RECOVERIES)})",
                "{{le}}",
                format=Format.HEATMAP,
                exemplars=True,
            ),
        ),
    ),
    fleet_series(
        "Silent attempts",
        "Running attempts without an event for a third of the time after which they "
        "count as lost. Many at once point to a network or a host.",
        Query(f"sum by (cluster) ({once(clusters('ett_attempts_silent'))})", "{{cluster}}"),
        unit="short",
        decimals=0,
    ),
)
