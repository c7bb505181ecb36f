"""The dashboard of one job."""

from dashboards.build.kit import (
    Dashboard,
    Field,
    Kind,
    Link,
    Paint,
    Panel,
    Query,
    Row,
    Source,
    Stack,
    Transformation,
    Variable,
    to_dashboard,
    to_job_page,
    to_trace,
)
from dashboards.build.postgres.shared import (
    DATASOURCE,
    ETT_URL,
    MARKERS,
    bars,
    in_table,
    instant,
    number,
    ratio,
    seconds,
    stat,
    table,
    text,
)
from dashboards.build.sql import job

_PROJECT = Variable(
    name="project", label="Project", description="The project of the job.", query=job.PROJECTS
)
_JOB = Variable(
    name="job",
    label="Job",
    description=("A job that existed in the range; of many, the 500 with the most GPU time."),
    query=job.JOBS,
)
_CALM = "The run was not interrupted."


_HEADLINE = Row(
    "Overview",
    (
        stat(
            "ETT",
            "Effective training / wall time of the whole job, whatever the range.",
            job.ETT,
            unit="percentunit",
            decimals=2,
            width=4,
            low=0,
            high=1,
            links=(
                Link("Its trace", to_trace("project", "job")),
                Link(
                    "All numbers (JSON)",
                    "${ett_url}/v1/jobs/${job:percentencode}?project=${project:percentencode}",
                ),
            ),
        ),
        stat(
            "Durations",
            "Wall-clock time of the job; its queue wait; from the allocation to the "
            "first batch; training lost to failures; and the time between its runs, in no E2E.",
            job.LENGTHS,
            unit="s",
            named=True,
            width=12,
            fields=(
                seconds("e2e", "E2E"),
                seconds("queue_wait", "queue wait"),
                seconds("time_to_start", "time to start"),
                seconds("unsaved", "unsaved training"),
                seconds("between_runs", "between runs"),
            ),
        ),
        table(
            "Time by category",
            "Seconds of the whole job by category; they add up to E2E.",
            job.CATEGORIES,
            unit="s",
            paint=Paint.VALUES,
            width=8,
            height=5,
            fields=(
                ratio("share", "share of E2E"),
                Field(name="category", unit="none", painted=True),
            ),
        ),
        stat(
            "Speed of training",
            "Effective training at the job's own best step time, and what its steps took "
            "beyond it; and what its loops waited for data. ETT counts all of it.",
            job.SPEED,
            unit="s",
            named=True,
            width=16,
            fields=(
                seconds("at_reference", "at reference speed"),
                seconds("slowed", "slowed"),
                seconds("data_wait", "waited for data"),
            ),
        ),
        stat(
            "Loops waiting for data",
            "The share of its loops' time, of the attempts that report it.",
            job.DATA_WAIT,
            unit="percentunit",
            decimals=2,
            width=8,
        ),
    ),
)

_TIMELINE = Row(
    "Attempt by attempt",
    (
        Panel(
            title="Timeline of attempts",
            description="The ledger: each instant of the job belongs to one category of one "
            "attempt. Only effective_training trains on new data.",
            queries=in_table(job.TIMELINE),
            unit="none",
            kind=Kind.STATE_TIMELINE,
            paint=Paint.VALUES,
            width=24,
            height=12,
            transformations=(
                Transformation(
                    "partitionByValues",
                    {"fields": ["attempt"], "keepFields": False, "naming": {"asLabels": True}},
                ),
            ),
        ),
        table(
            "Attempts",
            "Every attempt, its outcome, the origin of a failure and the evidence "
            "for it. Effective is its share of effective training.",
            job.ATTEMPTS,
            height=10,
            fields=(
                number("number", "attempt", 0),
                instant("started_at", "began (UTC)"),
                seconds("seconds", "duration"),
                number("gpus", "accelerators", 0),
                text("code_version", "code version"),
                seconds("time_to_loop", "time to loop"),
                ratio("effective", "effective"),
                seconds("unsaved", "unsaved"),
                text("last_step", "last step"),
                text("preempted_by", "preempted by"),
                text("launch_attempt_cycle", "launch/attempt/cycle"),
                Field(name="evidence", unit="none", width=320),
            ),
        ),
        bars(
            "Time of each attempt by category",
            "Shares of each attempt's own time, without waits between attempts.",
            job.ATTEMPT_SHARES,
            "attempt",
            unit="s",
            stack=Stack.PERCENT,
            paint=Paint.SERIES,
            horizontal=True,
            width=24,
            height=10,
        ),
    ),
)

_DETAIL = Row(
    "Recoveries, checkpoints and stages",
    (
        table(
            "From each ending to the next loop",
            "From the end of a training loop to the next one of another attempt, "
            "the silence before it, and the training repeated after it. Those after a cancelled "
            "attempt, and one that is not over, are among them; the fleet's times to recover leave "
            "them out.",
            job.RECOVERIES,
            unit="s",
            may_be_empty=_CALM,
            fields=(
                instant("started_at", "began (UTC)"),
                number("interrupted", "from attempt", 0),
                number("resumed", "to attempt", 0),
                seconds("seconds", "duration"),
                seconds("stalled_before", "stalled before"),
                seconds("repeated_after", "repeated after"),
            ),
            width=12,
        ),
        Panel(
            title="Checkpoints",
            description="How long each checkpoint blocked the training loop, and how long it "
            "took to become durable, if reported. In the range.",
            queries=(Query(job.CHECKPOINTS),),
            unit="s",
            may_be_empty="The run has no durable checkpoint.",
            fields=(
                seconds("blocked_the_loop", "blocking"),
                Field(name="until_durable", title="until durable", unit="s", dashed=True),
            ),
        ),
        table(
            "Waits by owner",
            "Whose wait each second before the first step and of each recovery was: "
            "the queue, and the periods scheduling, starting and recovering.",
            job.WAITS,
            unit="s",
            may_be_empty="The run waited for nothing.",
            fields=(text("part", "wait"), text("owner", "whose"), seconds("seconds", "duration")),
            width=12,
        ),
        table(
            "Stages",
            "Named parts of phases over all attempts. Exclusive time is time "
            "outside nested stages. Stages own no time of the ledger.",
            job.STAGES,
            unit="s",
            may_be_empty="Not every trainer reports stages.",
            height=10,
            fields=(
                number("attempts", "attempts", 0),
                number("spans", "spans", 0),
                seconds("inclusive", "inclusive"),
                seconds("exclusive", "exclusive"),
            ),
        ),
        table(
            "Description",
            "Labels and state of the job, as of the last fold.",
            job.STATE,
            unit="none",
            height=4,
            fields=(
                text("code_version", "code version"),
                number("gpus", "accelerators", 0),
                instant("started_at", "began (UTC)"),
                instant("ended_at", "ended (UTC)"),
                number("gpu_hours", "GPU-hours"),
            ),
        ),
    ),
)

JOB = Dashboard(
    uid="ett-sql-job",
    title="Where did this run's time go?",
    description="One job: its categories over time by attempt, outcomes of attempts, "
    "recoveries, checkpoints and stages. The tables of jobs link here.",
    source=Source.POSTGRES,
    variables=(DATASOURCE, ETT_URL, _PROJECT, _JOB),
    annotations=(MARKERS,),
    links=(
        Link("Page of this job", to_job_page("project", "job")),
        Link("Trace of this job", to_trace("project", "job")),
        Link(
            "Compare with other runs",
            to_dashboard("ett-sql-compare", "datasource", "project", a_job="job"),
        ),
    ),
    rows=(_HEADLINE, _TIMELINE, _DETAIL),
    since="now-28d",
)
