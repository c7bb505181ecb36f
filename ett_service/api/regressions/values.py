"""The values behind a finding: what each attempt of the cohort took, before and after."""

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query, Response
from pydantic import Field

from ett_service.api.answers import Answer, Instant, Seconds
from ett_service.api.bodies import FormatParameter, as_files, listed
from ett_service.api.deps import ProjectIds, Reader, only_declared_parameters
from ett_service.api.problems import declared
from ett_service.api.regressions.listing import RegressionId, checked_id, unknown
from ett_service.core.regressions.finding import Finding
from ett_service.detection.comparison.job_sets import SetValue
from ett_service.detection.confirmation import finding_values
from ett_service.storage.regressions import regressions

router = APIRouter(
    prefix="/v1/regressions",
    tags=["regressions"],
    dependencies=[Depends(only_declared_parameters)],
)


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
    "/{regression_id}/values",
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
