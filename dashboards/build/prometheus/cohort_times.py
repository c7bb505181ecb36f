"""Panels of the starts and recoveries of model families."""

from dashboards.build.kit import Format, Kind, Panel, Query
from dashboards.build.prometheus.promql import WEEK_AGO, cohorts, grown, quantile, rate, traced
from dashboards.build.prometheus.shared import NO_WEEK_BEFORE, FleetPanel, fleet_series
from ett_service.core.words import Phase

_NAME = "{{cluster}} {{cohort}}"
_STARTS = cohorts("ett_time_to_start_seconds_bucket")
_RECOVERIES = cohorts("ett_time_to_recover_seconds_bucket")
_RECORDED = "cluster_cohort:ett_time_to_start_seconds:{}_1d"


def _per_attempt(phase: Phase, what: str) -> Panel:
    spent = rate(cohorts("ett_phase_seconds_total", f'phase="{phase}"'), "1d")
    started = rate(cohorts("ett_attempts_started_total"), "1d")
    return fleet_series(
        f"{phase} for each attempt",
        f"Seconds of {phase} over attempts started, in the day before each point. " + what,
        Query(
            f"sum by (cluster, cohort) ({spent})\n/\n(sum by (cluster, cohort) ({started}) > 0)",
            _NAME,
        ),
        unit="s",
        width=6,
        height=7,
    )


def _distribution(title: str, description: str, ago: str = "", may_be_empty: str = "") -> Panel:
    return FleetPanel(
        title=title,
        description=description,
        kind=Kind.BAR_GAUGE,
        unit="short",
        decimals=0,
        low=0,
        queries=(
            Query(
                f"sum by (le) ({grown(_STARTS, '7d', ago)})",
                "{{le}}",
                format=Format.HEATMAP,
                instant=True,
            ),
        ),
        may_be_empty=may_be_empty,
    )


START_ROW = (
    _per_attempt(Phase.SCHEDULING, "It grows with a cluster that is full, or requests that fit "
                 "nowhere."),
    _per_attempt(Phase.HARDWARE_SETUP, "It grows with images, mounts and health checks of nodes."),
    _per_attempt(Phase.LAUNCHER_INIT, "It grows with imports, process groups and the restore of "
                 "checkpoints."),
    _per_attempt(Phase.PT2_COMPILE, "It grows when the compile cache misses."),
    fleet_series(
"Time to start",
"From the allocation of hardware to the first training loop, over the day "
"before each point, by model family.",
*tuple(
            Query(cohorts(_RECORDED.format(q)), f"{q} {_NAME}") for q in ("p50", "p90")
        ),
unit="s",
),
    FleetPanel(
        title="Time to start distribution",
        description=(
"Number of starts by duration. A second band is a second kind of start, such as "
"one that failed first or missed the cache. A point is an attempt."
),
        kind=Kind.HEATMAP,
        unit="s",
        step="6h",
        queries=(
            Query(
                f"sum by (le) ({traced(_STARTS)})",
                "{{le}}",
                format=Format.HEATMAP,
                exemplars=True,
            ),
        ),
    ),
    _distribution(
        "Time to start distribution, last 7 days",
        (
"Starts of the last 7 days by duration; each bar is labelled with its upper "
"bound in seconds."
),
    ),
    _distribution(
        "Time to start distribution, the 7 days before",
        "The same for the 7 days before: compare the shapes.",
        WEEK_AGO,
        NO_WEEK_BEFORE,
    ),
)  # fmt: skip

RECOVERY_ROW = (
    fleet_series(
        "Time to recover",
        "From the end of the interrupted training loop to the next one, over the "
        "recoveries after failures in the day before each point, all selected families together.",
        Query(quantile(0.5, _RECOVERIES), "p50"),
        Query(quantile(0.9, _RECOVERIES), "p90"),
        unit="s",
    ),
    fleet_series(
        "Time to recover, p90 by model family",
        "90th percentile over the recoveries after failures in the day before each point.",
        Query(quantile(0.9, _RECOVERIES, "cluster, cohort, "), _NAME),
        unit="s",
    ),
)
