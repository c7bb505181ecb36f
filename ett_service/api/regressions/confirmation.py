"""The experiment that settles a finding: which two runs to launch, and what they say."""

from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Depends
from pydantic import AliasPath, Field
from starlette.concurrency import run_in_threadpool

from ett_service.api.answers import (
    Answer,
    ComputedAnswer,
    EmptyIsNull,
    IntervalAnswer,
    Of,
)
from ett_service.api.bodies import described
from ett_service.api.deps import ProjectIds, Reader, only_declared_parameters
from ett_service.api.problems import Problem, ProblemKind, declared
from ett_service.api.regressions.listing import RegressionId, checked_id, unknown
from ett_service.api.regressions.triage import Acting, RegressionRequest
from ett_service.core.regressions.confirmation import Settlement
from ett_service.core.regressions.finding import Triage
from ett_service.detection.confirmation import NotComparable, SettledRuns, experiment, settled_by
from ett_service.ingest.requests import NewConfirmation
from ett_service.storage.record.audit import Action
from ett_service.storage.regressions import regressions
from ett_service.storage.regressions.regressions import Act

router = APIRouter(
    prefix="/v1/regressions/{regression_id}",
    tags=["regressions"],
    dependencies=[Depends(only_declared_parameters)],
)

_CALLED = {Settlement.CONFIRMED: Triage.REAL, Settlement.REFUTED: Triage.NOISE}


class ExperimentAnswer(Answer):
    """Two runs that settle whether a finding is real. They differ in one thing only."""

    regression: str
    dimension: str = Field(description="In which the two runs differ.")
    before: Annotated[str | None, EmptyIsNull] = Field(
        description="Its value in the first run; null where nothing else ran before the onset."
    )
    after: Annotated[str | None, EmptyIsNull] = Field(description="Its value in the second run.")
    cohort: dict[str, str] = Field(description="Of both runs.")
    alike: dict[str, str] = Field(
        description="What else both runs share, as most attempts after the onset have it."
    )
    ratio: float = Field(description="The factor to be confirmed.")
    sigma: float = Field(
        description="Standard deviation of the logarithms of the finding's durations."
    )
    starts: int = Field(
        description="Starts of each version that show the factor in 80 of 100 cases, at a "
        "one-sided level of 5 %."
    )


def _interval(runs: Any) -> dict[str, float]:
    return {"low": runs.settled.low, "high": runs.settled.high}


class ConfirmationAnswer(ComputedAnswer):
    """What two jobs say of a finding."""

    regression: str
    outcome: Settlement = Field(
        validation_alias=AliasPath("settled", "outcome"),
        description="`confirmed`: the second job is slower, and not by chance; the finding is "
        "triaged as `real`. `refuted`: half of the change is ruled out; it is triaged as "
        "`noise`. `open`: neither, and nothing is changed.",
    )
    ratio: float = Field(
        validation_alias=AliasPath("settled", "ratio"), description="Second job over the first."
    )
    interval: Annotated[IntervalAnswer, Of(_interval)] = Field(
        description="90 % interval of the ratio."
    )
    base_n: int = Field(description="Durations of the first job.")
    n: int = Field(description="Durations of the second job.")
    more: int = Field(description="Starts of each version still missing for 80 % power.")


@router.get(
    "/experiment",
    operation_id="read_regression_experiment",
    responses=declared(401, 403, 404, 409, 422, 503),
)
def read_regression_experiment(
    regression_id: RegressionId, conn: Reader, project_ids: ProjectIds
) -> ExperimentAnswer:
    """Say which two runs to launch to confirm a finding of durations, and how often."""
    regression = regressions.find(conn, project_ids, checked_id(regression_id))
    if regression is None:
        raise unknown()
    try:
        planned = experiment(
            conn, regression.project_id, regression.standing.finding, regression.attribution
        )
    except NotComparable as error:
        raise Problem(ProblemKind.CONFLICT, str(error)) from error
    return ExperimentAnswer.of(planned, regression=regression.id)


@router.post(
    "/confirm",
    operation_id="confirm_regression",
    responses=declared(400, 401, 403, 404, 408, 409, 413, 415, 422, 503),
    openapi_extra=described(NewConfirmation),
)
async def confirm_regression(request: RegressionRequest) -> ConfirmationAnswer:
    """Settle a finding by two jobs, the first without its change; see `ConfirmationAnswer`."""
    body = await request.read(NewConfirmation)
    jobs = (body["base_job"], body["job"])
    try:
        return await run_in_threadpool(_confirmed, request, jobs)
    except NotComparable as error:
        raise Problem(ProblemKind.CONFLICT, str(error)) from error


def _confirmed(request: Acting, jobs: tuple[str, str]) -> ConfirmationAnswer:
    now_us, store = request.state.now_us(), request.state.store
    with store.reading() as conn:
        stored = request.apply(conn, regressions.get)
        runs = settled_by(conn, stored.project_id, stored.standing.finding, jobs, now_us)
    if called := _CALLED.get(runs.settled.outcome):
        act = Act(request.acts.key.prefix, _why(runs, jobs), now_us)
        triage = partial(regressions.triage, project_id=stored.project_id, called=called, act=act)
        details = {"verdict": called, "jobs": list(jobs), "why": act.why}
        admin_act = request.act_of(Action.REGRESSION_TRIAGED, details)
        request.acts.write(partial(triage, regression_id=stored.id), admin_act)
    return ConfirmationAnswer.of(runs, regression=stored.id)


def _why(runs: SettledRuns, jobs: tuple[str, str]) -> str:
    settled, (base, other) = runs.settled, jobs
    interval = f"{settled.low:.2f} to {settled.high:.2f}"
    return f"{other} takes x {settled.ratio:.2f} ({interval}) of {base}"
