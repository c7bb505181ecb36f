"""Panels of findings, and of the search for them."""

from dashboards.build.colours import ALARM, GOOD
from dashboards.build.kit import Field, Format, Kind, Query, Threshold, Transformation
from dashboards.build.prometheus.promql import HOUR_S, cohorts, once, whole
from dashboards.build.prometheus.shared import (
    ABOVE_ZERO_IS_BAD,
    TO_COHORT,
    TO_COHORT_OF_ROW,
    FleetPanel,
    fleet_series,
)

_ACTIVE = once(cohorts("ett_regression_active"))
_LOST = f"{once(cohorts('ett_regression_lost_gpu_seconds'))} / {HOUR_S}"
_A_DAY_AND_A_BIT_IS_BAD = (Threshold(None, GOOD), Threshold(26 * HOUR_S, ALARM))

FINDINGS = (
    FleetPanel(
        title="Firing regressions",
        description="Regressions that at least two runs in a row have found, and their cost a "
        "week. `all` is a dimension to which a regression is not limited. `ett regressions "
        "explain` shows the evidence.",
        kind=Kind.TABLE,
        unit="short",
        queries=(
            Query(
                f"sum by (cluster, cohort, phase, metric) ({_ACTIVE})",
                format=Format.TABLE,
                instant=True,
            ),
            Query(
                f"sum by (cluster, cohort, phase, metric) ({_LOST})",
                format=Format.TABLE,
                instant=True,
            ),
        ),
        transformations=(
            Transformation("merge", {}),
            Transformation("organize", {"excludeByName": {"Time": True, "Value #A": True}}),
        ),
        fields=(
            Field(name="Value #B", title="GPU-hours a week", decimals=0),
            Field(name="cohort", links=(TO_COHORT_OF_ROW,)),
        ),
        sort_by="GPU-hours a week",
        width=14,
        height=9,
    ),
    fleet_series(
        "Cost of firing regressions",
        "GPU-hours a week, by cohort and phase, while they fire. If one stays for "
        "weeks, fix it, or accept the new level.",
        Query(f"sum by (cluster, cohort, phase) ({_LOST})", "{{cluster}} {{cohort}} {{phase}}"),
        unit="short",
        decimals=0,
        links=(TO_COHORT,),
        width=10,
        height=9,
    ),
    fleet_series(
        "Open findings",
        "Pending findings were found once, and nobody is notified yet. "
        "Improvements, incidents, relabelled time and changes of the job mix are stored, and "
        "never alert.",
        Query(
            f"sum by (state, verdict) ({once(whole('ett_regressions'))})",
            "{{state}} {{verdict}}",
        ),
        unit="short",
        decimals=0,
    ),
    fleet_series(
        "SLA breaches",
        "Regressions of 90 days that took longer to be detected, acknowledged or "
        "resolved than `detection.sla` allows, or have by now.",
        Query(f"max by (sla) ({once(whole('ett_regression_sla_breached'))})", "{{sla}}"),
        unit="short",
        decimals=0,
        thresholds=ABOVE_ZERO_IS_BAD,
    ),
)


def _since(name: str) -> str:
    return f"time() - max ({once(whole(name))})"


SEARCH = (
    FleetPanel(
        title="Time since the last search",
        description="Age of the data of the latest search, for the project that is furthest "
        "behind. Over 26 hours: EttDetectionStalled.",
        kind=Kind.STAT,
        unit="s",
        decimals=0,
        queries=(Query(_since("ett_detection_last_run_timestamp_seconds"), "ago", instant=True),),
        thresholds=_A_DAY_AND_A_BIT_IS_BAD,
        width=6,
        height=5,
    ),
    FleetPanel(
        title="Searched series",
        description="Series of phases, stages, durations, rates and ratios, in every cohort "
        "that has them.",
        kind=Kind.STAT,
        unit="short",
        decimals=0,
        queries=(Query(f"max ({once(whole('ett_detection_series'))})", "series", instant=True),),
        width=6,
        height=5,
    ),
    FleetPanel(
        title="Time to detect, acknowledge, resolve",
        description="Medians over 90 days: from the onset until a regression fired, and from "
        "there until it was acknowledged and until it was resolved.",
        kind=Kind.STAT,
        unit="s",
        decimals=0,
        queries=tuple(
            Query(
                f"max ({once(whole(f'ett_regression_{what}_seconds'))})",
                what,
                instant=True,
                may_be_empty="" if what == "detect" else ("No regression got so far in 90 days."),
            )
            for what in ("detect", "acknowledge", "resolve")
        ),
        named=True,
        width=6,
        height=5,
    ),
    FleetPanel(
        title="Precision (triaged)",
        description="Share of real findings among those triaged as real or noise in 90 days. "
        "Triage with `ett regressions triage`.",
        kind=Kind.STAT,
        unit="percentunit",
        decimals=0,
        queries=(
            Query(f"max ({once(whole('ett_regression_precision_ratio'))})", "real", instant=True),
        ),
        may_be_empty="No finding was triaged as real or noise in 90 days.",
        width=6,
        height=5,
    ),
)
