"""What would save compile time: dynamic sources, cached compiles, less autotuning."""

from typing import Annotated

from fastapi import APIRouter, Depends
from fastapi.responses import Response
from pydantic import Field

from ett_service.api.answers import Answer, OfAJob, OfCohorts, QuestionAnswer, Seconds
from ett_service.api.bodies import OF_RECORD, FormatParameter, as_files, listed
from ett_service.api.deps import (
    GroupedScope,
    Job,
    ProjectId,
    Reader,
    State,
    WindowParameter,
    only_declared_parameters,
)
from ett_service.api.jobs.listing import ledger_of
from ett_service.core.planning.compiles import Kind
from ett_service.fleet.compile_advice import (
    MOST_JOBS,
    GroupCompileAdvice,
    fleet_compile_advice,
    job_compile_advice,
)
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.storage.record.pruned import require_record

router = APIRouter(
    prefix="/v1", tags=["decisions"], dependencies=[Depends(only_declared_parameters)]
)

Functions = Annotated[list[str], Field(description="The compiled functions, by name.")]


class VaryingSourceAnswer(Answer):
    """An input that varied, in the words of PyTorch."""

    source: str = Field(description="As `TORCH_COMPILE_DYNAMIC_SOURCES` names it.")
    dims: list[int] = Field(description="Dimensions that varied; empty for an int.")
    recompiles: int = Field(
        description="Recompiles that name it as the reason. 0 if it varied together with another."
    )
    seconds: Seconds = Field(validation_alias="us", description="What these recompiles took.")
    functions: Functions
    jobs: int
    mark_dynamic: str | None = Field(
        description="The line of Python that marks a tensor instead; null for an int."
    )


class OtherReasonAnswer(Answer):
    """Recompiles that no dynamic source stops."""

    kind: Kind
    recompiles: int
    seconds: Seconds = Field(validation_alias="us")
    functions: Functions
    jobs: int
    example: str = Field(description="The reason of the longest of them.")
    hint: str | None = Field(description="What may stop them; null where nothing is known.")


class CostlyCompileAnswer(Answer):
    """Compiles of one function with the same id and direction."""

    function: str | None
    compile_id: str
    direction: str
    compiles: int
    seconds: Seconds = Field(validation_alias="us", description="The part that could be saved.")
    jobs: int
    kernels: list[str] = Field(
        description="Triton kernels, the slowest to build first, where PyTorch names them."
    )


class CompileAdviceAnswer(Answer):
    """What would have saved compile time. Seconds are wall time on the lead rank."""

    compiles: int = Field(description="Forward and backward are one each.")
    compile_seconds: Seconds = Field(validation_alias="us")
    recompiles: int
    recompile_seconds: Seconds = Field(description="Recompiles with their backward.")
    setting: str | None = Field(
        description="The value of `TORCH_COMPILE_DYNAMIC_SOURCES` that makes `sources` dynamic. "
        "Null without sources."
    )
    dynamic_seconds: Seconds = Field(description="What that value would have saved.")
    sources: list[VaryingSourceAnswer] = Field(description="Most seconds first.")
    others: list[OtherReasonAnswer] = Field(
        description="Reasons of recompiles that no dynamic source stops."
    )
    uncached_seconds: Seconds = Field(
        description="Inductor, waiting for compilers and autotuning of compiles that missed the "
        "cache although an earlier attempt had compiled the same. MegaCache would have saved it."
    )
    uncached: list[CostlyCompileAnswer] = Field(description="These compiles; at most 20.")
    autotune_seconds: Seconds
    autotuned: list[CostlyCompileAnswer] = Field(
        description="Compiles whose autotuning took longest; at most 20."
    )


class LastRecompilesAnswer(Answer):
    """What the job's last attempt compiled again: nothing where the advice was followed."""

    attempt: int = Field(description="Its number.")
    recompiles: int
    recompile_seconds: Seconds = Field(validation_alias="us")


class JobCompileAdviceAnswer(OfAJob, CompileAdviceAnswer):
    """Advice for one job, from all of its life."""

    last_attempt: LastRecompilesAnswer | None = Field(
        description="Of the job's last attempt; null before the first has begun."
    )


class GroupCompileAdviceAnswer(OfCohorts, CompileAdviceAnswer):
    """Advice for the jobs of a group of cohorts."""

    jobs_read: int


class FleetCompileAdviceAnswer(QuestionAnswer):
    """Advice in total, and by group."""

    jobs: int = Field(description="Jobs that compiled in the window.")
    jobs_read: int = Field(
        description=f"Jobs behind the advice: the {MOST_JOBS} that compiled longest."
    )
    total: CompileAdviceAnswer
    groups: list[GroupCompileAdviceAnswer] = Field(
        description="Most seconds to gain first; empty without `group_by`."
    )


@router.get(
    "/jobs/{job}/compile-advice",
    operation_id="advise_job_on_compiles",
    summary="Read Compile Advice Of A Job",
    response_model=JobCompileAdviceAnswer,
    responses=as_files(OF_RECORD),
)
def advise_job_on_compiles(
    job: Job, conn: Reader, project_id: ProjectId, form: FormatParameter = "json"
) -> JobCompileAdviceAnswer | Response:
    """Return what would have saved compile time in a job.

    The advice needs the stages of compiles, as the client reports them. A file contains the
    sources.
    """
    ledger = ledger_of(conn, project_id, job)
    require_record(conn, JobKey(project_id, job))
    advice, last_attempt = job_compile_advice(conn, project_id, job, ledger)
    answer = JobCompileAdviceAnswer.of(
        advice, job=job, as_of=ledger.as_of, last_attempt=last_attempt
    )
    return listed(form, answer, answer.sources, of=VaryingSourceAnswer, name="compile-advice")


@router.get(
    "/fleet/compile-advice",
    operation_id="advise_fleet_on_compiles",
    summary="Read Compile Advice Of The Fleet",
    response_model=FleetCompileAdviceAnswer,
    responses=as_files(),
)
def advise_fleet_on_compiles(
    scope: GroupedScope,
    window: WindowParameter,
    state: State,
    conn: Reader,
    *,
    form: FormatParameter = "json",
) -> FleetCompileAdviceAnswer | Response:
    """Return what would have saved compile time in the jobs that compiled longest.

    `jobs_read` says how many jobs were read. A cache serves later attempts and later jobs of the
    same model and code version. A file contains the groups. Without `group_by` it contains the
    total as one group.
    """
    advice = fleet_compile_advice(conn, scope, window)
    answer = FleetCompileAdviceAnswer.of(
        scope,
        window,
        advice,
        as_of=state.now_us(),
        groups=[_group(group) for group in advice.groups],
    )
    whole = _group(GroupCompileAdvice({}, False, advice.jobs_read, advice.total))
    rows = answer.groups if scope.group_by else [whole]
    return listed(form, answer, rows, of=GroupCompileAdviceAnswer, name="compile-advice")


def _group(group: GroupCompileAdvice) -> GroupCompileAdviceAnswer:
    return GroupCompileAdviceAnswer.of(group, group.advice)
