"""The dashboard of the fleet, from the database."""

from dashboards.build.kit import (
    Dashboard,
    Field,
    Paint,
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
    OF_A_JOB,
    REGRESSIONS,
    bars,
    daily,
    hidden,
    number,
    ratio,
    seconds,
    stat,
    table,
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


_HEADLINE = Row(
    "Overview",
    (
        stat(
            "ETT",
            "Effective training / all time, each times accelerators, of the range "
            "widened to full hours. Excluded time is left out, as are jobs of unknown size.",
            fleet.ETT_NOW,
            unit="percentunit",
            decimals=2,
            width=4,
            low=0,
            high=1,
        ),
        stat(
            "GPU-hours, held and lost",
            "Accelerator time that was held, and the part of it without effective "
            "training. Waiting for accelerators holds none.",
            fleet.PAID,
            unit="short",
            named=True,
            width=7,
            fields=(number("gpu_hours", "held"), number("lost_gpu_hours", "lost")),
        ),
        stat(
            "Time between failures",
            "Running time of jobs divided by failures: of any kind, and those of "
            "origin infra or preemption. Small fleets have few, so choose a longer range.",
            fleet.BETWEEN_FAILURES,
            unit="s",
            decimals=1,
            named=True,
            width=8,
            fields=(seconds("any_failure", "any"), seconds("infra_failure", "infra")),
        ),
        stat(
            "Unsaved GPU-hours",
            "Training lost to failures: since the last durable checkpoint.",
            fleet.UNSAVED,
            unit="short",
            width=5,
        ),
    ),
)

_OVER_TIME = Row(
    "Day by day (UTC)",
    (
        daily(
            "ETT by day",
            "By accelerators is the headline; by wall time a job of 8 accelerators "
            "weighs as much as one of 4,096. Days that begin in the range.",
            fleet.ETT_BY_DAY,
            unit="percentunit",
            high=1,
            fields=(
                ratio("by_accelerators", "by accelerators"),
                Field(name="by_wall_time", title="by wall time", dashed=True),
            ),
        ),
        daily(
            "ETT by day and $by",
            "By accelerators, of the ten parts with most accelerators' time.",
            fleet.GROUP_BY_DAY,
            unit="percentunit",
            high=1,
        ),
        daily(
            "GPU-hours by category",
            "What held accelerators did. All but effective_training is lost.",
            fleet.CATEGORIES_BY_DAY,
            unit="short",
            stack=Stack.PERCENT,
            paint=Paint.SERIES,
            width=16,
            height=10,
        ),
        bars(
            "Lost GPU-hours by category",
            "The range's lost GPU-hours by category, largest first.",
            fleet.LOST_BY_CATEGORY,
            "category",
            unit="short",
            paint=Paint.VALUES,
            horizontal=True,
            width=8,
            height=10,
        ),
    ),
)

_WHO = Row(
    "By part of the fleet",
    (
        table(
            "By $by",
            "Each part of the fleet, the one with the most lost GPU-hours first. "
            "Queue wait is the mean over the jobs that started.",
            fleet.BY_GROUP,
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
        table(
            "Jobs with the most lost GPU time",
            "Jobs that existed in the range, by their GPU-hours without effective "
            "training over their whole life. A job's name links to where its time went.",
            fleet.TOP_JOBS,
            height=10,
            fields=(
                Field(name="job", unit="none", width=320, links=OF_A_JOB),
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
        daily(
            "Queue wait",
            "Mean wait for accelerators of the jobs that started on a day.",
            fleet.QUEUE_WAIT_BY_DAY,
            unit="s",
            fields=(seconds("mean_wait", "mean wait"),),
        ),
        daily(
            "Waits by owner",
            "Whose wait it was: accelerators x hours before the first step and in "
            "recoveries. The queue before a job holds no accelerators and is not in it.",
            fleet.WAITS_BY_DAY,
            unit="short",
            stack=Stack.NORMAL,
        ),
        daily(
            "Unsaved GPU-hours by day",
            "Training lost to the failures of a day, times accelerators.",
            fleet.UNSAVED_BY_DAY,
            unit="short",
            fields=(number("gpu_hours", "unsaved GPU-hours"),),
        ),
        daily(
            "Failures by cause",
            "Attempts that failed, were preempted or were lost on a day, by cause.",
            fleet.FAILURES_BY_CAUSE,
            unit="short",
            decimals=0,
            stack=Stack.NORMAL,
        ),
        table(
            "Cost of failures by cause",
            "Failures in the range by origin and cause, and the training lost to them.",
            fleet.UNSAVED_BY_CAUSE,
            fields=(
                number("failures", "failures", 0),
                number("unsaved_gpu_hours", "unsaved GPU-hours"),
            ),
            width=12,
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
