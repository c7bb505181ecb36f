"""Why the fleet's ETT% changed from one window to another."""

from dataclasses import replace
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query
from fastapi.responses import Response
from pydantic import Field

from ett_service.api.answers import (
    Answer,
    ComputedAnswer,
    Instant,
    NullIfEmpty,
    Of,
    PointsOfUnits,
    Ratio,
    Seconds,
    SortedValues,
    end_of,
    start_of,
)
from ett_service.api.bodies import OF_WINDOW, FormatParameter, as_files, listed
from ett_service.api.deps import (
    At,
    GroupBy,
    Reader,
    ScopeParameter,
    WindowParameter,
    only_declared_parameters,
)
from ett_service.core.fleet.decomposition import UNITS
from ett_service.core.intervals import HOUR_US
from ett_service.core.ledger.results import FORMULA_VERSION
from ett_service.core.words import Category, Owner, Period, Word
from ett_service.fleet import scope as scopes
from ett_service.fleet.explain import Comparison, Split, Weighting, explain
from ett_service.fleet.scope import BadQuestion, Exclusions, Window

router = APIRouter(
    prefix="/v1/fleet", tags=["fleet"], dependencies=[Depends(only_declared_parameters)]
)


class SideAnswer(ComputedAnswer):
    """One of the two windows."""

    from_at: Instant = start_of("window")
    to: Instant = end_of("window")
    jobs: int = Field(description="Jobs with time in it.")
    seconds: Seconds = Field(
        validation_alias="us", description="All their time, weighted by `weighting`."
    )
    ett_ratio: Annotated[Ratio, Of(lambda side: side.units / UNITS)] = Field(
        description="Twelve decimals; 0 for no time."
    )


class JobWeightAnswer(Answer):
    """A job's time in the part, weighted by `weighting`. For `mix`, all its time."""

    job: str
    project: str
    base_seconds: Seconds
    current_seconds: Seconds


PartWord = Category | Owner | Literal["training", "ending", "mix"]


def _part(cause: Any) -> str:
    return _named(cause.word) if cause.word else "mix"


def _named(word: Word) -> str:
    return word.value if isinstance(word, Period) else word


class PartAnswer(ComputedAnswer):
    """A cause of the change."""

    group: Annotated[dict[str, str | None], NullIfEmpty] = Field(
        description="The cohort; null where unknown."
    )
    other: bool = Field(description="Whether these are the cohorts beyond the daily cap.")
    part: Annotated[PartWord, Of(_part)]
    points: PointsOfUnits = Field(validation_alias="units")
    base: float = Field(
        description="For `mix`, the cohort's share of all time in the base window; else the "
        "part's share of the cohort's time."
    )
    current: float = Field(description="The same in the current window.")
    jobs: list[JobWeightAnswer] = Field(
        description="The jobs with the most of that time in one of the windows, at most `jobs`; "
        "of `training` those with the most wasted time."
    )


class RestAnswer(Answer):
    """The parts that are not listed."""

    parts: int = Field(validation_alias="rest")
    points: PointsOfUnits = Field(validation_alias="rest_units")


def _is_comparable(source: Any) -> bool:
    return bool(source.base.us > 0 and source.current.us > 0)


def _change(source: Any) -> int:
    return source.current.units - source.base.units if _is_comparable(source) else 0


def _within(source: Any) -> dict[str, int]:
    units = source.within_units
    return {_named(word): units[word] for word in source.words if units.get(word)}


class ExplanationAnswer(ComputedAnswer):
    """The change and its parts, the largest first."""

    base: SideAnswer
    current: SideAnswer
    formula_version: int = FORMULA_VERSION
    weighting: Weighting
    split: Split
    group_by: list[str]
    where: Annotated[dict[str, list[str]], SortedValues]
    exclusions: Exclusions
    comparable: Annotated[bool, Of(_is_comparable)] = Field(
        description="False where a window holds no time; then there are no parts."
    )
    change_points: Annotated[PointsOfUnits, Of(_change)] = Field(
        description="Current minus base; 0 where they are not comparable. `parts` and `rest` sum "
        "to it, to the last of ten decimals."
    )
    mix_points: PointsOfUnits = Field(
        validation_alias="mix_units", description="Because cohorts grew and shrank."
    )
    within_points: Annotated[
        PointsOfUnits, Of(lambda source: sum(source.within_units.values()))
    ] = Field(description="Because cohorts spent their time differently.")
    within: Annotated[dict[PartWord, PointsOfUnits], Of(_within)] = Field(
        description="The same by category or owner, over all cohorts."
    )
    parts: list[PartAnswer] = Field(validation_alias="causes")
    rest: Annotated[RestAnswer, Of(lambda source: source)]


async def _base(
    current: WindowParameter,
    base_from: Annotated[
        At, Query(description="By default the base window is as long as the other one.")
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


async def _comparison(
    scope: ScopeParameter,
    current: WindowParameter,
    base: Annotated[Window, Depends(_base)],
    group_by: GroupBy = "model",
    weighting: Annotated[
        Weighting, Query(description="The weight of a second: its accelerators, or one.")
    ] = "accelerators",
    split: Annotated[
        Split,
        Query(
            description="By what the change within cohorts is split: `category`; or `owner`, by "
            "whose wait a second was, beside the losses in `training` and the `ending`."
        ),
    ] = "category",
) -> Comparison:
    grouped = replace(scope, group_by=scopes.group_by(group_by))
    return Comparison(grouped, base, current, weighting, split)


@router.get(
    "/explain",
    operation_id="explain_fleet",
    response_model=ExplanationAnswer,
    responses=as_files(OF_WINDOW),
)
def explain_fleet(
    comparison: Annotated[Comparison, Depends(_comparison)],
    conn: Reader,
    limit: Annotated[int, Query(ge=1, le=200, description="At most so many parts.")] = 20,
    jobs: Annotated[int, Query(ge=0, le=20, description="At most so many jobs a part.")] = 3,
    form: FormatParameter = "json",
) -> ExplanationAnswer | Response:
    """Split the change of ETT% between two windows into parts that add up to it.

    The part `mix` of a cohort is due to its share of all time. The other parts are due to the
    share of its own time that it spent on a category, or waited for an owner. See "Why did it
    change?" in docs/definitions.md.
    """
    explanation = explain(conn, comparison, most_parts=limit, most_jobs=jobs)
    answer = ExplanationAnswer.of(explanation, comparison, comparison.scope)
    return listed(form, answer, answer.parts, of=PartAnswer, name="explain")
