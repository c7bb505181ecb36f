"""Answers about jobs. Seconds are microseconds divided here, once, last; instants are RFC 3339."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from ett_service.core.words import Basis, Category, Cause, JobState, Origin, Outcome, Period, Phase

Instant = Annotated[
    str,
    Field(
        description="RFC 3339 in UTC, six decimals.",
        examples=["2026-03-01T08:00:00.000000Z"],
        json_schema_extra={"format": "date-time"},
    ),
]
Seconds = Annotated[float, Field(description="Seconds, exact to the microsecond.")]
Ratio = Annotated[float, Field(description="A share, 0 to 1.")]
ByCategory = dict[Category, float]

EXAMPLE_JOB: dict[str, Any] = {
    "job": "llm-70b",
    "state": "finished",
    "provisional": False,
    "as_of": "2026-03-01T10:00:00.000000Z",
    "formula_version": 1,
    "name": "LLM 70B, second try",
    "team": "pretraining",
    "model": "llm-70b",
    "cluster": "a",
    "hardware": "h200",
    "kind": None,
    "gpus": 64,
    "code_version": "4f1c2aa",
    "labels": {"purpose": "ablation"},
    "started_at": "2026-03-01T08:00:00.000000Z",
    "ended_at": "2026-03-01T10:00:00.000000Z",
    "e2e_seconds": 7200.0,
    "queue_wait_seconds": 30.0,
    "ett_ratio": 0.875,
    "time_to_start_seconds": 300.0,
    "failures": 1,
    "infra_failures": 1,
    "wasted_ratio": 0.043478,
    "unsaved_training_seconds": 120.0,
}


class Answer(BaseModel):
    """What every answer has in common: it can say nothing that is not declared."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class JobSummary(Answer):
    """The numbers of a job in one line."""

    model_config = ConfigDict(json_schema_extra={"example": EXAMPLE_JOB})

    job: str
    state: JobState
    provisional: bool = Field(description="Whether events to come are expected to change it.")
    as_of: Instant
    formula_version: int
    name: str | None
    team: str | None
    model: str | None
    cluster: str | None
    hardware: str | None
    kind: str | None
    gpus: int | None
    code_version: str | None
    started_at: Instant | None
    ended_at: Instant | None = Field(description="End of E2E; of a running job its as-of instant.")
    e2e_seconds: Seconds
    queue_wait_seconds: Seconds
    ett_ratio: Ratio = Field(description="Effective training over E2E; 0 for an empty E2E.")
    time_to_start_seconds: Seconds | None
    failures: int
    infra_failures: int
    wasted_ratio: Ratio = Field(description="Wasted part of the period `training`.")
    unsaved_training_seconds: Seconds


class JobPage(Answer):
    """A page of jobs."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "jobs": [{name: value for name, value in EXAMPLE_JOB.items() if name != "labels"}],
                "next_cursor": None,
            }
        }
    )

    jobs: list[JobSummary]
    next_cursor: str | None = Field(description="Sent as `cursor` it gives the next page.")


class RecoveryAnswer(Answer):
    """From the end of a loop to the start of the next loop of another attempt."""

    interrupted: int
    resumed: int | None = Field(description="Null while no loop was reached.")
    started_at: Instant
    ended_at: Instant
    seconds: Seconds
    outcome: Outcome = Field(description="How the interrupted attempt ended.")
    parts: ByCategory = Field(description="They sum to `seconds`.")
    stalled_seconds: Seconds
    repeated_seconds: Seconds


class EvidenceAnswer(Answer):
    """What decided a failure's origin and cause."""

    rule: str
    text: str
    event_id: str | None


class VerdictAnswer(Answer):
    """What somebody said about a failure in place of the rules, and what those say."""

    origin: Origin
    cause: Cause
    why: str
    made_by: str = Field(description="Prefix of a key.")
    made_at: Instant
    rules_origin: Origin | None
    rules_cause: Cause | None


_ATTEMPT: dict[str, Any] = {
    "number": 0,
    "launch": "8041",
    "attempt": 0,
    "cycle": 0,
    "gpus": 64,
    "code_version": "4f1c2aa",
    "started_at": "2026-03-01T08:00:00.000000Z",
    "ended_at": "2026-03-01T10:00:00.000000Z",
    "outcome": "completed",
    "origin": None,
    "cause": None,
    "evidence": None,
    "reason": None,
    "basis": "steps",
    "last_step": 7200,
    "last_heard_at": "2026-03-01T10:00:00.000000Z",
    "unsaved_training_seconds": 0.0,
    "stalled_seconds": 0.0,
    "categories": {"launcher_init": 900.0, "effective_training": 6300.0},
}


class AttemptAnswer(Answer):
    """One life of the job's training processes."""

    number: int
    launch: str
    attempt: int
    cycle: int
    gpus: int | None
    code_version: str | None
    started_at: Instant
    ended_at: Instant = Field(description="As-of while it runs.")
    outcome: Outcome
    origin: Origin | None
    cause: Cause | None
    verdict: VerdictAnswer | None = Field(description="Whose word origin and cause are.")
    evidence: EvidenceAnswer | None
    reason: str | None
    basis: Basis
    last_step: int | None
    last_heard_at: Instant
    unsaved_training_seconds: Seconds
    stalled_seconds: Seconds = Field(description="Its silent tail.")
    categories: ByCategory


class AttemptList(Answer):
    """A job's attempts in their order."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "job": "llm-70b",
                "as_of": "2026-03-01T10:00:00.000000Z",
                "attempts": [_ATTEMPT],
            }
        }
    )

    job: str
    as_of: Instant
    attempts: list[AttemptAnswer]


class GapAnswer(Answer):
    """One thing that had to be inferred, or that is missing."""

    kind: str
    number: int | None
    started_at: Instant | None
    ended_at: Instant | None
    detail: str
    event_id: str | None


class QualityAnswer(Answer):
    """What the numbers rest on."""

    unattributed_ratio: Ratio
    inferred_ends: int
    ends_without_begin: int
    clamped_spans: int
    clock_flags: int
    missing_phases: list[Phase]
    gpus_unknown: bool
    gaps: list[GapAnswer] = Field(description="The first of them; the counts are of all.")


class ExclusionAnswer(Answer):
    """Time of a job that is left out of the fleet's numbers, up to and without its end."""

    from_at: Instant | None = Field(alias="from", description="Null: from the job's begin.")
    to_at: Instant | None = Field(alias="to", description="Null: to its end.")
    why: str
    made_by: str = Field(description="Prefix of a key.")
    made_by_name: str | None
    made_at: Instant


class IntervalAnswer(Answer):
    """Where a figure lies with the probability `confidence`."""

    low: float
    high: float


class ProductivityAnswer(Answer):
    """What jobs made of their effective training, of those that report it.

    Rates in all are those of the mean job. Rates per accelerator, `mfu` and cost leave out jobs
    whose accelerators are unknown.
    """

    tokens: int
    samples: int
    tokens_per_second: float | None
    tokens_per_second_per_accelerator: float | None
    samples_per_second: float | None
    samples_per_second_per_accelerator: float | None
    mfu: float | None = Field(
        description="Reported operations (else 6 x parameters x tokens) over peak x effective "
        "time; null, too, while a peak rate is unknown."
    )
    useful_ratio: float | None = Field(description="ETT% x MFU: the useful share of the peak.")
    cost_per_million_tokens: float | None


class JobAnswer(JobSummary):
    """All numbers of a job."""

    image: str | None
    owner: str | None
    submitted_at: Instant | None
    parameters: int | None
    precision: str | None
    labels: Mapping[str, str]
    outcome: Outcome | None = Field(description="Of a `job_ended` that stands.")
    categories: ByCategory = Field(description="Every category; they sum to `e2e_seconds`.")
    periods: dict[Period, float] = Field(description="Every period; they sum to `e2e_seconds`.")
    weighted_seconds: ByCategory | None = Field(
        description="Times accelerators; null while those are unknown."
    )
    gpu_seconds: ByCategory | None = Field(
        description="Times accelerators, while they were held; null while those are unknown."
    )
    recoveries: list[RecoveryAnswer]
    attempts: list[AttemptAnswer]
    exclusions: list[ExclusionAnswer] = Field(
        description="What fleet numbers leave out of it; its own numbers leave out nothing."
    )
    productivity: ProductivityAnswer
    quality: QualityAnswer
    definitions: dict[str, float] = Field(
        description="Other definitions, from the same ledger: see docs/definitions.md."
    )


class SegmentAnswer(Answer):
    """A stretch of one category, period and attempt."""

    start: Instant
    end: Instant
    category: Category
    period: Period
    number: int | None = Field(description="Of the attempt; null between attempts.")
    microseconds: int


class LedgerAnswer(Answer):
    """The job's E2E, cut into segments without overlap or hole."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "job": "llm-70b",
                "state": "finished",
                "provisional": False,
                "as_of": "2026-03-01T10:00:00.000000Z",
                "e2e_microseconds": 60000000,
                "segments": [
                    {
                        "start": "2026-03-01T09:59:00.000000Z",
                        "end": "2026-03-01T10:00:00.000000Z",
                        "category": "effective_training",
                        "period": "training",
                        "number": 0,
                        "microseconds": 60000000,
                    }
                ],
            }
        }
    )

    job: str
    state: JobState
    provisional: bool
    as_of: Instant
    e2e_microseconds: int
    segments: list[SegmentAnswer]
