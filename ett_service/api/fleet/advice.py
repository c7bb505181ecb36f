"""How often to save a checkpoint, from the cost of saves and failures so far."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query
from fastapi.responses import Response
from pydantic import AliasPath, Field

from ett_service.api.answers import (
    Answer,
    ComputedAnswer,
    Of,
    OfAJob,
    OfCohorts,
    QuestionAnswer,
    Seconds,
)
from ett_service.api.bodies import OF_WINDOW, FormatParameter, as_files, listed
from ett_service.api.deps import (
    GroupedScope,
    Job,
    ProjectId,
    Reader,
    State,
    WindowParameter,
    only_declared_parameters,
)
from ett_service.api.jobs.listing import ledger_of
from ett_service.api.problems import declared
from ett_service.core.planning.checkpoint_interval import FLAT
from ett_service.fleet.advice import CountedFailures, GroupAdvice, Verdict, fleet_advice, job_advice
from ett_service.fleet.uncertainty import CONFIDENCE

router = APIRouter(
    prefix="/v1", tags=["decisions"], dependencies=[Depends(only_declared_parameters)]
)

FailuresCounted = Annotated[
    CountedFailures,
    Query(
        description="The failures that lose training: all, or those of origin `infra` and "
        "`preemption`."
    ),
]
TrainingRatio = Annotated[float, Field(description="A share of the training time.")]


class BoundedAnswer(Answer):
    """A measured value and its bounds; each is null where it cannot be determined."""

    value: float | None
    low: float | None
    high: float | None


class CountsAnswer(ComputedAnswer):
    """The number of observations behind the advice."""

    failures: int
    infra_failures: int
    saves: int = Field(
        validation_alias=AliasPath("saves", "n"), description="Saves that blocked the loop."
    )
    gaps: Annotated[int, Of(lambda measured: len(measured.gaps_us))] = Field(
        description="Pairs of neighbouring checkpoints of one attempt."
    )


class WasteAnswer(Answer):
    """The waste of an interval between checkpoints."""

    interval_seconds: float
    unsaved_ratio: TrainingRatio = Field(description="Training lost to failures: F*I/2 over T.")
    blocking_ratio: TrainingRatio = Field(description="Checkpoint blocking: b/I.")
    wasted_ratio: TrainingRatio


def _ratio_at(point: str, name: str) -> Of:
    return Of(lambda advice: getattr(getattr(advice, point), name, None))


class PresentAnswer(ComputedAnswer):
    """The median interval between durable checkpoints; ratios are null without a measured save."""

    interval_seconds: float = Field(validation_alias=AliasPath("measured", "interval_seconds"))
    unsaved_ratio: Annotated[TrainingRatio | None, _ratio_at("current", "unsaved_ratio")]
    blocking_ratio: Annotated[TrainingRatio | None, _ratio_at("current", "blocking_ratio")]
    wasted_ratio: Annotated[TrainingRatio | None, _ratio_at("current", "wasted_ratio")]


class BestAnswer(ComputedAnswer):
    """The interval with the least waste. Without a failure only its lower bound is known."""

    interval_seconds: float | None = Field(validation_alias=AliasPath("best", "value"))
    low: float | None = Field(validation_alias=AliasPath("best", "low"))
    high: float | None = Field(validation_alias=AliasPath("best", "high"))
    unsaved_ratio: Annotated[TrainingRatio | None, _ratio_at("least", "unsaved_ratio")]
    blocking_ratio: Annotated[TrainingRatio | None, _ratio_at("least", "blocking_ratio")]
    wasted_ratio: Annotated[TrainingRatio | None, _ratio_at("least", "wasted_ratio")]


class BandAnswer(ComputedAnswer):
    """Intervals in seconds that waste at most `within` more than the best one."""

    low: Annotated[float, Of(lambda advice: advice.flat_band[0])]
    high: Annotated[float, Of(lambda advice: advice.flat_band[1])]
    within: Annotated[float, Of(lambda _: FLAT)]


class AdviceGainAnswer(Answer):
    """The gain of the best interval over the present one, in the same time."""

    wasted_ratio: TrainingRatio
    gpu_hours: float | None = Field(
        description="In the window; for a job, in its life. Jobs with unknown accelerators are "
        "left out; null if there are no others."
    )
    gpu_hours_a_year: float | None = Field(description="At the same rate.")


class AdviceAnswer(ComputedAnswer):
    """How often to save a checkpoint, the measurements behind it, and their uncertainty."""

    failures_counted: CountedFailures = Field(validation_alias="counted")
    n: CountsAnswer = Field(validation_alias="measured")
    training_seconds: Seconds = Field(validation_alias=AliasPath("measured", "training_us"))
    save_seconds: BoundedAnswer = Field(
        validation_alias="save", description="How long the mean save blocks the loop."
    )
    mtbf_seconds: BoundedAnswer = Field(
        validation_alias="mtbf", description="Training time per counted failure."
    )
    current: Annotated[
        PresentAnswer | None,
        Of(lambda advice: None if advice.measured.interval_seconds is None else advice),
    ] = Field(description="Null where no attempt saved twice.")
    best: Annotated[BestAnswer, Of(lambda advice: advice)]
    renewal_interval_seconds: float | None = Field(
        validation_alias="renewal_interval",
        description="The best interval if failures are not rare within it.",
    )
    flat_band: Annotated[
        BandAnswer | None, Of(lambda advice: None if advice.flat_band is None else advice)
    ]
    verdict: Verdict | None = Field(
        description="`keep` inside the flat band or the bounds of the best interval."
    )
    gain: AdviceGainAnswer | None
    curve: list[WasteAnswer] = Field(
        description="From an eighth of the best interval to eight times it, four points a doubling."
    )
    confidence: Annotated[float, Of(lambda _: CONFIDENCE)] = Field(description="Of all bounds.")
    reason: str | None = Field(description="Why there is no best interval; null where there is.")
    assumption: str


class JobAdviceAnswer(OfAJob, AdviceAnswer):
    """Advice for one job, from all of its life."""


class GroupAdviceAnswer(OfCohorts, AdviceAnswer):
    """Advice for a group of cohorts. Intervals beyond the daily cap are unknown."""


class FleetAdviceAnswer(QuestionAnswer):
    """Advice in total, and by group."""

    total: AdviceAnswer
    groups: list[GroupAdviceAnswer] = Field(
        description="Most GPU-hours to gain first; empty without `group_by`."
    )


@router.get(
    "/jobs/{job}/checkpoint-advice",
    operation_id="advise_job",
    responses=declared(401, 403, 404, 422, 503),
)
def advise_job(
    job: Job, conn: Reader, project_id: ProjectId, failures: FailuresCounted = "all"
) -> JobAdviceAnswer:
    """Return the interval between checkpoints that would waste the least of a job's training."""
    ledger = ledger_of(conn, project_id, job)
    advice = job_advice(conn, project_id, job, ledger, failures)
    return JobAdviceAnswer.of(advice, job=job, as_of=ledger.as_of)


@router.get(
    "/fleet/checkpoint-advice",
    operation_id="advise_fleet",
    response_model=FleetAdviceAnswer,
    responses=as_files(OF_WINDOW),
)
def advise_fleet(
    scope: GroupedScope,
    window: WindowParameter,
    state: State,
    conn: Reader,
    *,
    failures: FailuresCounted = "all",
    form: FormatParameter = "json",
) -> FleetAdviceAnswer | Response:
    """Return the best interval between checkpoints for cohorts, and what each would gain.

    The present interval is the median of the latest 5,000 gaps between checkpoints. If jobs of a
    group differ much, group by model or size. A file contains the groups. Without `group_by` it
    contains the total as one group.
    """
    total, groups = fleet_advice(conn, scope, window, failures)
    answer = FleetAdviceAnswer.of(
        scope,
        window,
        as_of=state.now_us(),
        total=total,
        groups=[_group(group) for group in groups],
    )
    rows = answer.groups if scope.group_by else [_group(GroupAdvice({}, other=False, advice=total))]
    return listed(form, answer, rows, of=GroupAdviceAnswer, name="checkpoint-advice")


def _group(group: GroupAdvice) -> GroupAdviceAnswer:
    return GroupAdviceAnswer.of(group, group.advice)
