"""Which attempt an opaque id stands for: exemplars on ``/metrics`` name no jobs."""

import re
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Depends, Path
from pydantic import ConfigDict, Field

from ett_service.api.answers import Answer
from ett_service.api.deps import Reader, ReadingKey, only_declared_parameters
from ett_service.api.jobs.listing import known_ledger
from ett_service.api.problems import Kind, Problem, declared
from ett_service.storage.metrics import counter_samples
from ett_service.storage.record.keys import Key

router = APIRouter(
    prefix="/v1/attempts", tags=["jobs"], dependencies=[Depends(only_declared_parameters)]
)

_ID = re.compile(r"([0-9a-f]{16})-([0-9]{1,9})", re.ASCII)
_EXAMPLE_ID = "9f86d081884c7d65-1"
_EXAMPLE_PATH = "/v1/jobs/llm-70b"


class AttemptLinks(Answer):
    """Where to read on."""

    job: str = Field(description="Its numbers.")
    ledger: str
    trace: str


class AttemptPlace(Answer):
    """Of which job an attempt is, and which of its attempts."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "project": "research",
                "job": "llm-70b",
                "number": 1,
                "launch": "4711",
                "attempt": 1,
                "cycle": 0,
                "links": {
                    "job": f"{_EXAMPLE_PATH}?project=research",
                    "ledger": f"{_EXAMPLE_PATH}/ledger?project=research",
                    "trace": f"{_EXAMPLE_PATH}/trace?project=research",
                },
            }
        }
    )

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
        str, Path(description="`attempt_id` of an exemplar.", examples=[_EXAMPLE_ID])
    ],
    key: ReadingKey,
    conn: Reader,
) -> AttemptPlace:
    """Tell which attempt an exemplar of `/metrics` names.

    The number is a place in the order of the job's attempts: where one becomes known later that
    came before, the id stands for the one that has the number now.
    """
    named = _ID.fullmatch(attempt_id)
    found = None if named is None else counter_samples.job_of(conn, named[1])
    if named is None or found is None or not _may_read(key, found.project_id):
        raise _unknown()
    attempts = known_ledger(conn, found.project_id, found.job).attempts
    number = int(named[2])
    if number >= len(attempts):
        raise _unknown()
    return AttemptPlace(
        project=found.project,
        job=found.job,
        number=number,
        launch=attempts[number].launch,
        attempt=attempts[number].attempt,
        cycle=attempts[number].cycle,
        links=_links(found.project, found.job),
    )


def _may_read(key: Key, project_id: int) -> bool:
    return key.project_id == project_id or "fleet" in key.scopes


def _unknown() -> Problem:
    return Problem(Kind.NOT_FOUND, "No such attempt.")


def _links(project: str, job: str) -> AttemptLinks:
    path, query = f"/v1/jobs/{quote(job, safe='')}", f"?project={quote(project, safe='')}"
    return AttemptLinks(
        job=path + query, ledger=f"{path}/ledger{query}", trace=f"{path}/trace{query}"
    )
