"""Jobs: which there are, and what one of them spent its time on."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Response
from sqlalchemy import Connection

from ett_service.api import cursor as cursors
from ett_service.api.answers import (
    AttemptAnswer,
    AttemptList,
    JobAnswer,
    JobPage,
    JobSummary,
    LedgerAnswer,
    SegmentAnswer,
)
from ett_service.api.deps import AppParts, Job, ProjectId, Reader, only_declared_parameters
from ett_service.api.formats import FormatParameter, as_files, listed
from ett_service.api.parameters import At, CursorText, Text
from ett_service.api.problems import Kind, Problem, declared
from ett_service.api.rendering import attempt_answer, job_answer, ledger_answer, summary
from ett_service.core.intervals import rfc3339
from ett_service.core.ledger.results import JobLedger
from ett_service.core.words import JobState
from ett_service.fleet.economy import job_parts, productivity
from ett_service.storage.jobs import ledgers, listing
from ett_service.storage.record import corrections
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.storage.schema.record import EXCLUSION

router = APIRouter(
    prefix="/v1/jobs", tags=["jobs"], dependencies=[Depends(only_declared_parameters)]
)

Sort = Literal[
    "-started_at", "-ended_at", "-job", "-e2e_seconds", "-ett_ratio", "-failures",
    "-unsaved_training_seconds",
    "started_at", "ended_at", "job", "e2e_seconds", "ett_ratio", "failures",
    "unsaved_training_seconds",
]  # fmt: skip

_PLACES: dict[str, Any] = {
    "job": tuple[str, cursors.Word, cursors.Word],
    "ett_ratio": tuple[str, float, cursors.Word],
}
_NUMBERED = tuple[str, cursors.Whole, cursors.Word]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The query of a list of jobs."""

    team: Text = None
    model: Text = None
    cluster: Text = None
    hardware: Text = None
    kind: Text = None
    state: Annotated[JobState | None, Query()] = None
    from_us: Annotated[At, Query(alias="from", description="Jobs alive at or after it.")] = None
    to_us: Annotated[At, Query(alias="to", description="Jobs that began before it.")] = None
    q: Annotated[Text, Query(description="Part of the job's key or name, in any case.")] = None
    sort: Annotated[Sort, Query(description="`-` puts the largest first.")] = "-started_at"
    limit: Annotated[int, Query(ge=1, le=1000)] = 100
    cursor: CursorText = None

    @property
    def wanted(self) -> listing.JobFilter:
        """The filters that were given."""
        given = {name: getattr(self, name) for name in listing.EXACT}
        return listing.JobFilter(
            equal={name: value for name, value in given.items() if value is not None},
            from_us=self.from_us,
            to_us=self.to_us,
            contains=self.q,
        )


@router.get(
    "",
    operation_id="list_jobs",
    response_model=JobPage,
    responses={**as_files(paged=True), **declared(401, 403, 404, 422, 503)},
)
def list_jobs(
    asked: Annotated[Asked, Depends()],
    conn: Reader,
    project_id: ProjectId,
    form: FormatParameter = "json",
) -> JobPage | Response:
    """List the jobs of a project, a page at a time."""
    order = asked.sort.removeprefix("-")
    rows = listing.jobs(
        conn,
        project_id,
        asked.wanted,
        sort=order,
        descending=asked.sort.startswith("-"),
        limit=asked.limit + 1,
        after=_place(asked),
    )
    shown, more = rows[: asked.limit], len(rows) > asked.limit
    training = listing.training_us(conn, project_id, [row.job for row in shown])
    page = JobPage(
        jobs=[summary(row, training.get(row.job, (0, 0))) for row in shown],
        next_cursor=_cursor(asked.sort, shown[-1]) if more else None,
    )
    return listed(form, page, page.jobs, of=JobSummary, name="jobs", next_cursor=page.next_cursor)


def _cursor(sort: str, last: Any) -> str:
    return cursors.write((sort, last.place, last.job))


def _place(asked: Asked) -> listing.JobPosition | None:
    if asked.cursor is None:
        return None
    shape = _PLACES.get(asked.sort.removeprefix("-"), _NUMBERED)
    sort, value, job = cursors.read(asked.cursor, shape)
    if sort != asked.sort:
        raise cursors.refused()
    return listing.JobPosition(value=value, job=job)


@router.get("/{job}", operation_id="read_job", responses=declared(401, 403, 404, 422, 503))
def read_job(job: Job, conn: Reader, project_id: ProjectId, parts: AppParts) -> JobAnswer:
    """Tell all numbers of a job."""
    ledger = known_ledger(conn, project_id, job)
    key = JobKey(project_id, job)
    exclusions = corrections.standing(conn, key, EXCLUSION)
    produced = productivity(job_parts(conn, project_id, job), parts.economy)
    return job_answer(job, ledger, exclusions, produced)


@router.get(
    "/{job}/ledger",
    operation_id="read_ledger",
    response_model=LedgerAnswer,
    responses={**as_files(), **declared(401, 403, 404, 422, 503)},
)
def read_ledger(
    job: Job, conn: Reader, project_id: ProjectId, form: FormatParameter = "json"
) -> LedgerAnswer | Response:
    """Tell the segments that partition the job's E2E."""
    ledger = known_ledger(conn, project_id, job)
    answer = ledger_answer(job, ledger, ledgers.segments(conn, project_id, job))
    return listed(form, answer, answer.segments, of=SegmentAnswer, name="segments")


@router.get(
    "/{job}/attempts",
    operation_id="list_attempts",
    response_model=AttemptList,
    responses={**as_files(), **declared(401, 403, 404, 422, 503)},
)
def list_attempts(
    job: Job, conn: Reader, project_id: ProjectId, form: FormatParameter = "json"
) -> AttemptList | Response:
    """List the lives of the job's training processes, in their order."""
    ledger = known_ledger(conn, project_id, job)
    answer = AttemptList(
        job=job,
        as_of=rfc3339(ledger.as_of),
        attempts=[attempt_answer(attempt) for attempt in ledger.attempts],
    )
    return listed(form, answer, answer.attempts, of=AttemptAnswer, name="attempts")


def known_ledger(conn: Connection, project_id: int, job: str) -> JobLedger:
    """Read the numbers of a job, without its segments.

    Raises:
        Problem: 404.
    """
    ledger = ledgers.job_ledger(conn, project_id, job)
    if ledger is None:
        raise Problem(
            Kind.NOT_FOUND, "No such job. One that just sent its first events has no numbers yet."
        )
    return ledger
