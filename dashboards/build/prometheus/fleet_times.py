"""Panels of the fleet's starts, recoveries and failures."""

from dashboards.build.kit import Query
from dashboards.build.prometheus.promql import (
    cohorts,
    failures_per_1000_gpu_hours,
    quantile,
)
from dashboards.build.prometheus.shared import NOTHING_FAILED, FleetPanel

_STARTS = cohorts("ett_time_to_start_seconds_bucket")
_RECOVERIES = cohorts("ett_time_to_recover_seconds_bucket")

STARTS = FleetPanel(
    title="Time to start",
    description="From the allocation of hardware to the first training loop, for the jobs that "
    "reached it in the day before each point. If p90 leaves p50 behind, some starts fail first.",
    unit="s",
    low=0,
    queries=(
        Query(quantile(0.5, _STARTS), "p50"),
        Query(quantile(0.9, _STARTS), "p90"),
    ),
    width=8,
)
RECOVERIES = FleetPanel(
    title="Time to recover",
    description="From the end of the interrupted training loop to the next one, over the "
    "recoveries after failures in the day before each point. The failures dashboard says what to "
    "fix.",
    unit="s",
    low=0,
    queries=(
        Query(quantile(0.5, _RECOVERIES), "p50"),
        Query(quantile(0.9, _RECOVERIES), "p90"),
    ),
    width=8,
)
FAILURES = FleetPanel(
    title="Failures per 1,000 GPU-hours, by cause",
    description="Attempts that failed, were preempted or were lost in the day before each "
    "point, per time of held accelerators: of all cohorts of the clusters.",
    unit="short",
    low=0,
    queries=(
        Query(failures_per_1000_gpu_hours("1d"), "all"),
        Query(
            f"{failures_per_1000_gpu_hours('1d', by='cause')}\n> 0",
            "{{cause}}",
            may_be_empty=NOTHING_FAILED,
        ),
    ),
    width=8,
)
