"""What failures cost: time to recover, training done twice, silence before they are noticed."""

from dashboards.build.kit import Format, Kind, Paint, Query
from dashboards.build.prometheus.promql import HOUR_S, clusters, once, quantile, traced
from dashboards.build.prometheus.reading import FleetPanel
from ett_service.core.words import Category

_RECOVERIES = clusters("ett_time_to_recover_seconds_bucket")
_OF_FAILURES = f"{Category.REPEATED_TRAINING}|{Category.STALLED}|{Category.RESTART_WAIT}"
_SPENT = clusters("ett_window_gpu_seconds", 'window="7d"', f'category=~"{_OF_FAILURES}"')

COSTS = (
    FleetPanel(
        title="GPU-hours around failures, 7 days",
        description="Hours of held accelerators in the 7 days before each point: training done "
        "again, loops that stood still, and waits for a restart inside an allocation. More of "
        "repeated_training asks for checkpoints, more of stalled for a shorter timeout.",
        unit="short",
        decimals=0,
        low=0,
        paint=Paint.SERIES,
        queries=(Query(f"sum by (category) ({once(_SPENT)}) / {HOUR_S}", "{{category}}"),),
    ),
    FleetPanel(
        title="Time to recover, by cluster",
        description="From the end of the interrupted loop to the next loop, of the recoveries of "
        "the day before each point.",
        unit="s",
        low=0,
        queries=(
            Query(quantile(0.5, _RECOVERIES, "cluster, "), "p50 {{cluster}}"),
            Query(quantile(0.9, _RECOVERIES, "cluster, "), "p90 {{cluster}}"),
        ),
    ),
    FleetPanel(
        title="Times to recover",
        description="How many recoveries took how long. A band far above the rest is a kind of "
        "failure that is noticed late or restarts by hand. A point is an attempt.",
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
    FleetPanel(
        title="Attempts that fell silent",
        description="Attempts that run, and of which nothing was heard for a third of the time "
        "after which they count as lost. Many at once are a network or a host.",
        unit="short",
        decimals=0,
        low=0,
        queries=(
            Query(f"sum by (cluster) ({once(clusters('ett_attempts_silent'))})", "{{cluster}}"),
        ),
    ),
)
