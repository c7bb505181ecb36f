"""What a job produced in its effective training, over time."""

from itertools import groupby
from typing import Annotated

from fastapi import APIRouter, Depends
from fastapi.responses import Response
from pydantic import Field

from ett_service.api.answers import Answer, Instant, Words
from ett_service.api.bodies import FormatParameter, as_files, listed
from ett_service.api.deps import Job, ProjectId, Reader, State, Step, only_declared_parameters
from ett_service.api.jobs.listing import ledger_of
from ett_service.api.jobs.times import ProductivityAnswer
from ett_service.core.intervals import DAY_US, MONDAY_US
from ett_service.fleet.economy import job_parts, productivity
from ett_service.fleet.scope import MOST_POINTS, STEPS, BadQuestion

router = APIRouter(
    prefix="/v1/jobs", tags=["jobs"], dependencies=[Depends(only_declared_parameters)]
)


class ProductivePoint(ProductivityAnswer):
    """One step of a job."""

    start: Instant


class JobProductivity(Answer):
    """The productivity of a job's whole life, and step by step."""

    job: str
    as_of: Instant
    total: ProductivityAnswer
    step: Annotated[str, Words(tuple(STEPS))]
    points: list[ProductivePoint] = Field(description="The steps in which the job was alive.")


@router.get(
    "/{job}/productivity",
    operation_id="read_productivity",
    response_model=JobProductivity,
    responses=as_files(),
)
def read_productivity(
    job: Job,
    conn: Reader,
    project_id: ProjectId,
    state: State,
    *,
    step: Step = "1d",
    form: FormatParameter = "json",
) -> JobProductivity | Response:
    """Return throughput, MFU and the cost of tokens, in total and step by step."""
    ledger = ledger_of(conn, project_id, job)
    width = STEPS[step]
    parts = job_parts(conn, project_id, job, min(width, DAY_US))
    steps = groupby(parts, key=lambda part: part.at_us - (part.at_us - MONDAY_US) % width)
    points = [
        ProductivePoint.of(productivity([*inside], state.economy), start=start_us)
        for start_us, inside in steps
    ]
    if len(points) > MOST_POINTS:
        raise BadQuestion("step", "too_many_points", f"There may be at most {MOST_POINTS} points.")
    answer = JobProductivity.of(
        ledger, job=job, total=productivity(parts, state.economy), step=step, points=points
    )
    return listed(form, answer, points, of=ProductivePoint, name="productivity")
