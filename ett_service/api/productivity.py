"""What a job made of its effective training, over time."""

from itertools import groupby
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query
from fastapi.responses import Response
from pydantic import ConfigDict, Field

from ett_service.api.answers import Answer, Instant, ProductivityAnswer
from ett_service.api.deps import AppParts, Job, ProjectId, Reader, only_declared_parameters
from ett_service.api.formats import FormatParameter, as_files, listed
from ett_service.api.jobs import known_ledger
from ett_service.api.problems import declared
from ett_service.api.rendering import productivity_answer
from ett_service.core.intervals import DAY_US, MONDAY_US, rfc3339
from ett_service.fleet.economy import job_parts, productivity
from ett_service.fleet.scope import MOST_POINTS, STEPS, BadQuestion

router = APIRouter(
    prefix="/v1/jobs", tags=["jobs"], dependencies=[Depends(only_declared_parameters)]
)

_PRODUCTIVITY: dict[str, Any] = {
    "tokens": 3_000_000_000,
    "samples": 0,
    "tokens_per_second": 23310.0,
    "tokens_per_second_per_accelerator": 364.2,
    "samples_per_second": None,
    "samples_per_second_per_accelerator": None,
    "mfu": 0.41,
    "useful_ratio": 0.37,
    "cost_per_million_tokens": 1.9067,
}


class ProductivePoint(ProductivityAnswer):
    """One step of a job."""

    start: Instant


class JobProductivity(Answer):
    """A job's life as a whole, and step by step."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "job": "llm-70b",
                "as_of": "2026-03-01T10:00:00.000000Z",
                "total": _PRODUCTIVITY,
                "step": "1d",
                "points": [{"start": "2026-03-01T00:00:00.000000Z", **_PRODUCTIVITY}],
            }
        }
    )

    job: str
    as_of: Instant
    total: ProductivityAnswer
    step: Literal["1h", "1d", "1w"]
    points: list[ProductivePoint] = Field(description="Of steps in which the job lived.")


@router.get(
    "/{job}/productivity",
    operation_id="read_productivity",
    response_model=JobProductivity,
    responses={**as_files(), **declared(401, 403, 404, 422, 503)},
)
def read_productivity(
    job: Job,
    conn: Reader,
    project_id: ProjectId,
    parts: AppParts,
    *,
    step: Annotated[
        Literal["1h", "1d", "1w"],
        Query(description="Hours and days of UTC, or ISO weeks, which begin on Monday."),
    ] = "1d",
    form: FormatParameter = "json",
) -> JobProductivity | Response:
    """Tell throughput, MFU and the cost of tokens, in all and step by step."""
    ledger = known_ledger(conn, project_id, job)
    width = STEPS[step]
    found = job_parts(conn, project_id, job, min(width, DAY_US))
    steps = groupby(found, key=lambda part: part.at_us - (part.at_us - MONDAY_US) % width)
    points = [
        ProductivePoint(
            start=rfc3339(start_us),
            **productivity_answer(productivity([*inside], parts.economy)).model_dump(),
        )
        for start_us, inside in steps
    ]
    if len(points) > MOST_POINTS:
        raise BadQuestion("step", "too_many_points", f"There may be {MOST_POINTS} at most.")
    answer = JobProductivity(
        job=job,
        as_of=rfc3339(ledger.as_of),
        total=productivity_answer(productivity(found, parts.economy)),
        step=step,
        points=points,
    )
    return listed(form, answer, points, of=ProductivePoint, name="productivity")
