"""The fleet's time step by step, and its jobs with the largest losses.

Its routes are of the router of the summary, so that they follow it wherever routes are listed.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated

from fastapi import Query
from fastapi.responses import Response
from pydantic import AliasPath, Field, WithJsonSchema

from ett_service.api.answers import (
    Answer,
    ByCategory,
    ComputedAnswer,
    Instant,
    QuestionAnswer,
    Ratio,
    Seconds,
    WeightedSeconds,
    Words,
    with_facts,
)
from ett_service.api.bodies import OF_WINDOW, FormatParameter, as_files, listed, listed_in_pieces
from ett_service.api.deps import (
    GroupedScope,
    Reader,
    Reading,
    ScopeParameter,
    State,
    Step,
    WindowParameter,
)
from ett_service.api.fleet.summary import (
    RESPONSES,
    Distributions,
    GroupAnswer,
    Measures,
    by_word,
    router,
)
from ett_service.api.problems import declared
from ett_service.core.dimensions import JOB_DIMENSIONS
from ett_service.core.fleet.totals import Totals
from ett_service.core.words import Category, JobState
from ett_service.fleet.scope import STEPS
from ett_service.fleet.series import (
    MEASURES_OF_JOBS,
    FleetStep,
    most_points,
    series,
    top_jobs,
    trend,
)


class TimeStep(Answer):
    """One step of time."""

    start: Instant = Field(validation_alias="start_us")
    end: Instant = Field(validation_alias="end_us")
    partial: bool = Field(
        description="Whether the window cuts the step. Only the part inside counts."
    )


class PointAnswer(GroupAnswer, TimeStep):
    """A group in one step."""


class FleetSeries(QuestionAnswer):
    """A window step by step."""

    step: Annotated[str, Words(tuple(STEPS))]
    points: list[PointAnswer] = Field(
        description="By time, then group. With groups, those without time are left out."
    )


class _TopJob(ComputedAnswer):
    job: str
    project: str
    state: JobState


class TopJobAnswer(with_facts(_TopJob, "name", *JOB_DIMENSIONS)):  # type: ignore[misc]
    """A job's contribution to the window."""

    gpus: int | None
    attempts: int = Field(description="Attempts that started in the window.")
    failures: int
    e2e_seconds: Seconds
    weighted_seconds: WeightedSeconds
    gpu_seconds: WeightedSeconds
    lost_weighted_seconds: WeightedSeconds
    lost_gpu_seconds: WeightedSeconds = Field(
        description="The part of it in which accelerators were held."
    )
    weighted_categories: Annotated[ByCategory, by_word(Totals.category_weighted_us, Category)]
    gpu_categories: Annotated[ByCategory, by_word(Totals.category_gpu_us, Category)]
    ett_ratio: Ratio
    unsaved_training_seconds: Seconds = Field(validation_alias="unsaved_us")
    cost: float | None = Field(
        validation_alias=AliasPath("cost", "total"),
        description="Null while any of its time has no price.",
    )


class TopJobs(QuestionAnswer):
    """The jobs with the largest values of `by`, the largest first."""

    by: str
    currency: str
    jobs: list[TopJobAnswer]


_POINT_BYTES = 4 << 10
"""About the size of one point."""


@router.get(
    "/series", operation_id="read_fleet_series", response_model=FleetSeries, responses=RESPONSES
)
def read_series(
    scope: GroupedScope,
    window: WindowParameter,
    conn: Reader,
    state: State,
    reading: Reading,
    *,
    step: Step = "1d",
    distributions: Distributions = True,
    form: FormatParameter = "json",
) -> Response:
    """Return the same as the summary, step by step. There are at most 10,000 points."""
    step_us = STEPS[step]
    points = most_points(conn, scope, window, step_us)
    reading.take(points * _POINT_BYTES)
    pieces = series(
        conn, scope, window, state.economy, step_us, points=points, distributions=distributions
    )
    answer = FleetSeries.of(scope, window, as_of=state.now_us(), step=step, points=[])
    answers = _points(pieces, distributions=distributions)
    return listed_in_pieces(
        form, answer, answers, of=PointAnswer, name="fleet-series", check=reading.check
    )


def _points(
    pieces: Iterable[Sequence[FleetStep]], *, distributions: bool
) -> Iterator[Sequence[PointAnswer]]:
    nothing: PointAnswer | None = None
    for piece in pieces:
        answers = []
        for point in piece:
            if point.group.parts:
                answers.append(PointAnswer.read(point.group, point, distributions=distributions))
                continue
            # Those without time differ in the step alone, and a window may be full of them.
            nothing = nothing or PointAnswer.read(point.group, point, distributions=distributions)
            step = TimeStep.of(point)
            answers.append(nothing.model_copy(update=dict(step)))
        yield answers


@router.get("/jobs/top", operation_id="list_top_jobs", response_model=TopJobs, responses=as_files())
def list_top_jobs(
    scope: ScopeParameter,
    window: WindowParameter,
    conn: Reader,
    state: State,
    *,
    by: Annotated[
        Annotated[str, WithJsonSchema({"type": "string", "enum": [*MEASURES_OF_JOBS]})],
        Query(
            description="`lost` (weighted time that was not effective training), `lost_gpu` (its "
            "part in which accelerators were held), `category:` and a category (its weighted "
            "time), or `cost`.",
        ),
    ] = "lost",
    limit: Annotated[int, Query(ge=1, le=1000)] = 20,
    form: FormatParameter = "json",
) -> TopJobs | Response:
    """List the jobs with the largest lost time, time in a category, or cost in a window.

    Jobs whose value is 0 are left out.
    """
    jobs = [
        TopJobAnswer.of(job, job.facts, Measures(job.totals))
        for job in top_jobs(conn, scope, window, state.economy, by, limit)
    ]
    answer = TopJobs.of(
        scope, window, as_of=state.now_us(), by=by, currency=state.economy.currency, jobs=jobs
    )
    return listed(form, answer, jobs, of=TopJobAnswer, name="top-jobs")


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
    responses={**as_files(OF_WINDOW), **declared(401, 403, 404, 410, 422, 503)},
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
