"""The experiment that settles a finding: its values, which two runs to launch, the outcome."""

from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Response
from pydantic import AliasPath, Field
from sqlalchemy import Connection
from starlette.concurrency import run_in_threadpool

from ett_service.api.answers import (
    Answer,
    ComputedAnswer,
    EmptyIsNull,
    Instant,
    IntervalAnswer,
    Of,
    Seconds,
)
from ett_service.api.bodies import FormatParameter, as_files, described, listed
from ett_service.api.deps import ProjectIds, Reader, only_declared_parameters
from ett_service.api.problems import Problem, ProblemKind, declared
from ett_service.api.regressions.listing import RegressionId, checked_id, unknown
from ett_service.api.regressions.triage import Acting, RegressionRequest
from ett_service.core.regressions.confirmation import Quotient, Settlement
from ett_service.core.regressions.finding import Finding, Triage
from ett_service.detection.comparison.set_figures import SetValue
from ett_service.detection.confirmation import (
    NotComparable,
    SettledRuns,
    Suspects,
    experiment,
    finding_values,
    settled_by,
)
from ett_service.ingest.requests import NewConfirmation
from ett_service.storage.record.audit import Action
from ett_service.storage.regressions import regressions
from ett_service.storage.regressions.findings import Act, Regression

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
        "one-sided level of 5%."
    )


def _interval(quotient: Any) -> dict[str, float]:
    return {"low": quotient.low, "high": quotient.high}


class QuotientAnswer(ComputedAnswer):
    """How many times as long some starts take as others."""

    ratio: float
    interval: Annotated[IntervalAnswer, Of(_interval)] = Field(
        description="90% interval of the ratio."
    )


class ConfirmationAnswer(ComputedAnswer):
    """What two jobs, or several of two versions, say of a finding."""

    regression: str
    outcome: Settlement = Field(
        validation_alias=AliasPath("settled", "outcome"),
        description="`confirmed`: the second job is slower, and not by chance; the finding is "
        "triaged as `real`. `refuted`: half of the change is ruled out between them, and both are "
        "as before it; it is triaged as `noise`. `stands`: likewise, and both are as slow as after "
        "it; what they differ in is not the cause, which the history says, and the finding goes "
        "on. `open`: none of these, and nothing is changed.",
    )
    ratio: float = Field(
        validation_alias=AliasPath("settled", "runs", "ratio"),
        description="Second job over the first.",
    )
    interval: Annotated[IntervalAnswer, Of(lambda runs: _interval(runs.settled.runs))] = Field(
        description="90% interval of the ratio."
    )
    of_baseline: QuotientAnswer | None = Field(
        validation_alias=AliasPath("settled", "of_baseline"),
        description="Both jobs over what the finding's like durations were before the onset; null "
        "where they differ, and where none is of their kind of start, model, hardware, precision, "
        "kind and size.",
    )
    of_present: QuotientAnswer | None = Field(
        validation_alias=AliasPath("settled", "of_present"),
        description="Both jobs over those from the onset on.",
    )
    base_n: int = Field(description="Durations of the first job that were compared.")
    n: int = Field(description="Durations of the second job that were compared.")
    more: int = Field(
        description="Starts of each version, by as many jobs, still missing for 80% power."
    )


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
            conn,
            regression.project_id,
            regression.standing.finding,
            _suspects(conn, regression),
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
    """Settle a finding by two jobs, the first without its change; see `ConfirmationAnswer`.

    Each may be a pattern such as `probe-old-*` for several jobs. First starts are compared with
    first starts, and within the state of the compile cache. Jobs of another cohort, that are not
    alike or not of the two versions are refused with 409.
    """
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
        runs = settled_by(
            conn,
            stored.project_id,
            stored.standing.finding,
            _suspects(conn, stored),
            jobs,
            now_us,
        )
    outcome, act = runs.settled.outcome, Act(request.acts.key.prefix, _why(runs, jobs), now_us)
    if outcome is Settlement.STANDS:
        rule_out = partial(
            regressions.rule_out,
            project_id=stored.project_id,
            regression_id=stored.id,
            suspect=runs.suspect,
            act=act,
        )
        details = {"suspect": runs.suspect, "jobs": list(jobs), "why": act.why}
        request.acts.write(rule_out, request.act_of(Action.SUSPECT_RULED_OUT, details))
    elif called := _CALLED.get(outcome):
        triage = partial(regressions.triage, project_id=stored.project_id, called=called, act=act)
        details = {"verdict": called, "jobs": list(jobs), "why": act.why}
        admin_act = request.act_of(Action.REGRESSION_TRIAGED, details)
        request.acts.write(partial(triage, regression_id=stored.id), admin_act)
    return ConfirmationAnswer.of(runs, regression=stored.id)


def _suspects(conn: Connection, regression: Regression) -> Suspects:
    ruled_out = regressions.ruled_out(conn, regression.project_id, regression.id)
    return Suspects(regression.attribution.suspects, ruled_out)


def _why(runs: SettledRuns, jobs: tuple[str, str]) -> str:
    settled, (base, other) = runs.settled, jobs
    why = f"{other} takes {_factor(settled.runs)} of {base}"
    if settled.outcome is not Settlement.STANDS:
        return why
    levels = (("before it", settled.of_baseline), ("after it", settled.of_present))
    texts = (f"{_factor(level)} of what it was {when}" for when, level in levels if level)
    return f"{runs.suspect} is not its cause: {why}; both take {' and '.join(texts)}"


def _factor(quotient: Quotient) -> str:
    return f"x {quotient.ratio:.2f} ({quotient.low:.2f} to {quotient.high:.2f})"


class ValueAnswer(Answer):
    """What one attempt took."""

    job: str
    number: int = Field(description="The attempt's number.")
    at: Instant = Field(validation_alias="at_us", description="When it was over.")
    side: Literal["before", "after"]
    seconds: Seconds = Field(validation_alias="us")


class ValuesAnswer(Answer):
    """The values of the finding's series, as the record is now."""

    regression: str
    onset_at: Instant
    before_count: int = Field(description="The number of values before the onset.")
    after_count: int = Field(description="The number of values from the onset on.")
    every: int = Field(description="1 if all of them are listed, n if every n-th is, by time.")
    values: list[ValueAnswer] = Field(
        description="By time. Empty where the metric is no duration, such as `ett_ratio`, and for "
        "a cohort beyond the daily cap. The search leaves out days of maintenance, and values "
        "that came later are here as well, so `n` of `before` and `after` can differ."
    )


@router.get(
    "/values",
    operation_id="list_regression_values",
    response_model=ValuesAnswer,
    responses={**as_files(), **declared(401, 403, 404, 422, 503)},
)
def list_regression_values(
    regression_id: RegressionId,
    conn: Reader,
    project_ids: ProjectIds,
    most: Annotated[
        int | None,
        Query(ge=1, description="At most so many values: every n-th by time, from the first."),
    ] = None,
    form: FormatParameter = "json",
) -> ValuesAnswer | Response:
    """List what each attempt took before and after the onset of a finding."""
    regression = regressions.find(conn, project_ids, checked_id(regression_id))
    if regression is None:
        raise unknown()
    finding = regression.standing.finding
    values = finding_values(conn, regression.project_id, finding)
    every = max(1, -(-len(values) // (most or len(values) or 1)))
    shown = [ValueAnswer.of(value, side=_side(value, finding)) for value in values[::every]]
    before = sum(value.at_us < finding.onset_us for value in values)
    answer = ValuesAnswer.of(
        finding,
        regression=regression.id,
        onset_at=finding.onset_us,
        before_count=before,
        after_count=len(values) - before,
        every=every,
        values=shown,
    )
    return listed(form, answer, shown, of=ValueAnswer, name="regression-values")


def _side(value: SetValue, finding: Finding) -> str:
    return "before" if value.at_us < finding.onset_us else "after"
