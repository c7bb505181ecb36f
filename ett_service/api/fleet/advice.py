"""How often to save, from what saves and failures cost so far."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query
from fastapi.responses import Response

from ett_service.api.deps import AppParts, Job, ProjectId, Reader, only_declared_parameters
from ett_service.api.fleet.advice_answers import (
    AdviceAnswer,
    FleetAdviceAnswer,
    GroupAdviceAnswer,
    JobAdviceAnswer,
    advice_members,
    group_advice,
)
from ett_service.api.fleet.question import AskedWindow
from ett_service.api.fleet.rendering import asked_members
from ett_service.api.fleet.summary import GroupedScope
from ett_service.api.formats import FormatParameter, as_files, listed
from ett_service.api.jobs.listing import known_ledger
from ett_service.api.problems import declared
from ett_service.core.intervals import rfc3339
from ett_service.fleet.advice import Counted, GroupAdvice, fleet_advice, job_advice

router = APIRouter(
    prefix="/v1", tags=["decisions"], dependencies=[Depends(only_declared_parameters)]
)

Failures = Annotated[
    Counted,
    Query(description="Which failures lose training: all, or those of `infra` and `preemption`."),
]


@router.get(
    "/jobs/{job}/checkpoint-advice",
    operation_id="advise_job",
    responses=declared(401, 403, 404, 422, 503),
)
def advise_job(
    job: Job, conn: Reader, project_id: ProjectId, failures: Failures = "all"
) -> JobAdviceAnswer:
    """Tell the interval between checkpoints that would waste least of the job's training."""
    ledger = known_ledger(conn, project_id, job)
    advice = job_advice(conn, project_id, job, ledger, failures)
    return JobAdviceAnswer(job=job, as_of=rfc3339(ledger.as_of), **advice_members(advice))


@router.get(
    "/fleet/checkpoint-advice",
    operation_id="advise_fleet",
    response_model=FleetAdviceAnswer,
    responses={**as_files(), **declared(401, 403, 404, 422, 503)},
)
def advise_fleet(
    scope: GroupedScope,
    window: AskedWindow,
    parts: AppParts,
    conn: Reader,
    *,
    failures: Failures = "all",
    form: FormatParameter = "json",
) -> FleetAdviceAnswer | Response:
    """Tell it for the cohorts that were asked about, and what each would gain.

    Their present interval is the median of the latest 20,000 gaps between checkpoints. A group
    whose jobs differ much is better asked about by model or size. As a file it holds the groups;
    without `group_by` the one that is all.
    """
    total, groups = fleet_advice(conn, scope, window, failures)
    answer = FleetAdviceAnswer(
        **asked_members(scope, window, parts.now_us()),
        total=AdviceAnswer(**advice_members(total)),
        groups=[group_advice(group) for group in groups],
    )
    rows = (
        answer.groups
        if scope.group_by
        else [group_advice(GroupAdvice({}, other=False, advice=total))]
    )
    return listed(form, answer, rows, of=GroupAdviceAnswer, name="checkpoint-advice")
