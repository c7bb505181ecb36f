"""Panels of the time of model families, and of their shares of the fleet."""

from dashboards.build.kit import Field, Format, Kind, Paint, Query, Stack
from dashboards.build.prometheus.promql import (
    RATIO,
    WEEK_AGO,
    WEIGHTED,
    by_category,
    cohorts,
    dated,
    once,
    rate,
    ratio,
)
from dashboards.build.prometheus.shared import (
    NO_TARGET,
    FleetPanel,
    fleet_series,
)
from dashboards.build.prometheus.weeks import LAST_WEEK, THIS_WEEK, TO_MATRIX, WEEK_COLUMN

_BY = " by (cluster, cohort)"
_NAME = "{{cluster}} {{cohort}}"
_TARGET = f"max{_BY} ({once(cohorts('ett_cohort_target_ratio'))})"
_STARTED = "ett_attempts_started_total"

NOW = (
    FleetPanel(
        title="ETT, last 7 days",
        description="Effective training over all accelerator time of the selected model "
        "families in the last 7 days, restated with late events.",
        kind=Kind.STAT,
        unit="percentunit",
        decimals=2,
        queries=(Query(ratio("7d"), "ETT", instant=True),),
        width=8,
        height=5,
    ),
    FleetPanel(
        title="Running attempts",
        description="Of the selected model families, now.",
        kind=Kind.STAT,
        unit="short",
        decimals=0,
        queries=(
            Query(f"sum ({once(cohorts('ett_attempts_running'))})", "attempts", instant=True),
        ),
        width=8,
        height=5,
    ),
    FleetPanel(
        title="Time since the last event",
        description="Time since the last event of any attempt of the selected model families. "
        "Minutes while attempts run mean that trainers cannot reach the service.",
        kind=Kind.STAT,
        unit="s",
        decimals=0,
        queries=(
            Query(
                f"time() - max ({once(cohorts('ett_cohort_last_event_timestamp_seconds'))})",
                "ago",
                instant=True,
            ),
        ),
        width=8,
        height=5,
    ),
)

SPENT = (
    FleetPanel(
        title="ETT",
        description="Over the day before each point. If a step is beside a marker, suspect the "
        "marker first.",
        unit="percentunit",
        high=1,
        queries=(
            Query(cohorts(RATIO), _NAME),
            Query(_TARGET, "target of " + _NAME, may_be_empty=NO_TARGET),
        ),
        width=8,
        height=10,
    ),
    FleetPanel(
        title="Accelerator time by category",
        description="Shares of accelerator time in each interval. Look into the share that "
        "grows where ETT falls.",
        unit="short",
        stack=Stack.PERCENT,
        paint=Paint.SERIES,
        step="6h",
        queries=(Query(by_category(effective=True), "{{category}}"),),
        width=8,
        height=10,
    ),
    FleetPanel(
        title="This week and the week before",
        description=("Shares of accelerator time over 7 days, by category: before and after."),
        kind=Kind.BAR_CHART,
        unit="short",
        stack=Stack.PERCENT,
        paint=Paint.SERIES,
        x_field=WEEK_COLUMN,
        queries=(
            Query(
                f"{dated(THIS_WEEK, by_category('7d', effective=True))}\nor\n"
                f"{dated(LAST_WEEK, by_category('7d', WEEK_AGO, effective=True))}",
                format=Format.TABLE,
                instant=True,
            ),
        ),
        transformations=(TO_MATRIX,),
        width=8,
        height=10,
    ),
)

MIX = (
    FleetPanel(
        title="Share of accelerator time by model family",
        description="Shares of the accelerator time of the selected families, over the day "
        "before each point. When shares move, fleet ETT moves although no family got better or "
        "worse.",
        unit="short",
        stack=Stack.PERCENT,
        step="6h",
        queries=(Query(f"sum{_BY} ({cohorts(WEIGHTED)}) > 0", _NAME),),
    ),
    fleet_series(
        "Attempts started, first and restarted",
        "Attempts a day. More restarts with as many first attempts are failures: see what breaks.",
        Query(f"86400 * sum by (start) ({rate(cohorts(_STARTED))})", "{{start}}"),
        unit="short",
        step="6h",
        fields=(Field(name="first", colour="blue"), Field(name="restart", colour="orange")),
    ),
)
