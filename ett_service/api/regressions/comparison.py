"""Two sets of jobs compared directly: versions, weeks, clusters, or any two."""

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Response
from pydantic import AliasPath, Field

from ett_service.api.answers import (
    Answer,
    ComputedAnswer,
    Finite,
    Instant,
    Of,
    PointsOfUnits,
    Ratio,
    SortedValues,
    Sources,
    seconds,
)
from ett_service.api.bodies import FormatParameter, as_files, listed
from ett_service.api.deps import (
    AT_MOST,
    At,
    ProjectId,
    Reader,
    State,
    condition,
    only_declared_parameters,
)
from ett_service.core.fleet.decomposition import UNITS, Decomposition, in_units
from ett_service.core.regressions.finding import Unit
from ett_service.core.words import Category
from ett_service.detection.comparison.compare import Difference, Level, compare
from ett_service.detection.comparison.job_sets import NAMES, JobSet, job_set
from ett_service.detection.comparison.set_figures import ETT_RATIO, FAILURE_RATE
from ett_service.detection.ranks import CONFIDENCE

router = APIRouter(
    prefix="/v1/regressions/compare",
    tags=["regressions"],
    dependencies=[Depends(only_declared_parameters)],
)

CAUTION = (
    "A difference is associated with the sets, not shown to be caused by what was chosen: they may "
    "differ in other things, too. Attempts count as independent of each other."
)

_UNITS: dict[str, Unit] = {ETT_RATIO: "ratio", FAILURE_RATE: "failures_per_gpu_hour"}
_CONDITIONS = (
    "`DIMENSION:VALUE` or `job:PATTERN`, for example `code_version:4.2` or `job:nightly-*`, split "
    "at the first colon. Several of one name are alternatives. Different names must all match."
)

Factor = Annotated[Finite, Field(description="A factor; null where it has no bound.")]


class SetAnswer(Answer):
    """One of the sets: its conditions and its size."""

    where: Annotated[dict[str, list[str]], SortedValues]
    jobs: list[str] = Field(description="Patterns of names, which are alternatives.")
    from_at: Instant | None = Field(serialization_alias="from", validation_alias="from_us")
    to: Instant | None = Field(validation_alias="to_us")
    job_count: int = Field(validation_alias=AliasPath("members", "jobs"))
    attempts: int = Field(validation_alias=AliasPath("members", "attempts"))
    gpu_hours: float = Field(
        validation_alias=AliasPath("members", "gpu_hours"),
        description="Of attempts whose accelerators are known.",
    )
    drawn_from: int | None = Field(
        validation_alias=AliasPath("members", "drawn_from"),
        description="Of how many jobs a random sample was read, of which all figures are: at most "
        "1,000 of a set are, unless it names jobs. Null where all were read.",
    )


class LevelAnswer(Answer):
    """A figure in one of the sets."""

    n: int = Field(
        description="The number of attempts; for `time_to_start` and `ett_ratio`, of jobs; for "
        "the failure rate, of failures."
    )
    value: float | None = Field(description="The median, or the rate; null where there is none.")


class BoundsAnswer(Answer):
    """The bounds of a factor at the level `confidence`."""

    low: Factor
    high: Factor


def _unit(compared: Any) -> Unit:
    return _UNITS.get(compared.figure, "seconds")


def _level(side: Callable[[Any], Level]) -> Of:
    def compute(compared: Any) -> dict[str, Any]:
        level = side(compared)
        value = level.value
        if value is not None and _unit(compared) == "seconds":
            value = seconds(value)
        return {"n": level.n, "value": value}

    return Of(compute)


def _of_ranks(name: str) -> Of:
    return Of(lambda compared: getattr(compared.ranked, name, None))


class ComparedAnswer(ComputedAnswer):
    """A figure in both sets."""

    figure: str = Field(
        description="`time_to_start` of jobs, `attempt_start` of attempts, a phase, a stage such "
        "as `launcher_init/pre_train`, `ett_ratio` or `failures_per_gpu_hour`."
    )
    unit: Annotated[Unit, Of(_unit)]
    base: Annotated[LevelAnswer, _level(lambda compared: compared.base)]
    with_: Annotated[LevelAnswer, _level(lambda compared: compared.other)] = Field(
        serialization_alias="with"
    )
    ratio: Annotated[Factor, _of_ranks("ratio")] = Field(
        description="`with` over `base`: the median of all pairs of values (Hodges and Lehmann), "
        "not the quotient of the two medians, from which it may differ."
    )
    ratio_interval: BoundsAnswer | None = Field(validation_alias="ranked")
    worse_by: Factor = Field(description="The same, inverted where more is better.")
    p: Annotated[float | None, _of_ranks("p")] = Field(
        description="Two-sided p-value of no difference (Mann and Whitney)."
    )
    p_corrected: Annotated[float | None, Of(lambda compared: compared.p)] = Field(
        description="Corrected for the number of figures (Holm); stages are corrected apart."
    )
    smallest_ratio: Factor = Field(
        validation_alias="smallest",
        description="The smallest factor that would be found in 8 of 10 cases with as many values "
        "of this spread; null where none would.",
    )
    outcome: Difference


class UnlikeAnswer(Answer):
    """A dimension or label in which the sets differ, and the most frequent value in each."""

    dimension: str
    base: str = Field(description="Empty where unknown.")
    with_: str = Field(serialization_alias="with", validation_alias="other")
    apart: float = Field(description="The share of attempts that would need another value.")


class EttPartAnswer(Answer):
    """What a category adds to the difference of ETT%."""

    category: Category
    points: PointsOfUnits
    base: Ratio = Field(description="The category's share of the time of the base.")
    with_: Ratio = Field(serialization_alias="with", description="The ratio of the jobs in `with`.")


class EttDifferenceAnswer(Answer):
    """ETT% by wall time of both sets, all of a set's time together, and what differs."""

    base_ratio: Ratio = Field(description="Twelve decimals; 0 for no time.")
    with_ratio: Ratio
    points: PointsOfUnits = Field(description="`with` minus `base`.")
    parts: list[EttPartAnswer] = Field(
        description="By category, the largest first. They sum to `points`, to the last of ten "
        "decimals; none where a set has no time."
    )


def _ett(comparison: Any) -> dict[str, Any]:
    split: Decomposition[None, Category] = comparison.ett
    rounded = in_units(split)
    parts = [
        {
            "category": part.word,
            "points": units,
            "base": float(part.base),
            "with_": float(part.current),
        }
        for part, units in zip(split.parts, rounded.parts, strict=True)
    ]
    return {
        "base_ratio": rounded.base / UNITS,
        "with_ratio": rounded.current / UNITS,
        "points": rounded.current - rounded.base if parts else 0,
        "parts": sorted(parts, key=lambda part: -abs(part["points"])),
    }


class ComparisonAnswer(ComputedAnswer):
    """Two sets side by side."""

    base: SetAnswer
    with_: SetAnswer = Field(serialization_alias="with")
    compared: list[ComparedAnswer]
    start_shares: dict[str, float] = Field(
        description="The share of each phase in the change of the mean `attempt_start`; sums to 1."
    )
    ett: Annotated[EttDifferenceAnswer, Of(_ett)]
    unlike: list[UnlikeAnswer]
    confidence: Annotated[float, Of(lambda _: CONFIDENCE)]
    note: Annotated[str, Of(lambda _: CAUTION)]


_OfConditions = tuple[Annotated[str, condition(NAMES)], ...]
Conditions = Annotated[_OfConditions, Query(json_schema_extra=AT_MOST, description=_CONDITIONS)]
From = Annotated[At, Query(description="Attempts that start at or after it.")]
To = Annotated[At, Query(description="Attempts that start before it.")]


async def _base(base: Conditions = (), base_from: From = None, base_to: To = None) -> JobSet:
    return job_set(base, (base_from, base_to), "base")


async def _with(
    with_: Annotated[
        _OfConditions, Query(alias="with", json_schema_extra=AT_MOST, description=_CONDITIONS)
    ] = (),
    with_from: From = None,
    with_to: To = None,
) -> JobSet:
    return job_set(with_, (with_from, with_to), "with")


@router.get("", operation_id="compare_jobs", response_model=ComparisonAnswer, responses=as_files())
def compare_jobs(
    conn: Reader,
    project_id: ProjectId,
    base: Annotated[JobSet, Depends(_base)],
    other: Annotated[JobSet, Depends(_with)],
    state: State,
    form: FormatParameter = "json",
) -> ComparisonAnswer | Response:
    """Compare two sets of a project's attempts, each given by conditions and a window of time.

    An attempt in both sets counts only for `with`, so `base` may be everything. Excluded time is
    left out. See "Two sets of jobs" in docs/definitions.md.
    """
    comparison = compare(conn, project_id, base, other, state.now_us())
    answer = ComparisonAnswer.of(
        comparison,
        base=Sources((base,), {"members": comparison.base}),
        with_=Sources((other,), {"members": comparison.other}),
    )
    return listed(form, answer, answer.compared, of=ComparedAnswer, name="comparison")
