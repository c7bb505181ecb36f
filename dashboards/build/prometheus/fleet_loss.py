"""Panels of the fleet's losses by category."""

from dashboards.build.kit import Format, Kind, Paint, Query, Stack
from dashboards.build.prometheus.promql import (
    INEFFECTIVE,
    WEEK_AGO,
    by_category,
    cohorts,
    dated,
    gpu_hours,
    rate,
)
from dashboards.build.prometheus.shared import FleetPanel
from dashboards.build.prometheus.weeks import LAST_WEEK, THIS_WEEK, TO_MATRIX, WEEK_COLUMN

_ALL = f"sum ({rate(cohorts('ett_phase_weighted_seconds_total'), '7d')})"

LOST_POINTS = FleetPanel(
    title="From 100 % down to ETT, last 7 days",
    description="Points of ETT that each category costs, over all accelerator time of 7 days, "
    "held or waited for; 100 % less all of them is ETT. Begin with the longest bar.",
    kind=Kind.BAR_GAUGE,
    unit="percentunit",
    decimals=2,
    low=0,
    horizontal=True,
    paint=Paint.SERIES,
    queries=(
        Query(
            f"sort_desc(({by_category('7d', effective=False)}) / on () group_left ()\n{_ALL} > 0)",
            "{{category}}",
            instant=True,
        ),
    ),
    width=8,
    height=10,
)
LOST_HOURS = FleetPanel(
    title="GPU-hours lost, last 7 days",
    description="Hours of held accelerators by category, of all cohorts of the clusters, "
    "restated: paid time without effective training.",
    kind=Kind.BAR_GAUGE,
    unit="short",
    decimals=0,
    low=0,
    horizontal=True,
    paint=Paint.SERIES,
    queries=(
        Query(
            f"sort_desc({gpu_hours('7d', INEFFECTIVE)} > 0)",
            "{{category}}",
            instant=True,
        ),
    ),
    width=8,
    height=10,
)
WEEKS = FleetPanel(
    title="GPU time by category, this week and the week before",
    description="Shares of all time of held accelerators, over 7 days each. A share that grew "
    "is what changed; the failures, checkpoints and compilation dashboards say why.",
    kind=Kind.BAR_CHART,
    unit="h",
    stack=Stack.PERCENT,
    paint=Paint.SERIES,
    x_field=WEEK_COLUMN,
    queries=(
        Query(
            f"{dated(THIS_WEEK, gpu_hours('7d'))}\nor\n"
            f"{dated(LAST_WEEK, gpu_hours('7d', ago=WEEK_AGO))}",
            format=Format.TABLE,
            instant=True,
        ),
    ),
    transformations=(TO_MATRIX,),
    width=8,
    height=10,
)
