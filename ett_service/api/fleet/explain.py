"""Why the fleet's ETT% changed from one window to another."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query
from fastapi.responses import Response
from pydantic import ConfigDict, Field

from ett_service.api.answers import Answer, Instant, Ratio, Seconds
from ett_service.api.deps import Reader, only_declared_parameters
from ett_service.api.fleet.question import AskedScope, AskedWindow, GroupBy
from ett_service.api.formats import FormatParameter, as_files, listed
from ett_service.api.parameters import At
from ett_service.api.problems import declared
from ett_service.api.rendering import seconds
from ett_service.core.fleet.decomposition import UNITS
from ett_service.core.intervals import HOUR_US, rfc3339
from ett_service.core.words import Category
from ett_service.fleet import scope as scopes
from ett_service.fleet.explain import Cause, Comparison, Explanation, Side, Weighting, explain
from ett_service.fleet.scope import BadQuestion, Exclusions, Window
from ett_service.storage.fleet.job_sums import JobWeight

router = APIRouter(
    prefix="/v1/fleet", tags=["fleet"], dependencies=[Depends(only_declared_parameters)]
)

_UNITS_A_POINT = UNITS // 100

Points = Annotated[float, Field(description="Percentage points of ETT%, ten decimals.")]

_JOB: dict[str, Any] = {
    "job": "llm-70b",
    "project": "research",
    "base_seconds": 48_000.0,
    "current_seconds": 91_200.0,
}
_PART: dict[str, Any] = {
    "group": {"model": "llm-70b"},
    "other": False,
    "part": "pt2_compile",
    "points": -0.6,
    "base": 0.04,
    "current": 0.07,
    "jobs": [_JOB],
}
_EXAMPLE: dict[str, Any] = {
    "base": {
        "from": "2026-03-02T00:00:00.000000Z",
        "to": "2026-03-09T00:00:00.000000Z",
        "jobs": 120,
        "seconds": 4.0e8,
        "ett_ratio": 0.893,
    },
    "current": {
        "from": "2026-03-09T00:00:00.000000Z",
        "to": "2026-03-16T00:00:00.000000Z",
        "jobs": 131,
        "seconds": 4.4e8,
        "ett_ratio": 0.884,
    },
    "weighting": "accelerators",
    "group_by": ["model"],
    "where": {},
    "exclusions": "left_out",
    "comparable": True,
    "change_points": -0.9,
    "mix_points": -0.2,
    "within_points": -0.7,
    "within": {"pt2_compile": -0.6, "restart_wait": -0.1},
    "parts": [_PART],
    "rest": {"parts": 3, "points": -0.3},
}


class SideAnswer(Answer):
    """One of the two windows."""

    from_at: Instant = Field(alias="from")
    to: Instant
    jobs: int = Field(description="With time in it.")
    seconds: Seconds = Field(description="All their time, weighted as asked.")
    ett_ratio: Ratio = Field(description="Twelve decimals; 0 for no time.")


class JobWeightAnswer(Answer):
    """What a job spent on the part, weighted as asked; of `mix`, all its time."""

    job: str
    project: str
    base_seconds: Seconds
    current_seconds: Seconds


class PartAnswer(Answer):
    """A cause of the change."""

    group: dict[str, str | None] = Field(description="The cohort; null where unknown.")
    other: bool = Field(description="Whether it is what the cap on cohorts left over.")
    part: Category | Literal["mix"]
    points: Points
    base: float = Field(
        description="Of `mix` the cohort's share of all time, else the category's share of the "
        "cohort's time, in the base window."
    )
    current: float = Field(description="The same in the current window.")
    jobs: list[JobWeightAnswer] = Field(
        description="Those with the most of that time in one of the windows, at most `jobs`."
    )


class RestAnswer(Answer):
    """The parts that are too small to be listed."""

    parts: int
    points: Points


class ExplanationAnswer(Answer):
    """The change and its parts, the largest first."""

    model_config = ConfigDict(json_schema_extra={"example": _EXAMPLE})

    base: SideAnswer
    current: SideAnswer
    weighting: Weighting
    group_by: list[str]
    where: dict[str, list[str]]
    exclusions: Exclusions
    comparable: bool = Field(description="False where a window holds no time: there are no parts.")
    change_points: Points = Field(
        description="Current minus base; 0 where they are not comparable. `parts` and `rest` sum "
        "to it to the last of ten decimals."
    )
    mix_points: Points = Field(description="Because cohorts grew and shrank.")
    within_points: Points = Field(description="Because time inside cohorts was spent otherwise.")
    within: dict[Category, float] = Field(description="The same by category, over all cohorts.")
    parts: list[PartAnswer]
    rest: RestAnswer


def _base(
    current: AskedWindow,
    base_from: Annotated[
        At, Query(description="By default so long before `base_to` as the other window is.")
    ] = None,
    base_to: Annotated[At, Query(description="By default `from`.")] = None,
) -> Window:
    end = current.from_us if base_to is None else -(-base_to // HOUR_US) * HOUR_US
    length = current.to_us - current.from_us
    start = end - length if base_from is None else base_from // HOUR_US * HOUR_US
    if start > end:
        raise BadQuestion(
            "base_from", "from_after_to", "It may not be after `base_to`, by default `from`."
        )
    return Window(start, end)


def _comparison(
    scope: AskedScope,
    current: AskedWindow,
    base: Annotated[Window, Depends(_base)],
    group_by: GroupBy = "model",
    weighting: Annotated[
        Weighting, Query(description="What a second counts for: its accelerators, or one.")
    ] = "accelerators",
) -> Comparison:
    grouped = replace(scope, group_by=scopes.group_by(group_by))
    return Comparison(grouped, base, current, weighting)


@router.get(
    "/explain",
    operation_id="explain_fleet",
    response_model=ExplanationAnswer,
    responses={**as_files(), **declared(401, 403, 404, 422, 503)},
)
def explain_fleet(
    asked: Annotated[Comparison, Depends(_comparison)],
    conn: Reader,
    limit: Annotated[int, Query(ge=1, le=200, description="Parts that are listed.")] = 20,
    jobs: Annotated[int, Query(ge=0, le=20, description="Jobs that are named for each.")] = 3,
    form: FormatParameter = "json",
) -> ExplanationAnswer | Response:
    """Split the change of ETT% between two windows into parts that add up to it.

    `mix` is what a cohort adds by being a larger or smaller part of all time; the other parts are
    what it adds by spending another share of its own time on a category. See "Why did it
    change?" in docs/definitions.md.
    """
    answer = _answer(asked, explain(conn, asked, most_parts=limit, most_jobs=jobs))
    return listed(form, answer, answer.parts, of=PartAnswer, name="explain")


def _answer(asked: Comparison, told: Explanation) -> ExplanationAnswer:
    within = {
        category: _points(units)
        for category in Category
        if (units := told.within_units.get(category, 0))
    }
    comparable = told.base.us > 0 and told.current.us > 0
    return ExplanationAnswer(
        base=_side(told.base),
        current=_side(told.current),
        weighting=asked.weighting,
        group_by=list(asked.scope.group_by),
        where={name: sorted(values) for name, values in sorted(asked.scope.where.items())},
        exclusions=asked.scope.exclusions,
        comparable=comparable,
        change_points=_points(told.current.units - told.base.units if comparable else 0),
        mix_points=_points(told.mix_units),
        within_points=_points(sum(told.within_units.values())),
        within=within,
        parts=[_part(cause) for cause in told.causes],
        rest=RestAnswer(parts=told.rest, points=_points(told.rest_units)),
    )


def _points(units: int) -> float:
    return units / _UNITS_A_POINT


def _side(side: Side) -> SideAnswer:
    return SideAnswer(
        **{"from": rfc3339(side.window.from_us)},
        to=rfc3339(side.window.to_us),
        jobs=side.jobs,
        seconds=seconds(side.us),
        ett_ratio=side.units / UNITS,
    )


def _part(cause: Cause) -> PartAnswer:
    return PartAnswer(
        group=_known(cause.group),
        other=cause.other,
        part=cause.category or "mix",
        points=_points(cause.units),
        base=cause.base,
        current=cause.current,
        jobs=[_weight(job) for job in cause.jobs],
    )


def _known(group: Mapping[str, str]) -> dict[str, str | None]:
    return {name: value or None for name, value in group.items()}


def _weight(job: JobWeight) -> JobWeightAnswer:
    return JobWeightAnswer(
        job=job.job,
        project=job.project,
        base_seconds=seconds(job.base_us),
        current_seconds=seconds(job.current_us),
    )
