"""Deleting a job for good."""

import logging
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from pydantic import Field

from ett_service.api.answers import Answer
from ett_service.api.deps import AdministeredId, AdminKey, Job, State, only_declared_parameters
from ett_service.api.problems import Problem, ProblemKind, declared
from ett_service.storage import deletion
from ett_service.storage.record.dirty_marks import JobKey

_log = logging.getLogger(__name__)

router = APIRouter(tags=["jobs"], dependencies=[Depends(only_declared_parameters)])


class DeletionAnswer(Answer):
    """What was stored of a job."""

    job: str
    deleted: bool = Field(description="False for a dry run.")
    events: int
    attempts: int
    corrections: int


@router.delete(
    "/v1/jobs/{job}",
    operation_id="delete_job",
    responses=declared(401, 403, 404, 422, 503),
)
def delete_job(
    job: Job,
    key: AdminKey,
    project_id: AdministeredId,
    state: State,
    dry_run: Annotated[bool, Query(description="Only count what would be deleted.")] = False,
) -> DeletionAnswer:
    """Delete a job: its events, its results, its share of the fleet's totals, its corrections.

    This cannot be undone. Sending its events again creates a new job of the same name.
    """
    of = JobKey(project_id, job)
    if dry_run:
        with state.store.reading() as conn:
            holdings = deletion.holdings(conn, of)
    else:
        holdings = state.store.write(lambda conn: deletion.delete_job(conn, of))
    if holdings is None:
        raise Problem(ProblemKind.NOT_FOUND, "No such job.")
    if not dry_run:
        _log.warning(
            "A job was deleted.",
            extra={
                "event": "job_deleted",
                "project_id": project_id,
                "job_key": job,
                "key": key.prefix,
            },
        )
    return DeletionAnswer.of(holdings, job=job, deleted=not dry_run)
