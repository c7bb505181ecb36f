"""Jobs: which there are, and what one of them spent its time on."""

from collections.abc import Mapping
from dataclasses import dataclass
from inspect import Parameter, Signature
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Response
from sqlalchemy import Connection

from ett_service.api import pagination
from ett_service.api.bodies import OF_RECORD, FormatParameter, as_files, listed
from ett_service.api.deps import (
    At,
    Job,
    ProjectId,
    Reader,
    State,
    Text,
    at_once,
    only_declared_parameters,
)
from ett_service.api.jobs.answers import (
    AttemptAnswer,
    AttemptList,
    JobAnswer,
    JobPage,
    JobSummary,
    LedgerAnswer,
    SegmentAnswer,
)
from ett_service.api.jobs.members import CostAnswer
from ett_service.api.problems import Problem, ProblemKind, declared
from ett_service.core.dimensions import JOB_DIMENSIONS
from ett_service.core.ledger.results import JobLedger
from ett_service.core.words import Cause, JobState
from ett_service.fleet.economy import job_parts, productivity
from ett_service.storage.jobs import ledgers, listing
from ett_service.storage.record import corrections, dirty_marks
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.storage.record.pruned import pruned_us, require_record
from ett_service.storage.schema.record import EXCLUSION

router = APIRouter(
    prefix="/v1/jobs", tags=["jobs"], dependencies=[Depends(only_declared_parameters)]
)

JobOrder = Annotated[str, pagination.orders(listing.ORDERS)]

_PLACES: dict[str, Any] = {
    "job": tuple[str, pagination.Word, pagination.Word],
    "ett_ratio": tuple[str, float, pagination.Word],
    "lost_gpu_seconds": tuple[str, float, pagination.Word],
}
_BY_NUMBER = tuple[str, pagination.Whole, pagination.Word]


async def _of_dimensions(**values: str | None) -> dict[str, str]:
    return {name: value for name, value in values.items() if value is not None}


# FastAPI reads the parameters of a dependency from its signature: one for each dimension.
_of_dimensions.__signature__ = Signature(  # type: ignore[attr-defined]
    [Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=Text)
     for name in JOB_DIMENSIONS]
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class JobQuery:
    """The query of a list of jobs."""

    dimensions: Annotated[Mapping[str, str], Depends(_of_dimensions)]
    state: Annotated[JobState | None, Query()] = None
    from_us: Annotated[At, Query(alias="from", description="Jobs alive at or after it.")] = None
    to_us: Annotated[At, Query(alias="to", description="Jobs that started before it.")] = None
    cause: Annotated[
        Cause | None, Query(description="Jobs of which an attempt failed for this cause.")
    ] = None
    q: Annotated[Text, Query(description="Part of the job's key or name, case-insensitive.")] = None
    sort: Annotated[JobOrder, Query(description="`-` puts the largest first.")] = "-started_at"
    limit: pagination.Limit = 100
    cursor: pagination.Cursor = None

    @property
    def wanted(self) -> listing.JobFilter:
        """The filters that were given."""
        state = {} if self.state is None else {"state": self.state}
        return listing.JobFilter(
            equal={**self.dimensions, **state},
            from_us=self.from_us,
            to_us=self.to_us,
            contains=self.q,
            cause=self.cause,
        )

    @property
    def after(self) -> listing.JobPosition | None:
        """Where the page before ended."""
        if self.cursor is None:
            return None
        shape = _PLACES.get(self.sort.removeprefix("-"), _BY_NUMBER)
        sort, value, job = pagination.read(self.cursor, shape)
        if sort != self.sort:
            raise pagination.refused()
        return listing.JobPosition(value=value, job=job)


@router.get("", operation_id="list_jobs", response_model=JobPage, responses=as_files(paged=True))
def list_jobs(
    query: Annotated[JobQuery, Depends(at_once(JobQuery))],
    conn: Reader,
    project_id: ProjectId,
    form: FormatParameter = "json",
) -> JobPage | Response:
    """List the jobs of a project, a page at a time."""
    rows = listing.jobs(
        conn,
        project_id,
        query.wanted,
        sort=query.sort.removeprefix("-"),
        descending=query.sort.startswith("-"),
        limit=query.limit + 1,
        after=query.after,
    )
    shown, next_cursor = pagination.page(
        rows, query.limit, lambda row: (query.sort, row.place, row.job)
    )
    training = listing.training_us(conn, project_id, [row.job for row in shown])
    jobs = [JobSummary.of(row, training_us=training.get(row.job, (0, 0))) for row in shown]
    page = JobPage(jobs=jobs, next_cursor=next_cursor)
    return listed(form, page, jobs, of=JobSummary, name="jobs")


@router.get("/{job}", operation_id="read_job", responses=declared(401, 403, 404, 422, 503))
def read_job(job: Job, conn: Reader, project_id: ProjectId, state: State) -> JobAnswer:
    """Return all results of a job."""
    ledger = ledger_of(conn, project_id, job)
    parts, economy = job_parts(conn, project_id, job), state.economy
    key = JobKey(project_id, job)
    is_priced = bool(economy.prices) and not ledger.quality.gpus_unknown
    cost = CostAnswer.of(economy=economy, cost=economy.cost(parts)) if is_priced else None
    answer: JobAnswer = JobAnswer.of(
        ledger,
        ledger.facts,
        job=job,
        waiting_since=dirty_marks.waiting_since(conn, key),
        pruned_at=pruned_us(conn, key),
        exclusions=corrections.standing(conn, key, EXCLUSION),
        productivity=productivity(parts, economy),
        cost=cost,
    )
    return answer


@router.get(
    "/{job}/ledger",
    operation_id="read_ledger",
    response_model=LedgerAnswer,
    responses=as_files(OF_RECORD),
)
def read_ledger(
    job: Job, conn: Reader, project_id: ProjectId, form: FormatParameter = "json"
) -> LedgerAnswer | Response:
    """Return the segments that partition the job's E2E."""
    ledger = ledger_of(conn, project_id, job)
    require_record(conn, JobKey(project_id, job))
    segments = ledgers.segments(conn, project_id, job)
    answer = LedgerAnswer.of(ledger, job=job, segments=segments)
    return listed(form, answer, answer.segments, of=SegmentAnswer, name="segments")


@router.get(
    "/{job}/attempts",
    operation_id="list_attempts",
    response_model=AttemptList,
    responses=as_files(),
)
def list_attempts(
    job: Job, conn: Reader, project_id: ProjectId, form: FormatParameter = "json"
) -> AttemptList | Response:
    """List the attempts of a job, in their order."""
    answer = AttemptList.of(ledger_of(conn, project_id, job), job=job)
    return listed(form, answer, answer.attempts, of=AttemptAnswer, name="attempts")


def ledger_of(conn: Connection, project_id: int, job: str) -> JobLedger:
    """Read the results of a job, without its segments.

    Raises:
        Problem: 404.
    """
    ledger = ledgers.job_ledger(conn, project_id, job)
    if ledger is None:
        raise Problem(
            ProblemKind.NOT_FOUND, "No such job. A new job has no results before its first fold."
        )
    return ledger
