"""The status endpoint of Kubeflow's trainer: what a trainer posts there, stored as events."""

import asyncio
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from pydantic import Field

from ett_service.api.answers import Answer
from ett_service.api.bodies import described, read_struct
from ett_service.api.deps import Job, State, WritingKey, only_declared_parameters
from ett_service.api.problems import Problem, ProblemKind, declared
from ett_service.api.record.events import count_verdicts
from ett_service.ingest.members import Frame
from ett_service.ingest.trainer_status import Trainer, TrainerStatusUpdate, accept

router = APIRouter(tags=["events"], dependencies=[Depends(only_declared_parameters)])


class TrainerStatusAnswer(Answer):
    """What became of a status. Its events are on stable storage."""

    accepted: int = Field(description="Events that were new.")
    duplicate: int


@router.post(
    "/v1/jobs/{job}/trainer-status",
    operation_id="accept_trainer_status",
    responses=declared(400, 401, 403, 404, 408, 413, 415, 422, 503),
    openapi_extra=described(TrainerStatusUpdate),
)
async def accept_trainer_status(
    request: Request,
    job: Job,
    key: WritingKey,
    state: State,
    launch: Annotated[
        str, Query(max_length=100, description="The scheduler's id of the submission.")
    ] = "",
    attempt: Annotated[
        int, Query(ge=0, le=2**31 - 1, description="Restarts of that submission.")
    ] = 0,
) -> TrainerStatusAnswer:
    """Accept how far a trainer is, in the format of Kubeflow's trainer.

    Trainers with a callback for Kubeflow, such as Hugging Face's, need no code: set
    `KUBEFLOW_TRAINER_SERVER_URL` to this address and `KUBEFLOW_TRAINER_SERVER_TOKEN` to a file that
    holds a write key. A status without `current_step` begins an attempt and its training, one with
    it is progress, and 100 percent completes the job.
    """
    body = await read_struct(request, state, TrainerStatusUpdate)
    now_us = state.now_us()
    write = partial(
        accept,
        trainer=Trainer(job, launch, attempt),
        status=body.trainer_status,
        project_id=key.project_id,
        frame=Frame(state.limits, now_us),
    )
    verdicts = await asyncio.wrap_future(state.store.submit(write))
    count_verdicts(request, state, verdicts, now_us=now_us)
    if verdicts.errors:
        error = verdicts.errors[0]
        pointer = "/trainerStatus/lastUpdatedTime" if error.pointer.endswith("/at") else ""
        errors = [{"code": error.code.value, "pointer": pointer}]
        raise Problem(ProblemKind.VALIDATION_FAILED, "The status was rejected.", errors=errors)
    return TrainerStatusAnswer(accepted=verdicts.accepted, duplicate=verdicts.duplicate)
