"""The dashboard of the fleet, from the database."""

from dashboards.build.kit import (
    Dashboard,
    Field,
    Format,
    Kind,
    Paint,
    Panel,
    Query,
    Row,
    Source,
    Stack,
    Variable,
    VariableKind,
)
from dashboards.build.postgres.shared import (
    DATASOURCE,
    ETT_URL,
    FLEET_DIMENSIONS,
    MARKERS,
    REGRESSIONS,
    TRACE_LINK,
    hidden,
    job_link,
    number,
    ratio,
    seconds,
    text,
)
from dashboards.build.sql import fleet

_BY = Variable(
    name="by",
    label="Split by",
    description="The dimension by which the fleet is split.",
    query=fleet.BY,
    kind=VariableKind.CHOICE,
)


def _table(query: str) -> tuple[Query, ...]:
    return (Query(query, format=Format.TABLE),)


def _trend(query: str) -> tuple[Query, ...]:
    return (Query(query),)


_HEADLINE = Row(
    "Overview",
    (
        Panel(
            title="ETT",
            description="Effective training / all time, each times accelerators, of the range "
            "widened to full hours. Excluded time is left out, as are jobs of unknown size.",
            queries=_table(fleet.ETT_NOW),
            unit="percentunit",
            decimals=2,
            kind=Kind.STAT,
            width=4,
            height=5,
            low=0,
            high=1,
        ),
        Panel(
            title="GPU-hours, held and lost",
            description="Accelerator time that was held, and the part of it without effective "
            "training. Waiting for accelerators holds none.",
            queries=_table(fleet.PAID),
            unit="short",
            kind=Kind.STAT,
            named=True,
            width=7,
            height=5,
            fields=(number("gpu_hours", "held"), number("lost_gpu_hours", "lost")),
        ),
        Panel(
            title="Time between failures",
            description="Running time of jobs divided by failures: of any kind, and those of "
            "origin infra or preemption. Small fleets have few, so choose a longer range.",
            queries=_table(fleet.BETWEEN_FAILURES),
            unit="s",
            decimals=1,
            kind=Kind.STAT,
            named=True,
            width=8,
            height=5,
            fields=(seconds("any_failure", "any"), seconds("infra_failure", "infra")),
        ),
        Panel(
            title="Unsaved GPU-hours",
            description=("Training lost to failures: since the last durable checkpoint."),
            queries=_table(fleet.UNSAVED),
            unit="short",
            kind=Kind.STAT,
            width=5,
            height=5,
        ),
    ),
)

_OVER_TIME = Row(
    "Day by day (UTC)",
    (
        Panel(
            title="ETT by day",
            description="By accelerators is the headline; by wall time a job of 8 accelerators "
            "weighs as much as one of 4,096. Days that begin in the range.",
            queries=_trend(fleet.ETT_BY_DAY),
            unit="percentunit",
            high=1,
            step="1d",
            fields=(
                ratio("by_accelerators", "by accelerators"),
                Field(name="by_wall_time", title="by wall time", dashed=True),
            ),
        ),
        Panel(
            title="ETT by day and $by",
            description="By accelerators, of the ten parts with most accelerators' time.",
            queries=_trend(fleet.GROUP_BY_DAY),
            unit="percentunit",
            high=1,
            step="1d",
        ),
        Panel(
            title="GPU-hours by category",
            description=("What held accelerators did. All but effective_training is lost."),
            queries=_trend(fleet.CATEGORIES_BY_DAY),
            unit="short",
            step="1d",
            stack=Stack.PERCENT,
            paint=Paint.SERIES,
            width=16,
            height=10,
        ),
        Panel(
            title="Lost GPU-hours by category",
            description=("The range's lost GPU-hours by category, largest first."),
            queries=_table(fleet.LOST_BY_CATEGORY),
            unit="short",
            kind=Kind.BAR_CHART,
            paint=Paint.VALUES,
            horizontal=True,
            x_field="category",
            width=8,
            height=10,
        ),
    ),
)

_WHO = Row(
    "By part of the fleet",
    (
        Panel(
            title="By $by",
            description="Each part of the fleet, the one with the most lost GPU-hours first. "
            "Queue wait is the mean over the jobs that started.",
            queries=_table(fleet.BY_GROUP),
            unit="short",
            kind=Kind.TABLE,
            width=24,
            fields=(
                text("part", "$by"),
                ratio("ett_ratio", "ETT"),
                number("gpu_hours", "GPU-hours"),
                number("lost_gpu_hours", "lost GPU-hours"),
                number("failures", "failures", 0),
                seconds("between_failures", "between failures"),
                seconds("queue_wait", "queue wait"),
            ),
        ),
        Panel(
            title="Jobs with the most lost GPU time",
            description="Jobs that existed in the range, by their GPU-hours without effective "
            "training over their whole life. A job's name links to where its time went.",
            queries=_table(fleet.TOP_JOBS),
            unit="short",
            kind=Kind.TABLE,
            width=24,
            height=10,
            fields=(
                Field(name="job", unit="none", width=320, links=(job_link(), TRACE_LINK)),
                ratio("ett_ratio", "ETT"),
                number("gpu_hours", "GPU-hours"),
                number("lost_gpu_hours", "lost GPU-hours"),
                number("failures", "failures", 0),
                *hidden("from_ms", "to_ms"),
            ),
        ),
    ),
)

_WAITING_AND_FAILING = Row(
    "Waits and failures",
    (
        Panel(
            title="Queue wait",
            description=("Mean wait for accelerators of the jobs that started on a day."),
            queries=_trend(fleet.QUEUE_WAIT_BY_DAY),
            unit="s",
            step="1d",
            fields=(seconds("mean_wait", "mean wait"),),
        ),
        Panel(
            title="Waits by owner",
            description="Whose wait it was: accelerators x hours before the first step and in "
            "recoveries. The queue before a job holds no accelerators and is not in it.",
            queries=_trend(fleet.WAITS_BY_DAY),
            unit="short",
            step="1d",
            stack=Stack.NORMAL,
        ),
        Panel(
            title="Unsaved GPU-hours by day",
            description=("Training lost to the failures of a day, times accelerators."),
            queries=_trend(fleet.UNSAVED_BY_DAY),
            unit="short",
            step="1d",
            fields=(number("gpu_hours", "unsaved GPU-hours"),),
        ),
        Panel(
            title="Failures by cause",
            description=("Attempts that failed, were preempted or were lost on a day, by cause."),
            queries=_trend(fleet.FAILURES_BY_CAUSE),
            unit="short",
            decimals=0,
            step="1d",
            stack=Stack.NORMAL,
        ),
        Panel(
            title="Cost of failures by cause",
            description="Failures in the range by origin and cause, and the training lost to them.",
            queries=_table(fleet.UNSAVED_BY_CAUSE),
            unit="short",
            kind=Kind.TABLE,
            fields=(
                number("failures", "failures", 0),
                number("unsaved_gpu_hours", "unsaved GPU-hours"),
            ),
        ),
    ),
)

FLEET = Dashboard(
    uid="ett-sql-fleet",
    title="Where does the fleet's time go?",
    description="ETT% by day and by part of the fleet, lost GPU-hours by category, waits, "
    "failures and the jobs that cost most; exact, as of the last fold.",
    source=Source.POSTGRES,
    variables=(DATASOURCE, ETT_URL, *FLEET_DIMENSIONS, _BY),
    annotations=(MARKERS, REGRESSIONS),
    rows=(_HEADLINE, _OVER_TIME, _WHO, _WAITING_AND_FAILING),
    since="now-28d",
)
