"""What a job made over time: what its effective training produced, and its durable checkpoints."""

from itertools import groupby
from typing import Annotated

from fastapi import APIRouter, Depends, Response
from pydantic import Field

from ett_service.api.answers import Answer, Instant, Seconds, Words
from ett_service.api.bodies import FormatParameter, as_files, listed
from ett_service.api.deps import Job, ProjectId, Reader, State, Step, only_declared_parameters
from ett_service.api.jobs.listing import ledger_of
from ett_service.api.jobs.members import ProductivityAnswer
from ett_service.api.problems import Problem, ProblemKind, declared
from ett_service.core.intervals import DAY_US, MONDAY_US
from ett_service.fleet.economy import job_parts, productivity
from ett_service.fleet.scope import MOST_POINTS, STEPS, BadQuestion
from ett_service.storage.jobs import ledgers
from ett_service.storage.record.dirty_marks import JobKey

router = APIRouter(
    prefix="/v1/jobs", tags=["jobs"], dependencies=[Depends(only_declared_parameters)]
)


class CheckpointAnswer(Answer):
    """A checkpoint that became durable."""

    number: int = Field(description="The attempt's number.")
    saved_at: Instant
    step: int
    bytes: int | None
    duration_seconds: Seconds | None = Field(description="From its begin until it was durable.")


class CheckpointsAnswer(Answer):
    """The checkpoints that the ledger counts."""

    job: str
    checkpoints: list[CheckpointAnswer] = Field(description="By attempt, then by time.")


@router.get(
    "/{job}/checkpoints",
    operation_id="list_checkpoints",
    response_model=CheckpointsAnswer,
    responses={**as_files(), **declared(401, 403, 404, 422, 503)},
)
def list_checkpoints(
    job: Job, conn: Reader, project_id: ProjectId, form: FormatParameter = "json"
) -> CheckpointsAnswer | Response:
    """List the durable checkpoints of a job."""
    if ledgers.head(conn, JobKey(project_id, job)) is None:
        raise Problem(ProblemKind.NOT_FOUND, "No such job.")
    saved = ledgers.checkpoints(conn, project_id, job)
    answer = CheckpointsAnswer.of(job=job, checkpoints=saved)
    return listed(form, answer, answer.checkpoints, of=CheckpointAnswer, name="checkpoints")


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
