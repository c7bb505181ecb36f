"""What was found to be worse than before, and how well it is looked for."""

from dashboards.build.colours import ALARM, GOOD
from dashboards.build.kit import Field, Format, Kind, Query, Threshold, Transformation
from dashboards.build.prometheus.promql import HOUR_S, cohorts, once, whole
from dashboards.build.prometheus.reading import (
    ABOVE_ZERO_IS_BAD,
    TO_COHORT,
    TO_COHORT_OF_ROW,
    FleetPanel,
)

_ACTIVE = once(cohorts("ett_regression_active"))
_LOST = f"{once(cohorts('ett_regression_lost_gpu_seconds'))} / {HOUR_S}"
_A_DAY_AND_A_BIT_IS_BAD = (Threshold(None, GOOD), Threshold(26 * HOUR_S, ALARM))

FOUND = (
    FleetPanel(
        title="What fires",
        description="Regressions that at least two runs in a row have found, and what they cost a "
        "week. `all` is a dimension that one is not limited to. `ett regressions explain` tells "
        "what each rests on.",
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
    FleetPanel(
        title="GPU-hours a week that regressions cost",
        description="By cohort and phase, while they fire. One that stays for weeks is being lived "
        "with: mend it, or accept the new level.",
        unit="short",
        decimals=0,
        low=0,
        queries=(
            Query(f"sum by (cluster, cohort, phase) ({_LOST})", "{{cluster}} {{cohort}} {{phase}}"),
        ),
        links=(TO_COHORT,),
        width=10,
        height=9,
    ),
    FleetPanel(
        title="Findings that are open",
        description="Pending ones were found once, and nobody is told of them yet. Improvements, "
        "incidents, relabelled time and changes of the mix of jobs are kept, and never alert.",
        unit="short",
        decimals=0,
        low=0,
        queries=(
            Query(
                f"sum by (state, verdict) ({once(whole('ett_regressions'))})",
                "{{state}} {{verdict}}",
            ),
        ),
    ),
    FleetPanel(
        title="Beyond what was promised",
        description="Regressions of 90 days that took longer to find, to acknowledge or to resolve "
        "than `detection.sla` asks for, or have by now.",
        unit="short",
        decimals=0,
        low=0,
        queries=(Query(f"max by (sla) ({once(whole('ett_regression_sla_breached'))})", "{{sla}}"),),
        thresholds=ABOVE_ZERO_IS_BAD,
    ),
)


def _since(name: str) -> str:
    return f"time() - max ({once(whole(name))})"


SEARCH = (
    FleetPanel(
        title="Since the last search",
        description="Age of what the latest search knew, of the project that is furthest behind. "
        "Over 26 hours: EttDetectionStalled.",
        kind=Kind.STAT,
        unit="s",
        decimals=0,
        queries=(Query(_since("ett_detection_last_run_timestamp_seconds"), "ago", instant=True),),
        thresholds=_A_DAY_AND_A_BIT_IS_BAD,
        width=6,
        height=5,
    ),
    FleetPanel(
        title="Series looked at",
        description="Phases, stages, times, rates and ratios, each in every cohort that has them, "
        "and the time that all of it took.",
        kind=Kind.STAT,
        unit="short",
        decimals=0,
        queries=(Query(f"max ({once(whole('ett_detection_series'))})", "series", instant=True),),
        width=6,
        height=5,
    ),
    FleetPanel(
        title="Time to find, to acknowledge, to resolve",
        description="Medians over 90 days: from the onset until it fired, and from there until "
        "somebody took it on and until it was gone.",
        kind=Kind.STAT,
        unit="s",
        decimals=0,
        queries=tuple(
            Query(
                f"max ({once(whole(f'ett_regression_{what}_seconds'))})",
                what,
                instant=True,
                may_be_empty="" if what == "detect" else "Nothing got so far in 90 days.",
            )
            for what in ("detect", "acknowledge", "resolve")
        ),
        named=True,
        width=6,
        height=5,
    ),
    FleetPanel(
        title="Found, and real",
        description="Of the findings that people called real or noise in 90 days, the real ones. "
        "Nothing here: nobody said so yet, with `ett regressions triage`.",
        kind=Kind.STAT,
        unit="percentunit",
        decimals=0,
        queries=(
            Query(f"max ({once(whole('ett_regression_precision_ratio'))})", "real", instant=True),
        ),
        may_be_empty="Nobody called a finding real or noise in 90 days.",
        width=6,
        height=5,
    ),
)
