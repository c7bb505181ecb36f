"""The dashboard of markers and regressions."""

from dashboards.build.kit import (
    Dashboard,
    Field,
    Link,
    Panel,
    Query,
    Row,
    Source,
    Stack,
    Variable,
    VariableKind,
    to_page,
)
from dashboards.build.postgres.shared import (
    DATASOURCE,
    ETT_URL,
    MARKERS,
    PROJECT,
    REGRESSIONS,
    daily,
    instant,
    number,
    ratio,
    seconds,
    table,
    text,
)
from dashboards.build.sql import changes
from ett_service.core.events import MarkerKind

_KIND = Variable(
    name="kind",
    label="Kind",
    description="Kinds of markers to show.",
    query=",".join(MarkerKind),
    kind=VariableKind.CHOICE,
    several=True,
)
_REACH = Variable(
    name="reach",
    label="Days before and after",
    description=("Days on each side of a marker, unless another marker of its kind is nearer."),
    query="14,28,7,3,1",
    kind=VariableKind.CHOICE,
)
_CAUTION = "Other things change at the same time: a difference is associated, not caused."
_QUIET_FLEET = "No marker was posted."

_LEDGER = Row(
    "Marker by marker",
    (
        table(
            "Before and after",
            "Each marker with ETT (by accelerators, full hours), mean time to start "
            f"and mean checkpoint blocking on both sides. {_CAUTION}",
            changes.EFFECTS,
            may_be_empty=_QUIET_FLEET,
            height=12,
            fields=(
                instant("at", "at (UTC)"),
                Field(name="title", unit="none", width=260),
                ratio("ett_ratio_before", "ETT before"),
                ratio("ett_ratio_after", "after"),
                ratio("ett_difference", "ETT difference"),
                seconds("time_to_start_before", "start before"),
                seconds("time_to_start_after", "start after"),
                seconds("time_to_start_difference", "start difference"),
                seconds("blocking_before", "blocking before"),
                seconds("blocking_after", "blocking after"),
                seconds("blocking_difference", "blocking difference"),
                number("starts_before", "jobs before", 0),
                number("starts_after", "jobs after", 0),
                number("saving_before", "saving attempts before", 0),
                number("saving_after", "saving attempts after", 0),
            ),
        ),
    ),
)

_FINDINGS = Row(
    "Findings of the search",
    (
        table(
            "Lasting changes",
            "Findings of the daily search in the range, including improvements and "
            "findings that never alert; medians are seconds, rates or ratios, as the metric's "
            f"name says. `ett regressions explain ID` shows the evidence. {_CAUTION}",
            changes.REGRESSIONS,
            fields=(
                instant("time", "since (UTC)"),
                *(
                    text(name, name)
                    for name in ("verdict", "state", "severity", "metric", "phase", "stage")
                ),
                text("cause", "cause"),
                text("cohort", "cohort"),
                number("before_median", "before", 2),
                number("after_median", "after", 2),
                ratio("change", "change"),
                number("gpu_hours_per_week", "GPU-hours a week", 0),
                number("ett_points", "ETT points", 2),
                text("associated_with", "associated with"),
                text("project", "project"),
                text("id", "id"),
            ),
        ),
    ),
)

_TOGETHER = Row(
    "All together",
    (
        table(
            "Time to start, deploy by deploy",
            "Change of the mean time to start at each deploy or launch, and since "
            f"the beginning of the range; the steps add up to that. {_CAUTION}",
            changes.WATERFALL,
            unit="s",
            fields=(
                instant("time", "from (UTC)"),
                Field(name="title", unit="none", width=260),
                number("starts", "jobs started", 0),
                seconds("time_to_start", "mean time to start"),
                seconds("step", "step"),
                seconds("since_the_first", "since the first"),
            ),
        ),
        Panel(
            title="Cumulative effect",
            description="The same over time: the change since the beginning of the range.",
            queries=(Query(changes.CUMULATIVE),),
            unit="s",
            fields=(seconds("since_the_first", "mean time to start"),),
        ),
        daily(
            "ETT by day",
            "Weighted by accelerators. Vertical lines are markers.",
            changes.ETT_BY_DAY,
            unit="percentunit",
            high=1,
            fields=(ratio("ett_ratio", "ETT"),),
        ),
        daily(
            "Time to start by day",
            "For the jobs that started on a day: mean, which outliers move, and median.",
            changes.STARTS_BY_DAY,
            unit="s",
            stack=Stack.NONE,
        ),
        daily(
            "Checkpoint blocking by day",
            "How long a checkpoint blocked the training loop: mean and p90.",
            changes.SAVES_BY_DAY,
            unit="s",
        ),
    ),
)

CHANGES = Dashboard(
    uid="ett-sql-changes",
    title="What did each deploy change?",
    description="Markers with the values before and after them, as in the API's change ledger, "
    "which also has confidence intervals: `ett changes`.",
    source=Source.POSTGRES,
    variables=(DATASOURCE, ETT_URL, PROJECT, _KIND, _REACH),
    annotations=(MARKERS, REGRESSIONS),
    links=(Link("Page of the changes", to_page("/changes")),),
    rows=(_FINDINGS, _LEDGER, _TOGETHER),
    since="now-60d",
)
