"""Deleting a job for good."""

import logging
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from pydantic import ConfigDict, Field

from ett_service.api.answers import Answer
from ett_service.api.deps import AdministeredId, AdminKey, AppParts, Job, only_declared_parameters
from ett_service.api.problems import Kind, Problem, declared
from ett_service.storage import deletion
from ett_service.storage.record.dirty_marks import JobKey

_log = logging.getLogger(__name__)

router = APIRouter(tags=["jobs"], dependencies=[Depends(only_declared_parameters)])


class DeletionAnswer(Answer):
    """What was known of a job."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "job": "llm-70b",
                "deleted": True,
                "events": 4211,
                "attempts": 3,
                "corrections": 0,
            }
        }
    )

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
    parts: AppParts,
    dry_run: Annotated[bool, Query(description="Only tell what would be deleted.")] = False,
) -> DeletionAnswer:
    """Delete a job: its events, its numbers, its part of the fleet's, its corrections.

    Nothing brings it back but sending its events again, which makes a new job of its name.
    """
    of = JobKey(project_id, job)
    if dry_run:
        with parts.store.reading() as conn:
            held = deletion.holdings(conn, of)
    else:
        held = parts.store.write(lambda conn: deletion.delete_job(conn, of))
    if held is None:
        raise Problem(Kind.NOT_FOUND, "No such job.")
    if not dry_run:
        said = {"event": "job_deleted", "project_id": project_id, "job_key": job, "key": key.prefix}
        _log.warning("A job was deleted.", extra=said)
    return DeletionAnswer(
        job=job,
        deleted=not dry_run,
        events=held.events,
        attempts=held.attempts,
        corrections=held.corrections,
    )
