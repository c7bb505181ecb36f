"""The dashboard of PT2 compilation."""

from dashboards.build.kit import (
    Dashboard,
    Format,
    Kind,
    Link,
    Paint,
    Query,
    Row,
    Source,
    ett_url,
    to_page,
)
from dashboards.build.prometheus.promql import (
    HOUR_S,
    clusters,
    cohorts,
    grown,
    once,
    quantile,
    rate,
)
from dashboards.build.prometheus.shared import (
    MARKERS,
    NO_PRICE,
    OF_COHORTS,
    TO_COHORT,
    TO_JOBS,
    FleetPanel,
    fleet_series,
)
from ett_service.core.words import Category, Phase

_COMPILE = f'phase="{Phase.PT2_COMPILE}"'
_CATEGORIES = f'category=~"{Category.PT2_COMPILE}|{Category.RECOMPILE}"'
_RECOMPILE = f'category="{Category.RECOMPILE}"'
_ALL = cohorts("ett_phase_weighted_seconds_total")
_COMPILES = cohorts("ett_phase_weighted_seconds_total", _COMPILE)
_BY = "cluster, cohort"
_NAME = "{{cluster}} {{cohort}}"
_DURATIONS = clusters("ett_phase_duration_seconds_bucket", _COMPILE)
_GPU_TIME = once(clusters("ett_window_gpu_seconds", 'window="7d"', _CATEGORIES))
_HELD = once(clusters("ett_window_gpu_seconds", 'window="7d"'))
_COST = once(clusters("ett_window_cost", 'window="7d"', _CATEGORIES))
_RATE1D = "cluster_phase:ett_phase_weighted_seconds:rate1d"


def _for_each(part: str, whole: str, window: str) -> str:
    parts = (rate(selector, window) for selector in (part, whole))
    over, under = (f"sum by ({_BY}) ({text})" for text in parts)
    return f"{over}\n/\n({under} > 0)"


_NOW = (
    FleetPanel(
        title="GPU-hours compiling, last 7 days",
        description="Hours of held accelerators in compilation before the first progress, and "
        "in recompilation after it, of all cohorts of the clusters.",
        kind=Kind.STAT,
        unit="short",
        decimals=0,
        paint=Paint.SERIES,
        queries=(
            Query(f"sum by (category) ({_GPU_TIME}) / {HOUR_S}", "{{category}}", instant=True),
        ),
        named=True,
        width=8,
        height=5,
    ),
    FleetPanel(
        title="Share of GPU time",
        description=("Share of compilation in the time of held accelerators over the last 7 days."),
        kind=Kind.STAT,
        unit="percentunit",
        decimals=2,
        queries=(Query(f"sum ({_GPU_TIME})\n/\nsum ({_HELD})", "compile", instant=True),),
        width=8,
        height=5,
    ),
    FleetPanel(
        title="Cost, last 7 days",
        description="Cost of these GPU-hours at the configured prices; the label is the currency.",
        kind=Kind.STAT,
        unit="short",
        decimals=0,
        queries=(Query(f"sum by (currency) ({_COST})", "{{currency}}", instant=True),),
        may_be_empty=NO_PRICE,
        named=True,
        width=8,
        height=5,
    ),
)
_LONG = (
    fleet_series(
        "Compile time of an attempt",
        "Time that attempts spent in PT2 compilation before their first training "
        "loop, in the day before each point. If p50 doubles, everybody misses the cache.",
        *tuple(
            Query(quantile(q, _DURATIONS, "cluster, "), f"p{q * 100:g} {{{{cluster}}}}")
            for q in (0.5, 0.9)
        ),
        unit="s",
    ),
    FleetPanel(
        title="Compile time distribution",
        description=("Number of attempts by compile time. Two bands are cache hits and misses."),
        kind=Kind.HEATMAP,
        unit="s",
        step="6h",
        queries=(
            Query(
                f"sum by (le) ({grown(_DURATIONS)})",
                "{{le}}",
                format=Format.HEATMAP,
            ),
        ),
    ),
    fleet_series(
        "Compile time per attempt, by model family",
        "Seconds of compilation over attempts started, in the day before each "
        "point. The family whose line jumped changed its model, its shapes or its versions.",
        Query(
            _for_each(
                cohorts("ett_phase_seconds_total", _COMPILE),
                cohorts("ett_attempts_started_total"),
                "1d",
            ),
            _NAME,
        ),
        unit="s",
        links=(TO_COHORT,),
    ),
    fleet_series(
        "Compile time, p99",
        "99th percentile of compile time over the attempts of 28 days, by cluster. "
        "EttPhaseStuck fires at three times that.",
        Query(
            f"max by (cluster) ({once(clusters('ett_phase_p99_seconds', _COMPILE))})",
            "p99 {{cluster}}",
        ),
        unit="s",
    ),
)
_WHERE = (
    fleet_series(
        "Share of accelerator time, by cluster",
        "Share of compilation in all accelerator time over the day before each point.",
        Query(
            f"sum by (cluster) ({clusters(_RATE1D, _COMPILE)})\n/\n"
            f"(sum by (cluster) ({clusters(_RATE1D)}) > 0)",
            "{{cluster}}",
        ),
        unit="percentunit",
        width=8,
    ),
    FleetPanel(
        title="Ten families with the most compilation, last 7 days",
        description="Share of compilation in the accelerator time of each model family over the "
        "last 7 days. Short jobs that restart often gain most from a shared cache.",
        kind=Kind.BAR_GAUGE,
        unit="percentunit",
        decimals=2,
        low=0,
        horizontal=True,
        queries=(
            Query(f"sort_desc(topk(10, {_for_each(_COMPILES, _ALL, '7d')}))", _NAME, instant=True),
        ),
        links=(TO_COHORT,),
        width=8,
    ),
    fleet_series(
        "Recompiles, by model family",
        "Share of recompilation in the accelerator time over the 7 days before each "
        "point: compilation after the first progress, as new shapes trigger it. Mark dynamic "
        "shapes, or pad.",
        Query(
            _for_each(cohorts("ett_deducted_weighted_seconds_total", _RECOMPILE), _ALL, "7d"),
            _NAME,
        ),
        unit="percentunit",
        links=(TO_COHORT,),
        width=8,
    ),
)

COMPILE = Dashboard(
    uid="ett-compile",
    title="What does PT2 compile cost?",
    description="How much accelerator time compilation takes, how long it lasts, and which "
    "model families to look at. Stages of a compilation, and first against restarted attempts, "
    "are in the database.",
    source=Source.PROMETHEUS,
    variables=(*OF_COHORTS, ett_url()),
    annotations=(MARKERS,),
    links=(TO_JOBS, Link("Jobs that compile most", to_page("/?category=pt2_compile#jobs"))),
    rows=(
        Row("What does it cost?", _NOW),
        Row("How long does it take?", _LONG),
        Row("Where to look first?", _WHERE),
    ),
)
