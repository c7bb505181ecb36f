"""Two sets of jobs compared directly: versions, weeks, clusters, or any two."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response

from ett_service.api.deps import AppParts, ProjectId, Reader, only_declared_parameters
from ett_service.api.formats import FormatParameter, as_files, listed
from ett_service.api.parameters import At
from ett_service.api.problems import declared
from ett_service.api.regressions.comparison_answers import (
    CAUTION,
    BoundsAnswer,
    ComparedAnswer,
    ComparisonAnswer,
    LevelAnswer,
    SetAnswer,
    UnlikeAnswer,
)
from ett_service.api.regressions.rendering import finite
from ett_service.api.rendering import maybe_instant, maybe_seconds
from ett_service.core.regressions.finding import Unit
from ett_service.detection.comparison.compare import Compared, Comparison, Level, Members, compare
from ett_service.detection.comparison.job_sets import ETT_RATIO, FAILURE_RATE, JobSet, job_set
from ett_service.detection.ranks import CONFIDENCE, Ranked

router = APIRouter(
    prefix="/v1/regressions/compare",
    tags=["regressions"],
    dependencies=[Depends(only_declared_parameters)],
)

_UNITS: dict[str, Unit] = {ETT_RATIO: "ratio", FAILURE_RATE: "failures_per_gpu_hour"}
_CONDITIONS = (
    "`DIMENSION:VALUE` or `job:PATTERN`, as `code_version:4.2` or `job:nightly-*`, split at the "
    "first colon. Of several of one name any will do; those of different ones must all hold."
)


def _base(
    base: Annotated[tuple[str, ...], Query(description=_CONDITIONS)] = (),
    base_from: Annotated[At, Query(description="Of attempts that start at or after.")] = None,
    base_to: Annotated[At, Query(description="Of attempts that start before.")] = None,
) -> JobSet:
    return job_set(base, (base_from, base_to), "base")


def _with(
    with_: Annotated[tuple[str, ...], Query(alias="with", description=_CONDITIONS)] = (),
    with_from: Annotated[At, Query(description="Of attempts that start at or after.")] = None,
    with_to: Annotated[At, Query(description="Of attempts that start before.")] = None,
) -> JobSet:
    return job_set(with_, (with_from, with_to), "with")


@router.get(
    "",
    operation_id="compare_jobs",
    response_model=ComparisonAnswer,
    responses={**as_files(), **declared(401, 403, 404, 422, 503)},
)
def compare_jobs(
    conn: Reader,
    project_id: ProjectId,
    base: Annotated[JobSet, Depends(_base)],
    other: Annotated[JobSet, Depends(_with)],
    parts: AppParts,
    form: FormatParameter = "json",
) -> ComparisonAnswer | Response:
    """Compare two sets of a project's attempts, each given by conditions and a stretch of time.

    What is in both counts for `with` only, so that `base` may be everything. Excluded time is left
    out. See "Two sets of jobs" in docs/definitions.md.
    """
    found = compare(conn, project_id, base, other, parts.now_us())
    answer = _answer(found, base, other)
    return listed(form, answer, answer.compared, of=ComparedAnswer, name="comparison")


def _answer(found: Comparison, base: JobSet, other: JobSet) -> ComparisonAnswer:
    return ComparisonAnswer(
        base=_set(base, found.base),
        **{"with": _set(other, found.other)},
        compared=[_compared(one) for one in found.compared],
        start_shares=dict(found.start_shares),
        unlike=[
            UnlikeAnswer(
                dimension=one.dimension, base=one.base, **{"with": one.other}, apart=one.apart
            )
            for one in found.unlike
        ],
        confidence=CONFIDENCE,
        note=CAUTION,
    )


def _set(asked: JobSet, members: Members) -> SetAnswer:
    return SetAnswer(
        where={name: sorted(values) for name, values in sorted(asked.where.items())},
        jobs=list(asked.jobs),
        **{"from": maybe_instant(asked.from_us)},
        to=maybe_instant(asked.to_us),
        job_count=members.jobs,
        attempts=members.attempts,
        gpu_hours=members.gpu_hours,
    )


def _compared(one: Compared) -> ComparedAnswer:
    unit = _UNITS.get(one.figure, "seconds")
    return ComparedAnswer(
        figure=one.figure,
        unit=unit,
        base=_level(one.base, unit),
        **{"with": _level(one.other, unit)},
        ratio=finite(None if one.ranked is None else one.ranked.ratio),
        ratio_interval=_interval(one.ranked),
        worse_by=finite(one.worse_by),
        p=None if one.ranked is None else one.ranked.p,
        p_corrected=one.p,
        smallest_ratio=finite(one.smallest),
        outcome=one.outcome,
    )


def _level(level: Level, unit: Unit) -> LevelAnswer:
    value = maybe_seconds(level.value) if unit == "seconds" else level.value
    return LevelAnswer(n=level.n, value=value)


def _interval(ranked: Ranked | None) -> BoundsAnswer | None:
    if ranked is None:
        return None
    return BoundsAnswer(low=finite(ranked.low), high=finite(ranked.high))
