"""Where did this run's time go?"""

from dashboards.build.kit import (
    Dashboard,
    Field,
    Format,
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
    to_trace,
)
from dashboards.build.postgres.choosing import (
    DATASOURCE,
    ETT_URL,
    MARKERS,
    instant,
    number,
    ratio,
    seconds,
    text,
)
from dashboards.build.sql import job

_PROJECT = Variable(
    name="project", label="Project", description="The project of the job.", query=job.PROJECTS
)
_JOB = Variable(
    name="job",
    label="Job",
    description="A job that lived in the range; of many, the 500 with most GPU time.",
    query=job.JOBS,
)
_CALM = "A run that nothing interrupted has none."


def _table(query: str) -> tuple[Query, ...]:
    return (Query(query, format=Format.TABLE),)


_HEADLINE = Row(
    "In all",
    (
        Panel(
            title="ETT",
            description="Effective training / wall time of the whole job, whatever the range.",
            queries=_table(job.ETT),
            unit="percentunit",
            decimals=2,
            kind=Kind.STAT,
            width=4,
            height=5,
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
        Panel(
            title="How long",
            description=(
                "Wall time in all; the wait before it; from the allocation to the first batch; "
                "and training that failures threw away."
            ),
            queries=_table(job.LENGTHS),
            unit="s",
            kind=Kind.STAT,
            named=True,
            width=12,
            height=5,
            fields=(
                seconds("e2e", "E2E"),
                seconds("queue_wait", "queue wait"),
                seconds("time_to_start", "time to start"),
                seconds("unsaved", "unsaved training"),
            ),
        ),
        Panel(
            title="Time by category",
            description="Seconds of the whole job by what they were spent on; they sum to E2E.",
            queries=_table(job.CATEGORIES),
            unit="s",
            kind=Kind.TABLE,
            paint=Paint.VALUES,
            width=8,
            height=5,
            fields=(
                ratio("share", "share of E2E"),
                Field(name="category", unit="none", painted=True),
            ),
        ),
    ),
)

_TIMELINE = Row(
    "Attempt by attempt",
    (
        Panel(
            title="What each attempt did",
            description=(
                "The ledger: each instant of the job belongs to one category of one attempt. "
                "Only effective_training trains on new data."
            ),
            queries=_table(job.TIMELINE),
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
        Panel(
            title="Attempts",
            description=(
                "Every attempt, how it ended, who that belongs to and the evidence that decided. "
                "Effective is its share of effective training."
            ),
            queries=_table(job.ATTEMPTS),
            unit="short",
            kind=Kind.TABLE,
            width=24,
            height=10,
            fields=(
                number("number", "attempt", 0),
                instant("started_at", "began (UTC)"),
                seconds("seconds", "lasted"),
                number("gpus", "accelerators", 0),
                text("code_version", "code version"),
                seconds("time_to_loop", "to its loop"),
                ratio("effective", "effective"),
                seconds("unsaved", "unsaved"),
                text("last_step", "last step"),
                text("preempted_by", "preempted by"),
                text("launch_attempt_cycle", "launch/attempt/cycle"),
                Field(name="evidence", unit="none", width=320),
            ),
        ),
        Panel(
            title="Time of each attempt by category",
            description="Shares of each attempt's own time; waits between attempts left out.",
            queries=_table(job.ATTEMPT_SHARES),
            unit="s",
            kind=Kind.BAR_CHART,
            stack=Stack.PERCENT,
            paint=Paint.SERIES,
            horizontal=True,
            x_field="attempt",
            width=24,
            height=10,
        ),
    ),
)

_DETAIL = Row(
    "Recoveries, saves and stages",
    (
        Panel(
            title="Recoveries",
            description=(
                "From the end of a loop to the next loop of another attempt, the silence before "
                "it, and what was trained again after it."
            ),
            queries=_table(job.RECOVERIES),
            unit="s",
            may_be_empty=_CALM,
            kind=Kind.TABLE,
            fields=(
                instant("started_at", "began (UTC)"),
                number("interrupted", "from attempt", 0),
                number("resumed", "to attempt", 0),
                seconds("seconds", "took"),
                seconds("stalled_before", "silent before"),
                seconds("repeated_after", "repeated after"),
            ),
        ),
        Panel(
            title="Saves",
            description=(
                "For how long each checkpoint blocked the loop, and how long it took to be "
                "durable, where that was told. Of the range."
            ),
            queries=(Query(job.CHECKPOINTS),),
            unit="s",
            may_be_empty="A run that saved nothing durable has none.",
            fields=(
                seconds("blocked_the_loop", "blocked the loop"),
                Field(name="until_durable", title="until durable", unit="s", dashed=True),
            ),
        ),
        Panel(
            title="Stages",
            description=(
                "Named parts of phases over all attempts. Exclusive time is what no stage inside "
                "took. Stages own no time of the ledger."
            ),
            queries=_table(job.STAGES),
            unit="s",
            may_be_empty="Not every trainer tells its stages.",
            kind=Kind.TABLE,
            width=24,
            height=10,
            fields=(
                number("attempts", "attempts", 0),
                number("spans", "spans", 0),
                seconds("inclusive", "inclusive"),
                seconds("exclusive", "exclusive"),
            ),
        ),
        Panel(
            title="What it is",
            description="What the job says of itself, and its state as of the last fold.",
            queries=_table(job.STATE),
            unit="none",
            kind=Kind.TABLE,
            width=24,
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
    description=(
        "One job: its categories over time by attempt, how attempts ended, recoveries, saves and "
        "stages. Reached from the tables of jobs."
    ),
    source=Source.POSTGRES,
    variables=(DATASOURCE, ETT_URL, _PROJECT, _JOB),
    annotations=(MARKERS,),
    links=(
        Link("Trace of this job", to_trace("project", "job")),
        Link(
            "Beside other runs",
            to_dashboard("ett-sql-compare", "datasource", "project", a_job="job"),
        ),
    ),
    rows=(_HEADLINE, _TIMELINE, _DETAIL),
    since="now-28d",
)
