"""ETT% step by step, and no more of each step than a line with its table shows."""

from typing import Annotated

from fastapi import APIRouter, Depends
from fastapi.responses import Response
from pydantic import AliasPath, Field

from ett_service.api.answers import QuestionAnswer, Ratio, Seconds, Words
from ett_service.api.bodies import FormatParameter, as_files, listed
from ett_service.api.deps import (
    Reader,
    ScopeParameter,
    State,
    Step,
    WindowParameter,
    only_declared_parameters,
)
from ett_service.api.fleet.groups import WeightedSeconds
from ett_service.api.fleet.summary import TimeStep
from ett_service.api.problems import declared
from ett_service.fleet.scope import STEPS
from ett_service.fleet.series import trend

router = APIRouter(
    prefix="/v1/fleet", tags=["fleet"], dependencies=[Depends(only_declared_parameters)]
)


def _of_totals(name: str) -> AliasPath:
    return AliasPath("totals", name)


class TrendStepAnswer(TimeStep):
    """ETT% in one step. The members mean what they do in the summary."""

    ett_ratio: Ratio = Field(validation_alias=_of_totals("ett_ratio"))
    ett_ratio_wall: Ratio = Field(validation_alias=_of_totals("ett_ratio_wall"))
    e2e_seconds: Seconds = Field(validation_alias=_of_totals("e2e_us"))
    weighted_seconds: WeightedSeconds = Field(validation_alias=_of_totals("weighted_us"))
    gpu_seconds: WeightedSeconds = Field(validation_alias=_of_totals("gpu_us"))
    jobs: int
    failures: int


class TrendAnswer(QuestionAnswer):
    """ETT% of a window step by step."""

    step: Annotated[str, Words(tuple(STEPS))]
    target: float | None = Field(description="The ETT% aimed at; null without one.")
    points: list[TrendStepAnswer] = Field(description="By time; those without time, too.")


@router.get(
    "/trend",
    operation_id="read_fleet_trend",
    response_model=TrendAnswer,
    responses={**as_files(), **declared(401, 403, 404, 422, 503)},
)
def read_trend(
    scope: ScopeParameter,
    window: WindowParameter,
    conn: Reader,
    state: State,
    step: Step = "1d",
    form: FormatParameter = "json",
) -> TrendAnswer | Response:
    """Return ETT% step by step: of the series what a line shows, and several times sooner."""
    points = [TrendStepAnswer.of(each) for each in trend(conn, scope, window, STEPS[step])]
    answer = TrendAnswer.of(
        scope,
        window,
        as_of=state.now_us(),
        step=step,
        target=state.economy.target(scope.constant_labels),
        points=points,
    )
    return listed(form, answer, points, of=TrendStepAnswer, name="fleet-trend")
