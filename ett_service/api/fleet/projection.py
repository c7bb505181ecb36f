"""How ETT% would move with scale."""

from dataclasses import dataclass, replace
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from fastapi.responses import Response
from pydantic import ConfigDict, Field

from ett_service.api.answers import Answer, Ratio
from ett_service.api.deps import AppParts, Reader, only_declared_parameters
from ett_service.api.fleet.answers import EXAMPLE_ASKED, AskedAnswer
from ett_service.api.fleet.estimate_answers import finite
from ett_service.api.fleet.question import AskedScope, AskedWindow
from ett_service.api.fleet.rendering import asked_members
from ett_service.api.formats import FormatParameter, as_files, listed
from ett_service.api.problems import declared
from ett_service.core.fleet.totals import Totals
from ett_service.fleet.projection import (
    ASSUMPTION,
    SCALES,
    Counted,
    Input,
    Inputs,
    ScalePoint,
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

_POINT: dict[str, Any] = {
    "accelerators": 16384,
    "mtbf_seconds": 11135.1,
    "interval_seconds": 1116.3,
    "ett_ratio": 0.85255,
    "low": 0.83910,
    "high": 0.86502,
    "published_ratio": 0.85029,
    "published_error": -0.00226,
    "best_interval_seconds": 1116.3,
    "best_ett_ratio": 0.85255,
}
_INPUT: dict[str, Any] = {"value": 0.003789, "n": 419, "low": 0.003435, "high": 0.004169}

Rate = Annotated[float | None, Query(ge=0, le=1e6, allow_inf_nan=False)]
Length = Annotated[float | None, Query(ge=0, le=1e9, allow_inf_nan=False)]


class InputAnswer(Answer):
    """A number that the projection rests on."""

    value: float | None = Field(description="Null where it is neither measured nor given.")
    n: int | None = Field(description="How many observations it has; null where it was given.")
    low: float | None = Field(description="Null unless it is a measured rate.")
    high: float | None


class InputsAnswer(Answer):
    """What every scale has in common."""

    failures_counted: Counted
    failures_per_node_day: InputAnswer
    save_seconds: InputAnswer
    restart_seconds: InputAnswer
    accelerators_per_node: int
    missing: list[str] = Field(description="Parameters to give, since nothing was measured.")


class ScaleAnswer(Answer):
    """A number of accelerators."""

    accelerators: int
    mtbf_seconds: float | None = Field(description="Of the whole run; null where nothing fails.")
    interval_seconds: float | None = Field(
        description="Between checkpoints: what was given, else the best. Null: never to save."
    )
    ett_ratio: Ratio = Field(description="The renewal form, exact for the model assumed.")
    low: float | None = Field(description="For the highest likely rate of failures.")
    high: float | None
    published_ratio: float = Field(
        description="The short published form; below 0 where it fails altogether."
    )
    published_error: float = Field(description="`published_ratio` minus `ett_ratio`.")
    best_interval_seconds: float | None
    best_ett_ratio: Ratio


class ProjectionAnswer(AskedAnswer):
    """ETT% by scale, from what was measured in the window and from what was given."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                **EXAMPLE_ASKED,
                "group_by": [],
                "inputs": {
                    "failures_counted": "nodes",
                    "failures_per_node_day": _INPUT,
                    "save_seconds": {"value": 60.0, "n": 812, "low": None, "high": None},
                    "restart_seconds": {"value": 600.0, "n": None, "low": None, "high": None},
                    "accelerators_per_node": 8,
                    "missing": [],
                },
                "points": [_POINT],
                "confidence": CONFIDENCE,
                "assumption": "Every node fails at random, independently and at one rate (...)",
            }
        }
    )

    inputs: InputsAnswer
    points: list[ScaleAnswer] = Field(description="Empty while inputs are missing.")
    confidence: float = Field(description="Of the bounds.")
    assumption: str


@dataclass(frozen=True, kw_only=True)
class Given:
    """What goes before what was measured."""

    failures_per_node_day: Rate = None
    save_seconds: Annotated[Length, Query(description="That a save stops the loop.")] = None
    restart_seconds: Annotated[
        Length, Query(description="From a failure until it trains again.")
    ] = None
    interval_seconds: Annotated[
        float | None,
        Query(gt=0, le=1e9, allow_inf_nan=False, description="By default the best at each scale."),
    ] = None

    def over(self, inputs: Inputs) -> Inputs:
        """Put what was given in place of what was measured."""
        return replace(
            inputs,
            failures_per_node_day=_either(self.failures_per_node_day, inputs.failures_per_node_day),
            save=_either(self.save_seconds, inputs.save),
            restart=_either(self.restart_seconds, inputs.restart),
            interval=self.interval_seconds,
        )


def _either(given: float | None, found: Input) -> Input:
    return found if given is None else Input(given)


def _scales(
    accelerators: Annotated[
        str | None,
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
    digits = text.strip()
    known = digits.isascii() and digits.isdigit() and len(digits) < len(str(10 * MOST_ACCELERATORS))
    if not known or not 1 <= int(digits) <= MOST_ACCELERATORS:
        raise BadQuestion(
            "accelerators", "bad_number", f"Each is a whole number from 1 to {MOST_ACCELERATORS}."
        )
    return int(digits)


@router.get(
    "/projection",
    operation_id="project_fleet",
    response_model=ProjectionAnswer,
    responses={**as_files(), **declared(401, 403, 404, 422, 503)},
)
def project_fleet(
    scope: AskedScope,
    window: AskedWindow,
    given: Annotated[Given, Depends()],
    scales: Annotated[tuple[int, ...], Depends(_scales)],
    parts: AppParts,
    conn: Reader,
    *,
    failures: Annotated[
        Counted,
        Query(
            description="Which come with nodes: those of origin `infra` (`nodes`), preemptions "
            "too (`infra`), or all."
        ),
    ] = "nodes",
    form: FormatParameter = "json",
) -> ProjectionAnswer | Response:
    """Tell the ETT% of a long run by its scale, at the rate of failures that was measured.

    Failures, saves and restarts are those of the window unless they are given; with all of them
    given the window does not matter.
    """
    found = rollups.totals(conn, scope.cohorts, window)
    totals = sum(found.values(), Totals.ZERO)
    inputs = given.over(measured(totals, failures, parts.economy.accelerators_per_node))
    answer = ProjectionAnswer(
        **asked_members(scope, window, parts.now_us()),
        inputs=inputs_answer(inputs, failures),
        points=[scale_answer(point) for point in project(inputs, scales)],
        confidence=CONFIDENCE,
        assumption=ASSUMPTION,
    )
    return listed(form, answer, answer.points, of=ScaleAnswer, name="projection")


def inputs_answer(inputs: Inputs, counted: Counted) -> InputsAnswer:
    """Answer what a projection rests on."""
    return InputsAnswer(
        failures_counted=counted,
        failures_per_node_day=_input(inputs.failures_per_node_day),
        save_seconds=_input(inputs.save),
        restart_seconds=_input(inputs.restart),
        accelerators_per_node=inputs.accelerators_per_node,
        missing=inputs.missing,
    )


def _input(one: Input) -> InputAnswer:
    return InputAnswer(value=one.value, n=one.n, low=one.low, high=one.high)


def scale_answer(point: ScalePoint) -> ScaleAnswer:
    """Answer one scale."""
    return ScaleAnswer(
        accelerators=point.accelerators,
        mtbf_seconds=finite(point.mtbf),
        interval_seconds=finite(point.interval),
        ett_ratio=point.ett_ratio,
        low=point.low,
        high=point.high,
        published_ratio=point.published_ratio,
        published_error=point.published_error,
        best_interval_seconds=finite(point.best_interval),
        best_ett_ratio=point.best_ett_ratio,
    )
