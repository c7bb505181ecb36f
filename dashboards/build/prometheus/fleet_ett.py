"""Panels of the fleet's ETT: now, against target and the week before, and its trend."""

from dashboards.build.colours import QUIET
from dashboards.build.kit import Field, Kind, Query
from dashboards.build.prometheus.promql import (
    EFFECTIVE,
    HOUR_S,
    INEFFECTIVE,
    RATIO,
    WEEK_AGO,
    WEIGHTED,
    clusters,
    cohorts,
    once,
    ratio,
)
from dashboards.build.prometheus.shared import (
    BELOW_ZERO_IS_BAD,
    NO_PRICE,
    NO_TARGET,
    NO_WEEK_BEFORE,
    TO_COHORT,
    FleetPanel,
)

_WASTE = ('window="7d"', INEFFECTIVE)
_BY_CLUSTER = " by (cluster)"
_TARGET = f"max by (cluster) ({once(clusters('ett_target_ratio'))})"

NOW = (
    FleetPanel(
        title="ETT, last day",
        description="Effective training over all accelerator time of the last 24 hours, "
        "restated with late events. A day is noisy: act on the week.",
        kind=Kind.STAT,
        unit="percentunit",
        decimals=2,
        queries=(Query(ratio("1d"), "ETT", instant=True),),
        width=4,
        height=5,
    ),
    FleetPanel(
        title="ETT, last 7 days",
        description="The headline: effective training over all accelerator time of the last 7 "
        "days, restated with late events.",
        kind=Kind.STAT,
        unit="percentunit",
        decimals=2,
        queries=(Query(ratio("7d"), "ETT", instant=True),),
        width=4,
        height=5,
    ),
    FleetPanel(
        title="Difference to target, last 7 days",
        description="ETT of the last 7 days less the target of each cluster. Below zero, look "
        "at what costs most.",
        kind=Kind.STAT,
        unit="percentunit",
        decimals=2,
        queries=(
            Query(
                f"({ratio('7d', _BY_CLUSTER)})\n- on (cluster)\n{_TARGET}",
                "{{cluster}}",
                instant=True,
            ),
        ),
        may_be_empty=NO_TARGET,
        thresholds=BELOW_ZERO_IS_BAD,
        named=True,
        width=4,
        height=5,
    ),
    FleetPanel(
        title="Change from the week before",
        description="ETT of the last 7 days less that of the 7 days before, as published then. "
        "The table of model families shows which ones moved.",
        kind=Kind.STAT,
        unit="percentunit",
        decimals=2,
        queries=(
            Query(f"({ratio('7d')})\n-\n({ratio('7d', ago=WEEK_AGO)})", "change", instant=True),
        ),
        may_be_empty=NO_WEEK_BEFORE,
        thresholds=BELOW_ZERO_IS_BAD,
        width=4,
        height=5,
    ),
    FleetPanel(
        title="Ineffective GPU-hours, last 7 days",
        description="Hours of held accelerators that were not effective training, of all "
        "cohorts of the clusters: the most there is to gain.",
        kind=Kind.STAT,
        unit="short",
        decimals=0,
        queries=(
            Query(
                f"sum ({once(clusters('ett_window_gpu_seconds', *_WASTE))}) / {HOUR_S}",
                "GPU-hours",
                instant=True,
            ),
        ),
        width=4,
        height=5,
    ),
    FleetPanel(
        title="Cost of ineffective GPU-hours",
        description="Cost of these GPU-hours of the last 7 days at the configured prices; the "
        "label is the currency.",
        kind=Kind.STAT,
        unit="short",
        decimals=0,
        queries=(
            Query(
                f"sum by (currency) ({once(clusters('ett_window_cost', *_WASTE))})",
                "{{currency}}",
                instant=True,
            ),
        ),
        may_be_empty=NO_PRICE,
        named=True,
        width=4,
        height=5,
    ),
)

TREND = (
    FleetPanel(
        title="ETT of the fleet and spread of its model families",
        description="Over the day before each point. The line is the fleet; a tenth of the "
        "model families is below the band and a tenth above. A falling line in a steady band is "
        "a change of mix: see the shares on the cohort dashboard.",
        unit="percentunit",
        high=1,
        queries=(
            Query(f"sum ({cohorts(EFFECTIVE)})\n/\n(sum ({cohorts(WEIGHTED)}) > 0)", "fleet"),
            Query(f"quantile (0.9, {cohorts(RATIO)})", "p90 of families"),
            Query(f"quantile (0.1, {cohorts(RATIO)})", "p10 of families"),
            Query(f"avg ({_TARGET})", "target", may_be_empty=NO_TARGET),
        ),
        fields=(
            Field(name="p90 of families", colour=QUIET, fill_down_to="p10 of families"),
            Field(name="p10 of families", colour=QUIET),
            Field(name="target", colour=QUIET, dashed=True),
        ),
        width=12,
    ),
    FleetPanel(
        title="ETT by model family",
        description="Over the day before each point. Find the family that fell, and follow its "
        "link.",
        unit="percentunit",
        high=1,
        queries=(Query(cohorts(RATIO), "{{cluster}} {{cohort}}"),),
        links=(TO_COHORT,),
        width=12,
    ),
)
