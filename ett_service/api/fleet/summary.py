"""The fleet: where its accelerators' time goes, in all, by group, over time and by job."""

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query
from fastapi.responses import Response

from ett_service.api.deps import AppParts, Reader, only_declared_parameters
from ett_service.api.fleet.answers import (
    FleetSeries,
    FleetSummary,
    PointAnswer,
    TopJobAnswer,
    TopJobs,
)
from ett_service.api.fleet.groups import GroupAnswer
from ett_service.api.fleet.question import AskedScope, AskedWindow, GroupBy
from ett_service.api.fleet.rendering import (
    asked_members,
    group_answer,
    group_members,
    top_job_answer,
)
from ett_service.api.formats import FormatParameter, as_files, listed
from ett_service.api.problems import declared
from ett_service.core.intervals import rfc3339
from ett_service.fleet import scope, summary
from ett_service.fleet.scope import STEPS, Scope
from ett_service.fleet.series import series, top_jobs

router = APIRouter(
    prefix="/v1/fleet", tags=["fleet"], dependencies=[Depends(only_declared_parameters)]
)

_RESPONSES = {**as_files(), **declared(401, 403, 404, 422, 503)}


def _grouped(asked: AskedScope, group_by: GroupBy = None) -> Scope:
    return Scope(asked.project_ids, asked.where, scope.group_by(group_by), asked.exclusions)


GroupedScope = Annotated[Scope, Depends(_grouped)]

Distributions = Annotated[
    bool,
    Query(
        description="Without distributions (`false`) what is read from them is null, and large "
        "windows are answered sooner."
    ),
]


@router.get(
    "/summary",
    operation_id="read_fleet_summary",
    response_model=FleetSummary,
    responses=_RESPONSES,
)
def read_summary(
    asked: GroupedScope,
    window: AskedWindow,
    conn: Reader,
    parts: AppParts,
    *,
    sort: Annotated[
        summary.GroupOrder,
        Query(description="The groups with most weighted, or lost, time first; or by name."),
    ] = "weighted",
    limit: Annotated[int, Query(ge=1, le=10_000, description="Groups at most.")] = 1000,
    distributions: Distributions = True,
    form: FormatParameter = "json",
) -> FleetSummary | Response:
    """Tell what the fleet's time in a window went into, in all and by group.

    As a file it holds the groups; without `group_by` the one that is all.
    """
    found = summary.summary(
        conn, asked, window, parts.economy, order=sort, distributions=distributions
    )
    shown = [group_answer(one, distributions=distributions) for one in found.groups[:limit]]
    total = group_answer(found.total, distributions=distributions)
    answer = FleetSummary(
        **asked_members(asked, window, parts.now_us()),
        total=total,
        groups=shown,
        group_count=len(found.groups),
        other_cohorts=found.other_cohorts,
    )
    rows = shown if asked.group_by else [total]
    return listed(form, answer, rows, of=GroupAnswer, name="fleet-summary")


@router.get(
    "/series", operation_id="read_fleet_series", response_model=FleetSeries, responses=_RESPONSES
)
def read_series(
    asked: GroupedScope,
    window: AskedWindow,
    conn: Reader,
    parts: AppParts,
    *,
    step: Annotated[
        Literal["1h", "1d", "1w"],
        Query(description="Hours and days of UTC, or ISO weeks, which begin on Monday."),
    ] = "1d",
    distributions: Distributions = True,
    form: FormatParameter = "json",
) -> FleetSeries | Response:
    """Tell the same step by step. There are at most 10,000 points."""
    found = series(conn, asked, window, parts.economy, STEPS[step], distributions=distributions)
    points = [
        PointAnswer(
            **group_members(point.group, distributions=distributions),
            start=rfc3339(point.start_us),
            end=rfc3339(point.end_us),
            partial=point.partial,
        )
        for point in found
    ]
    answer = FleetSeries(**asked_members(asked, window, parts.now_us()), step=step, points=points)
    return listed(form, answer, points, of=PointAnswer, name="fleet-series")


@router.get("/jobs/top", operation_id="list_top_jobs", response_model=TopJobs, responses=_RESPONSES)
def list_top_jobs(
    asked: AskedScope,
    window: AskedWindow,
    conn: Reader,
    parts: AppParts,
    *,
    by: Annotated[
        str,
        Query(
            description="`lost` (weighted time that was not effective), `category:` and one of "
            "them (its weighted time), or `cost`.",
            max_length=100,
            examples=["category:pt2_compile"],
        ),
    ] = "lost",
    limit: Annotated[int, Query(ge=1, le=1000)] = 20,
    form: FormatParameter = "json",
) -> TopJobs | Response:
    """List the jobs that the window's time went into most; those without any are left out."""
    found = [top_job_answer(one) for one in top_jobs(conn, asked, window, parts.economy, by, limit)]
    answer = TopJobs(
        **asked_members(asked, window, parts.now_us()),
        by=by,
        currency=parts.economy.currency,
        jobs=found,
    )
    return listed(form, answer, found, of=TopJobAnswer, name="top-jobs")
