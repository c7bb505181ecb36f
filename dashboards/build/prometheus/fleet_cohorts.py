"""Panels of model families, running attempts and long open phases."""

from dashboards.build.kit import (
    Field,
    Format,
    Kind,
    Link,
    Query,
    Transformation,
    to_dashboard,
    to_trace,
)
from dashboards.build.prometheus.promql import (
    HOUR_S,
    OPEN_FOR,
    WEEK_AGO,
    clusters,
    cohorts,
    once,
    ratio,
    weight_of,
    whole,
)
from dashboards.build.prometheus.shared import (
    NO_BASELINE,
    NO_WEEK_BEFORE,
    TO_COHORT,
    TO_COHORT_OF_ROW,
    FleetPanel,
    fleet_series,
)
from ett_service.core.words import Phase

_BY = " by (cluster, cohort)"
_RATIO = ratio("7d", _BY)
_HOURS = f"sum{_BY} ({weight_of('7d')}) / {HOUR_S}"
_LOST = f"topk(10, (1 - {_RATIO}) * ({_HOURS}))"
_CHANGE = f"({_RATIO})\n-\n({ratio('7d', _BY, WEEK_AGO)})"
_OPEN = cohorts(OPEN_FOR, f'phase!="{Phase.TRAIN_LOOP}"')
_OPEN_FOR = f"max by (cluster, cohort, phase) ({_OPEN})"
_P99 = f"max by (cluster, phase) ({once(clusters('ett_phase_p99_seconds'))})"


def _only_top(text: str) -> str:
    return f"({text})\nand on (cluster, cohort)\n{_LOST}"


def _in_table(text: str, may_be_empty: str = "") -> Query:
    return Query(text, format=Format.TABLE, instant=True, may_be_empty=may_be_empty)


_MERGED = (
    Transformation("merge", {}),
    Transformation("organize", {"excludeByName": {"Time": True}}),
)

TOP_COHORTS = FleetPanel(
    title="Ten families with the largest loss, last 7 days",
    description="Model families by accelerator-hours that were not effective training. Follow "
    "the link of the first one whose change is below zero.",
    kind=Kind.TABLE,
    unit="short",
    queries=(
        _in_table(_LOST),
        _in_table(_only_top(_HOURS)),
        _in_table(_only_top(_RATIO)),
        _in_table(_only_top(_CHANGE), NO_WEEK_BEFORE),
    ),
    transformations=_MERGED,
    fields=(
        Field(name="Value #A", title="Hours lost", decimals=0),
        Field(name="Value #B", title="Accelerator-hours", decimals=0),
        Field(name="Value #C", title="ETT", unit="percentunit", decimals=2),
        Field(name="Value #D", title="Change of ETT", unit="percentunit", decimals=2),
        Field(name="cohort", links=(TO_COHORT_OF_ROW,)),
    ),
    sort_by="Hours lost",
    width=24,
    height=9,
)
RUNNING = fleet_series(
    "Running attempts",
    "By model family. If a family falls to zero while others run, it was stopped, "
    "or its trainers no longer send events.",
    Query(f"sum{_BY} ({once(cohorts('ett_attempts_running'))})", "{{cluster}} {{cohort}}"),
    unit="short",
    decimals=0,
    links=(TO_COHORT,),
    width=8,
)
STUCK = FleetPanel(
    title="Longest open phases",
    description="How long running attempts have been in a phase other than training, the "
    "longest of each model family, and its ratio to the 99th percentile. Stalled is a training "
    "loop without progress. Ask the owner once the ratio passes 3.",
    kind=Kind.TABLE,
    unit="s",
    queries=(
        _in_table(f"topk(10, {_OPEN_FOR})"),
        _in_table(f"({_OPEN_FOR})\n/ on (cluster, phase) group_left ()\n{_P99}", NO_BASELINE),
    ),
    may_be_empty="Every running attempt is training.",
    transformations=_MERGED,
    fields=(
        Field(name="Value #A", title="Open for"),
        Field(name="Value #B", title="Ratio to p99", unit="short", decimals=1),
        Field(name="cohort", links=(TO_COHORT_OF_ROW,)),
    ),
    sort_by="Open for",
    width=8,
)
NAMED_JOBS = FleetPanel(
    title="Running named jobs",
    description="ETT so far of the running jobs that the setting `metrics.jobs` names. The "
    "trace opens in Perfetto.",
    kind=Kind.TABLE,
    unit="percentunit",
    decimals=2,
    queries=(_in_table(f"max by (project, training_job) ({once(whole('ett_job_ratio'))})"),),
    may_be_empty="The setting `metrics.jobs` is empty, or no such job runs.",
    transformations=_MERGED[1:],
    fields=(
        Field(
            name="training_job",
            title="Job",
            links=(
                Link("Trace", to_trace("__data.fields.project", "__data.fields.training_job")),
                Link(
                    "Where did this run's time go?",
                    to_dashboard(
                        "ett-sql-job",
                        project="__data.fields.project",
                        job="__data.fields.training_job",
                    ),
                ),
            ),
        ),
        Field(name="Value", title="ETT"),
    ),
    sort_by="ETT",
    width=8,
)
