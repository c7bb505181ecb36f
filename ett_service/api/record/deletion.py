"""Deleting a job for good."""

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from pydantic import Field
from sqlalchemy import Connection

from ett_service.api.answers import Answer
from ett_service.api.deps import AdministeredId, Job, State, only_declared_parameters
from ett_service.api.problems import Problem, ProblemKind, declared
from ett_service.api.record.acts import AdminActs
from ett_service.storage import deletion
from ett_service.storage.deletion import Holdings
from ett_service.storage.record.audit import Action, AdminAct
from ett_service.storage.record.dirty_marks import JobKey

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
    acts: AdminActs,
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
        holdings = state.store.write(lambda conn: _delete(conn, of, acts))
    if holdings is None:
        raise Problem(ProblemKind.NOT_FOUND, "No such job.")
    return DeletionAnswer.of(holdings, job=job, deleted=not dry_run)


def _delete(conn: Connection, of: JobKey, acts: AdminActs) -> Holdings | None:
    holdings = deletion.delete_job(conn, of)
    if holdings is not None:
        acts.record(conn, AdminAct(Action.JOB_DELETED, of.job, of.project_id, asdict(holdings)))
    return holdings
