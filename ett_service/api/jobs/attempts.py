"""The attempt that an opaque id stands for: exemplars on ``/metrics`` name no jobs."""

import re
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Depends, Path
from pydantic import Field

from ett_service.api.answers import Answer
from ett_service.api.deps import Reader, ReadingKey, only_declared_parameters
from ett_service.api.jobs.listing import ledger_of
from ett_service.api.problems import Problem, ProblemKind, declared
from ett_service.storage.metrics import counters
from ett_service.storage.record.keys import Key

router = APIRouter(
    prefix="/v1/attempts", tags=["jobs"], dependencies=[Depends(only_declared_parameters)]
)

_ID = re.compile(r"([0-9a-f]{16})-([0-9]{1,9})", re.ASCII)


class AttemptLinks(Answer):
    """Where to read on."""

    job: str = Field(description="The job's results.")
    ledger: str
    trace: str


class AttemptPlace(Answer):
    """The job and the attempt that an exemplar names."""

    project: str
    job: str
    number: int
    launch: str
    attempt: int
    cycle: int
    links: AttemptLinks


@router.get(
    "/{attempt_id}", operation_id="read_attempt", responses=declared(401, 403, 404, 422, 503)
)
def read_attempt(
    attempt_id: Annotated[
        str, Path(description="`attempt_id` of an exemplar.", examples=["9f86d081884c7d65-1"])
    ],
    key: ReadingKey,
    conn: Reader,
) -> AttemptPlace:
    """Return the attempt that an exemplar of `/metrics` names.

    The id contains the attempt's number. If an earlier attempt becomes known later, numbers
    change, and the id stands for the attempt that has the number now.
    """
    parsed = _ID.fullmatch(attempt_id)
    owner = None if parsed is None else counters.job_of(conn, parsed[1])
    if parsed is None or owner is None or not _may_read(key, owner.project_id):
        raise _unknown()
    attempts = ledger_of(conn, owner.project_id, owner.job).attempts
    number = int(parsed[2])
    if number >= len(attempts):
        raise _unknown()
    links = _links(owner.project, owner.job)
    return AttemptPlace.of(owner, attempts[number], number=number, links=links)


def _may_read(key: Key, project_id: int) -> bool:
    return key.project_id == project_id or "fleet" in key.scopes


def _unknown() -> Problem:
    return Problem(ProblemKind.NOT_FOUND, "No such attempt.")


def _links(project: str, job: str) -> AttemptLinks:
    path, query = f"/v1/jobs/{quote(job, safe='')}", f"?project={quote(project, safe='')}"
    return AttemptLinks(
        job=path + query, ledger=f"{path}/ledger{query}", trace=f"{path}/trace{query}"
    )
