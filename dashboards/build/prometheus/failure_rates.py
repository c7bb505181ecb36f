"""Panels of failure rates, by cause and origin."""

from dashboards.build.colours import ALARM, BAD, GOOD, QUIET
from dashboards.build.kit import Field, Format, Kind, Query, Stack, Transformation
from dashboards.build.prometheus.promql import (
    HOUR_S,
    WEEK_AGO,
    clusters,
    failures_per_1000_gpu_hours,
    rate,
)
from dashboards.build.prometheus.shared import NO_WEEK_BEFORE, FleetPanel

_FAILURES = clusters("ett_failures_total")
_PREEMPTED = clusters("ett_failures_total", 'origin="preemption"')
_FIRST = clusters("ett_attempts_started_total", 'start="first"')
_RESTARTS = clusters("ett_attempts_started_total", 'start="restart"')
_BY_CAUSE = "origin, cause"
_RECORDED = clusters("cluster:ett_infra_failures_per_gpu_seconds:ratio_rate1d")
_OWNERS = (
    Field(name="infra", colour=ALARM),
    Field(name="user", colour=GOOD),
    Field(name="preemption", colour=BAD),
    Field(name="unknown", colour=QUIET),
)

NOW = (
    FleetPanel(
        title="Failures per 1,000 GPU-hours, last 7 days",
        description="Attempts that failed, were preempted or were lost, per time of held "
        "accelerators. Compare cause by cause with the table below.",
        kind=Kind.STAT,
        unit="short",
        decimals=2,
        queries=(Query(failures_per_1000_gpu_hours("7d"), "failures", instant=True),),
        width=6,
        height=5,
    ),
    FleetPanel(
        title="Infrastructure failures and preemptions, last day",
        description="Failures of origin infra or preemption per 1,000 GPU-hours over the last "
        "day, by cluster: what the platform owns.",
        kind=Kind.STAT,
        unit="short",
        decimals=2,
        queries=(Query(f"{_RECORDED} * {1000 * HOUR_S}", "{{cluster}}", instant=True),),
        named=True,
        width=6,
        height=5,
    ),
    FleetPanel(
        title="Share of preemptions",
        description="Share of preemptions in the failures of the last 7 days. They follow from "
        "the scheduler's rules and are no fault: review priorities, or make restarts cheaper.",
        kind=Kind.STAT,
        unit="percentunit",
        decimals=1,
        queries=(
            Query(
                f"sum ({rate(_PREEMPTED, '7d')})\n/\nsum ({rate(_FAILURES, '7d')})",
                "preempted",
                instant=True,
            ),
        ),
        width=6,
        height=5,
    ),
    FleetPanel(
        title="Restarts per started job",
        description="Restarted attempts over first attempts in the last 7 days.",
        kind=Kind.STAT,
        unit="short",
        decimals=2,
        queries=(
            Query(
                f"sum ({rate(_RESTARTS, '7d')})\n/\nsum ({rate(_FIRST, '7d')})",
                "restarts",
                instant=True,
            ),
        ),
        width=6,
        height=5,
    ),
)

CAUSES = (
    FleetPanel(
        title="Failures per 1,000 GPU-hours, by cause, last 7 days",
        description="Begin with the longest bar; the table names its owner.",
        kind=Kind.BAR_GAUGE,
        unit="short",
        decimals=2,
        low=0,
        horizontal=True,
        queries=(
            Query(
                f"sort_desc(topk(8, {failures_per_1000_gpu_hours('7d', by='cause')}))",
                "{{cause}}",
                instant=True,
            ),
        ),
        width=8,
        height=10,
    ),
    FleetPanel(
        title="Failures by origin",
        description="Shares of the failures of each day by origin: infra and preemption belong "
        "to the platform, user to the owner of the job; unknown needs better evidence.",
        unit="short",
        stack=Stack.PERCENT,
        step="1d",
        queries=(Query(f"sum by (origin) ({rate(_FAILURES)})", "{{origin}}"),),
        fields=_OWNERS,
        width=8,
        height=10,
    ),
    FleetPanel(
        title="Cause by cause, this week and the week before",
        description="Failures per 1,000 GPU-hours over the last 7 days and the 7 days before. "
        "Ask the owner about what grew.",
        kind=Kind.TABLE,
        unit="short",
        decimals=2,
        queries=(
            Query(
                failures_per_1000_gpu_hours("7d", by=_BY_CAUSE),
                format=Format.TABLE,
                instant=True,
            ),
            Query(
                failures_per_1000_gpu_hours("7d", by=_BY_CAUSE, ago=WEEK_AGO),
                format=Format.TABLE,
                instant=True,
                may_be_empty=NO_WEEK_BEFORE,
            ),
        ),
        transformations=(
            Transformation("merge", {}),
            Transformation("organize", {"excludeByName": {"Time": True}}),
        ),
        fields=(
            Field(name="Value #A", title="Last 7 days"),
            Field(name="Value #B", title="7 days before"),
        ),
        sort_by="Last 7 days",
        width=8,
        height=10,
    ),
)
