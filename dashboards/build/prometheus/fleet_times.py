"""Panels of the fleet's starts, recoveries and failures."""

from dashboards.build.kit import Query
from dashboards.build.prometheus.promql import (
    cohorts,
    failures_per_1000_gpu_hours,
    quantile,
)
from dashboards.build.prometheus.shared import NOTHING_FAILED, fleet_series

_STARTS = cohorts("ett_time_to_start_seconds_bucket")
_RECOVERIES = cohorts("ett_time_to_recover_seconds_bucket")

STARTS = fleet_series(
    "Time to start",
    "From the allocation of hardware to the first training loop, for the jobs that "
    "reached it in the day before each point. If p90 leaves p50 behind, some starts fail first.",
    Query(quantile(0.5, _STARTS), "p50"),
    Query(quantile(0.9, _STARTS), "p90"),
    unit="s",
    width=8,
)
RECOVERIES = fleet_series(
    "Time to recover",
    "From the end of the interrupted training loop to the next one, over the "
    "recoveries after failures in the day before each point. The failures dashboard says what to "
    "fix.",
    Query(quantile(0.5, _RECOVERIES), "p50"),
    Query(quantile(0.9, _RECOVERIES), "p90"),
    unit="s",
    width=8,
)
FAILURES = fleet_series(
    "Failures per 1,000 GPU-hours, by cause",
    "Attempts that failed, were preempted or were lost in the day before each "
    "point, per time of held accelerators: of all cohorts of the clusters.",
    Query(failures_per_1000_gpu_hours("1d"), "all"),
    Query(
        f"{failures_per_1000_gpu_hours('1d', by='cause')}\n> 0",
        "{{cause}}",
        may_be_empty=NOTHING_FAILED,
    ),
    unit="short",
    width=8,
)
