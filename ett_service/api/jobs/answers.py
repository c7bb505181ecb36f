"""Answers about one job: its results, attempts, recoveries and data quality."""

from collections import Counter
from collections.abc import Mapping
from operator import attrgetter
from typing import Annotated, Any, Literal

from pydantic import Field

from ett_service.api.answers import (
    Answer,
    ByCategory,
    ComputedAnswer,
    Instant,
    KeyPrefix,
    NextCursor,
    NonzeroByCategory,
    Of,
    Ratio,
    Seconds,
    Sources,
    with_facts,
)
from ett_service.api.jobs.members import (
    AtReference,
    CostAnswer,
    DataWaitAnswer,
    ProductivityAnswer,
    SecondsByOwner,
    Slowed,
    SpeedReferenceAnswer,
    TimeToRecover,
    Unmeasured,
    Waits,
    ratio_at_reference,
)
from ett_service.api.record.corrections import ExclusionAnswer
from ett_service.core.dimensions import JOB_DIMENSIONS
from ett_service.core.fleet.totals import ratio
from ett_service.core.ledger.results import FORMULA_VERSION
from ett_service.core.planning.definitions import definitions
from ett_service.core.words import (
    WASTED,
    Basis,
    Category,
    Cause,
    HookState,
    JobState,
    Origin,
    Outcome,
    Period,
    Phase,
)
from ett_service.storage.jobs.ledgers import lost_us


class _JobState(ComputedAnswer):
    job: str
    state: JobState
    provisional: Annotated[bool, Of(lambda job: job.state != JobState.FINISHED)] = Field(
        description="Whether later events are expected to change it."
    )
    as_of: Instant = Field(validation_alias="as_of_us")
    formula_version: int


class JobSummary(with_facts(_JobState, "name", *JOB_DIMENSIONS)):  # type: ignore[misc]
    """The results of a job in one line."""

    gpus: int | None
    code_version: str | None
    started_at: Instant | None
    ended_at: Instant | None = Field(description="End of E2E; of a running job `as_of`.")
    e2e_seconds: Seconds
    queue_wait_seconds: Seconds
    run_count: int = Field(
        validation_alias="runs",
        description="A job that completed begins its next run with the next launch of its name.",
    )
    between_runs_seconds: Seconds = Field(description="Not part of E2E.")
    ett_ratio: Annotated[Ratio, Of(lambda job: ratio(job.effective_us, job.e2e_us))] = Field(
        description="Effective training over E2E; 0 for an empty E2E."
    )
    time_to_start_seconds: Seconds | None
    failures: int
    infra_failures: int
    wasted_ratio: Annotated[Ratio, Of(lambda job: ratio(*job.training_us))] = Field(
        description="The wasted part of the period `training`."
    )
    unsaved_training_seconds: Seconds = Field(validation_alias="unsaved_us")
    lost_gpu_seconds: Seconds | None = Field(
        description="Accelerator time that was held and not effective training. Null while "
        "accelerators are unknown."
    )
    effective_at_reference_seconds: Seconds | None = Field(
        description="The part of effective training that the measured steps take at the reference "
        "step time. Null where none is measured."
    )
    slowed_seconds: Seconds | None = Field(
        description="What they took beyond it. A part of effective training, too."
    )


class JobRunAnswer(ComputedAnswer):
    """One run of a job, with results of its own."""

    number: int
    launches: list[str]
    state: JobState
    outcome: Outcome | None = Field(description="Outcome of the `job_ended` in force.")
    started_at: Instant | None
    ended_at: Instant | None
    idle_before_seconds: Seconds = Field(
        description="From the end of the run before to the first sign of this one."
    )
    queue_wait_seconds: Seconds
    e2e_seconds: Seconds
    ett_ratio: Annotated[Ratio, Of(lambda run: ratio(run.effective_us, run.e2e_us))]
    time_to_start_seconds: Seconds | None
    failures: int
    infra_failures: int
    unsaved_training_seconds: Seconds = Field(validation_alias="unsaved_us")
    effective_at_reference_seconds: AtReference
    slowed_seconds: Slowed
    speed_unmeasured_seconds: Unmeasured
    speed_references: list[SpeedReferenceAnswer]
    first_attempt: int = Field(description="The number of its first attempt.")
    attempts: int = Field(description="The number of its attempts.")


class JobPage(Answer):
    """A page of jobs."""

    jobs: list[JobSummary]
    next_cursor: NextCursor


class RecoveryAnswer(Answer):
    """From the end of a training loop to the start of the loop of a later attempt."""

    interrupted: int
    resumed: int | None = Field(description="Null until a later attempt reaches its loop.")
    started_at: Instant = Field(validation_alias="start_at")
    ended_at: Instant = Field(validation_alias="end_at")
    seconds: Seconds = Field(validation_alias="us")
    outcome: Outcome = Field(description="The outcome of the interrupted attempt.")
    parts: NonzeroByCategory = Field(
        validation_alias="parts_us", description="They sum to `seconds`."
    )
    owners: SecondsByOwner = Field(
        validation_alias="owners_us", description="By whose wait it was; they sum to `seconds`."
    )
    stalled_seconds: Seconds
    repeated_seconds: Seconds


class EvidenceAnswer(Answer):
    """What decided a failure's origin and cause."""

    rule: str
    text: str
    event_id: str | None


class VerdictAnswer(Answer):
    """The verdict of a person on a failure, and what the rules say."""

    origin: Origin
    cause: Cause
    why: str
    made_by: KeyPrefix
    made_at: Instant
    rules_origin: Origin | None
    rules_cause: Cause | None


class AttemptAnswer(Answer):
    """One life of the job's training processes."""

    number: int
    launch: str
    attempt: int
    cycle: int
    gpus: int | None
    code_version: str | None
    started_at: Instant
    ended_at: Instant = Field(description="`as_of` while the attempt runs.")
    outcome: Outcome
    origin: Origin | None
    cause: Cause | None
    verdict: VerdictAnswer | None = Field(
        description="Null unless a person set the origin and cause."
    )
    evidence: EvidenceAnswer | None
    reason: str | None
    basis: Basis
    last_step: int | None
    last_heard_at: Instant
    unsaved_training_seconds: Seconds = Field(validation_alias="unsaved_us")
    stalled_seconds: Seconds = Field(
        validation_alias="silent_tail_us", description="The silent tail of the attempt."
    )
    categories: NonzeroByCategory = Field(validation_alias="categories_us")
    effective_at_reference_seconds: AtReference
    slowed_seconds: Slowed
    speed_unmeasured_seconds: Unmeasured
    data_wait: DataWaitAnswer | None = Field(description="Null where its lead rank reports none.")
    telemetry_seconds: Seconds | None = Field(
        validation_alias="telemetry_us",
        description="What recording took of the training thread, where it took most.",
    )
    hooks: dict[str, HookState] = Field(
        description="The client's hooks by name, each with the worst state of any process. What a "
        "hook that is `missing` or in `error` reports is missing, not zero."
    )
    compile_cache: Literal["warm", "cold", "mixed", "disabled"] | None = Field(
        description="Whether its compiles found the cache; null where they do not say."
    )


class AttemptList(Answer):
    """A job's attempts in their order."""

    job: str
    as_of: Instant
    attempts: list[AttemptAnswer]


class GapAnswer(Answer):
    """Something that was inferred, or that is missing."""

    kind: str
    number: int | None
    started_at: Instant | None = Field(validation_alias="start_at")
    ended_at: Instant | None = Field(validation_alias="end_at")
    detail: str
    event_id: str | None


class QualityAnswer(ComputedAnswer):
    """The quality of the data behind the results."""

    unattributed_ratio: Annotated[
        Ratio, Of(lambda quality: ratio(quality.unattributed_us, quality.e2e_us))
    ]
    inferred_ends: int
    ends_without_begin: int
    clamped_spans: int
    clock_flags: int
    unreported_restarts: int = Field(
        description="Cycles that a rank's new process shows and no sender counted."
    )
    restart_counts_disagree: int = Field(
        description="Cycles of which ranks send different counts of restarts."
    )
    steps_went_back: int = Field(
        description="How often steps fell inside an attempt with no `checkpoint_restored` between."
    )
    missing_phases: list[Phase]
    gpus_unknown: bool
    attempts_missing_hooks: int = Field(
        description="Attempts of which a hook of the client is missing or failed."
    )
    gaps: list[GapAnswer] = Field(description="The first gaps. The counts cover all of them.")


def _sums(ledger: Any, key: str, amount: str = "us") -> Counter[Any]:
    sums: Counter[Any] = Counter()
    for share in ledger.shares:
        sums[getattr(share, key)] += getattr(share, amount) or 0
    return sums


def _effective_ratio(ledger: Any) -> float:
    return ratio(_sums(ledger, "category")[Category.EFFECTIVE_TRAINING], ledger.e2e_us)


def _wasted_ratio(ledger: Any) -> float:
    training = [share for share in ledger.shares if share.period is Period.TRAINING]
    wasted = sum(share.us for share in training if share.category in WASTED)
    return ratio(wasted, sum(share.us for share in training))


def _by_accelerators(amount: str) -> Of:
    def compute(ledger: Any) -> Mapping[Category, int] | None:
        return None if ledger.quality.gpus_unknown else _sums(ledger, "category", amount)

    return Of(compute)


def _by_category(ledger: Any) -> Mapping[Category, int]:
    sums = _sums(ledger, "category")
    return {category: sums[category] for category in Category}


def _by_period(ledger: Any) -> Mapping[Period, int]:
    sums = _sums(ledger, "period")
    return {period: sums[period] for period in Period}


def _lost_gpu_us(ledger: Any) -> int | None:
    return lost_us(ledger.shares, attrgetter("gpu_us"))


class JobAnswer(JobSummary):
    """All results of a job. It reads a ledger and its facts."""

    provisional: bool
    as_of: Instant
    formula_version: Annotated[int, Of(lambda _: FORMULA_VERSION)]
    run_count: Annotated[int, Of(lambda ledger: len(ledger.runs))]
    ett_ratio: Annotated[Ratio, Of(_effective_ratio)] = Field(
        description="Effective training over E2E; 0 for an empty E2E."
    )
    wasted_ratio: Annotated[Ratio, Of(_wasted_ratio)] = Field(
        description="The wasted part of the period `training`."
    )
    lost_gpu_seconds: Annotated[Seconds | None, Of(_lost_gpu_us)] = Field(
        description="Accelerator time that was held and not effective training. Null while "
        "accelerators are unknown."
    )
    image: str | None
    owner: str | None
    submitted_at: Instant | None
    parameters: int | None
    precision: str | None
    labels: Mapping[str, str]
    outcome: Outcome | None = Field(description="Outcome of the `job_ended` in force.")
    categories: Annotated[ByCategory, Of(_by_category)] = Field(
        description="Every category; they sum to `e2e_seconds`."
    )
    periods: Annotated[dict[Period, Seconds], Of(_by_period)] = Field(
        description="Every period; they sum to `e2e_seconds`."
    )
    waits: Waits
    time_to_recover_seconds: TimeToRecover
    effective_at_reference_seconds: AtReference
    slowed_seconds: Slowed
    speed_unmeasured_seconds: Unmeasured
    data_wait: DataWaitAnswer | None = Field(description="Null where no attempt reports it.")
    reference_step_seconds: float | None = Field(
        description="Reference of the latest run that has one, in the setting with most windows."
    )
    at_reference_ratio: Annotated[float | None, Of(ratio_at_reference)] = Field(
        description="`effective_at_reference_seconds` over E2E, beside `ett_ratio`."
    )
    weighted_seconds: Annotated[NonzeroByCategory | None, _by_accelerators("weighted_us")] = Field(
        description="Times accelerators. Null while accelerators are unknown."
    )
    gpu_seconds: Annotated[NonzeroByCategory | None, _by_accelerators("gpu_us")] = Field(
        description="Times accelerators, while they were held. Null while they are unknown."
    )
    runs: list[JobRunAnswer] = Field(description="The job's numbers are the sums over its runs.")
    recoveries: list[RecoveryAnswer]
    attempts: list[AttemptAnswer]
    waiting_since: Instant | None = Field(
        description="When the oldest of the events came that these numbers do not know yet."
    )
    pruned_at: Instant | None = Field(
        description="When its events and segments were deleted, for their age. What they are read "
        "from is then 410."
    )
    exclusions: list[ExclusionAnswer] = Field(
        description="Time that the fleet's numbers leave out. The job's own numbers include it."
    )
    productivity: ProductivityAnswer
    cost: CostAnswer | None = Field(
        description="Null without prices in the settings, and while accelerators are unknown."
    )
    quality: Annotated[
        QualityAnswer, Of(lambda ledger: Sources((ledger.quality,), {"e2e_us": ledger.e2e_us}))
    ]
    definitions: Annotated[
        dict[str, float],
        Of(lambda ledger: {name: ratio(*amounts) for name, amounts in definitions(ledger).items()}),
    ] = Field(description="Other definitions, from the same ledger: see docs/definitions.md.")


class SegmentAnswer(Answer):
    """A stretch of one category, period and attempt."""

    start: Instant = Field(validation_alias="start_at")
    end: Instant = Field(validation_alias="end_at")
    category: Category
    period: Period
    number: int | None = Field(description="The attempt's number; null between attempts.")
    microseconds: int = Field(validation_alias="us")


class LedgerAnswer(Answer):
    """The job's E2E, cut into segments without overlap. Gaps are the time between its runs."""

    job: str
    state: JobState
    provisional: bool
    as_of: Instant
    e2e_microseconds: int = Field(validation_alias="e2e_us")
    segments: list[SegmentAnswer]
