"""The durable checkpoints of a job."""

from fastapi import APIRouter, Depends, Response
from pydantic import Field

from ett_service.api.answers import Answer, Instant, Seconds
from ett_service.api.bodies import FormatParameter, as_files, listed
from ett_service.api.deps import Job, ProjectId, Reader, only_declared_parameters
from ett_service.api.problems import Problem, ProblemKind, declared
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
    answer = CheckpointsAnswer(job=job, checkpoints=[CheckpointAnswer.of(each) for each in saved])
    return listed(form, answer, answer.checkpoints, of=CheckpointAnswer, name="checkpoints")
