"""How ETT% would change with scale."""

from dataclasses import dataclass, replace
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from fastapi.responses import Response
from pydantic import Field, WithJsonSchema

from ett_service.api.answers import Answer, ComputedAnswer, Finite, Of, QuestionAnswer, Ratio
from ett_service.api.bodies import FormatParameter, as_files, listed
from ett_service.api.deps import (
    Reader,
    ScopeParameter,
    State,
    WindowParameter,
    at_once,
    only_declared_parameters,
)
from ett_service.core.fleet.totals import Totals
from ett_service.fleet.projection import (
    ASSUMPTION,
    SCALES,
    Counted,
    Input,
    Inputs,
    measured,
    project,
)
from ett_service.fleet.scope import BadQuestion
from ett_service.fleet.uncertainty import CONFIDENCE
from ett_service.storage.fleet import rollups

router = APIRouter(
    prefix="/v1/fleet", tags=["decisions"], dependencies=[Depends(only_declared_parameters)]
)

MOST_SCALES = 100
MOST_ACCELERATORS = 10**7

Rate = Annotated[float | None, Query(ge=0, le=1e6, allow_inf_nan=False)]
Duration = Annotated[float | None, Query(ge=0, le=1e9, allow_inf_nan=False)]


class InputAnswer(Answer):
    """An input of the projection."""

    value: float | None = Field(description="Null where it is neither measured nor given.")
    n: int | None = Field(description="The number of observations; null for a given value.")
    low: float | None = Field(description="Null except for a measured rate.")
    high: float | None


class InputsAnswer(Answer):
    """The inputs that every scale shares."""

    failures_counted: Counted
    failures_per_node_day: InputAnswer
    save_seconds: InputAnswer = Field(validation_alias="save")
    restart_seconds: InputAnswer = Field(validation_alias="restart")
    accelerators_per_node: int
    missing: list[str] = Field(description="Parameters to give, since nothing was measured.")


class ScaleAnswer(Answer):
    """The projection for a number of accelerators."""

    accelerators: int
    mtbf_seconds: Finite = Field(
        validation_alias="mtbf", description="Of the whole run; null where nothing fails."
    )
    interval_seconds: Finite = Field(
        validation_alias="interval",
        description="Between checkpoints: the given one, else the best. Null: never save.",
    )
    ett_ratio: Ratio = Field(description="The renewal form, exact for the assumed model.")
    low: float | None = Field(description="For the highest likely rate of failures.")
    high: float | None
    published_ratio: float = Field(
        description="The short published form; below 0 where it does not hold."
    )
    published_error: float = Field(description="`published_ratio` minus `ett_ratio`.")
    best_interval_seconds: Finite = Field(validation_alias="best_interval")
    best_ett_ratio: Ratio


class ProjectionAnswer(QuestionAnswer, ComputedAnswer):
    """ETT% by scale, from measured and given inputs."""

    inputs: InputsAnswer
    points: list[ScaleAnswer] = Field(description="Empty while inputs are missing.")
    confidence: Annotated[float, Of(lambda _: CONFIDENCE)] = Field(description="Of the bounds.")
    assumption: Annotated[str, Of(lambda _: ASSUMPTION)]


@dataclass(frozen=True, kw_only=True)
class GivenInputs:
    """The inputs in the query, which replace measured ones."""

    failures_per_node_day: Rate = None
    save_seconds: Annotated[Duration, Query(description="How long a save blocks the loop.")] = None
    restart_seconds: Annotated[
        Duration, Query(description="From a failure until training resumes.")
    ] = None
    interval_seconds: Annotated[
        float | None,
        Query(gt=0, le=1e9, allow_inf_nan=False, description="By default the best at each scale."),
    ] = None

    def over(self, inputs: Inputs) -> Inputs:
        """Replace measured inputs with given ones."""
        return replace(
            inputs,
            failures_per_node_day=_either(self.failures_per_node_day, inputs.failures_per_node_day),
            save=_either(self.save_seconds, inputs.save),
            restart=_either(self.restart_seconds, inputs.restart),
            interval=self.interval_seconds,
        )


def _either(given: float | None, measured_input: Input) -> Input:
    return measured_input if given is None else Input(given)


_NUMBER = r"\s*0{0,6}(?:[1-9][0-9]{0,6}|10000000)\s*"
_NUMBERS = {
    "type": "string",
    "maxLength": 1000,
    "pattern": f"^{_NUMBER}(?:,{_NUMBER}){{0,{MOST_SCALES - 1}}}$",
}


def _scales(
    accelerators: Annotated[
        Annotated[str, WithJsonSchema(_NUMBERS)] | None,
        Query(
            description="Numbers separated by commas; by default 8 and its doublings to 131,072.",
            max_length=1000,
            examples=["1024,16384"],
        ),
    ] = None,
) -> tuple[int, ...]:
    if accelerators is None:
        return SCALES
    texts = accelerators.split(",")
    if len(texts) > MOST_SCALES:
        raise BadQuestion("accelerators", "too_many", f"There may be {MOST_SCALES} numbers.")
    return tuple(map(_scale, texts))


def _scale(text: str) -> int:
    digits = text.strip().lstrip("0")
    is_whole = (
        digits.isascii() and digits.isdigit() and len(digits) < len(str(10 * MOST_ACCELERATORS))
    )
    if not is_whole or not 1 <= int(digits) <= MOST_ACCELERATORS:
        raise BadQuestion(
            "accelerators", "bad_number", f"Each is a whole number from 1 to {MOST_ACCELERATORS}."
        )
    return int(digits)


@router.get(
    "/projection",
    operation_id="project_fleet",
    response_model=ProjectionAnswer,
    responses=as_files(),
)
def project_fleet(
    scope: ScopeParameter,
    window: WindowParameter,
    given: Annotated[GivenInputs, Depends(at_once(GivenInputs))],
    scales: Annotated[tuple[int, ...], Depends(_scales)],
    state: State,
    conn: Reader,
    *,
    failures: Annotated[
        Counted,
        Query(
            description="The failures that scale with nodes: those of origin `infra` (`nodes`), "
            "preemptions too (`infra`), or all."
        ),
    ] = "nodes",
    form: FormatParameter = "json",
) -> ProjectionAnswer | Response:
    """Project the ETT% of a long run by its scale, at the measured rate of failures.

    Failures, saves and restarts are measured in the window unless they are given. If all of them
    are given, the window does not matter.
    """
    cohorts = rollups.totals(conn, scope.cohorts, window)
    totals = sum(cohorts.values(), Totals.ZERO)
    inputs = given.over(measured(totals, failures, state.economy.accelerators_per_node))
    answer = ProjectionAnswer.of(
        scope,
        window,
        as_of=state.now_us(),
        inputs=InputsAnswer.of(inputs, failures_counted=failures),
        points=project(inputs, scales),
    )
    return listed(form, answer, answer.points, of=ScaleAnswer, name="projection")
