"""Corrections of a job by people: verdicts on failures, exclusions of time, and its deletion."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from pydantic import AliasPath, Field
from sqlalchemy import Connection
from starlette.concurrency import run_in_threadpool

from ett_service.api import pagination
from ett_service.api.answers import (
    Answer,
    ComputedAnswer,
    Instant,
    KeyPrefix,
    NextCursor,
    Of,
    Words,
)
from ett_service.api.bodies import (
    FormatParameter,
    as_files,
    described,
    listed,
    members,
    read_struct,
    refused_window,
)
from ett_service.api.deps import (
    AdministeredId,
    CorrectedProjectId,
    Job,
    ProjectId,
    Reader,
    State,
    only_declared_parameters,
)
from ett_service.api.problems import Problem, ProblemKind, declared
from ett_service.api.record.audit import Acts, AdminActs, CorrectingActs
from ett_service.api.state import AppState
from ett_service.core.events import Exclusion
from ett_service.core.intervals import rfc3339
from ett_service.core.ledger.attempt_results import FailureVerdict
from ett_service.core.words import ORIGIN_OF_CAUSE, Cause, Origin
from ett_service.ingest.members import Frame
from ett_service.ingest.requests import NewExclusion, NewVerdict, NewWindow, frame
from ett_service.storage import retention
from ett_service.storage.record import corrections, events
from ett_service.storage.record.audit import Action, AdminAct
from ett_service.storage.record.corrections import NoFailure, NothingThere
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.storage.retention import Holdings

router = APIRouter(
    prefix="/v1/jobs/{job}", tags=["corrections"], dependencies=[Depends(only_declared_parameters)]
)

T = TypeVar("T")

_BY_ID = tuple[pagination.Whole]

Number = Annotated[
    int,
    Path(ge=0, le=(1 << 31) - 1, description="The attempt's number, from 0.", examples=[0]),
]

deletion_router = APIRouter(tags=["jobs"], dependencies=[Depends(only_declared_parameters)])


def _of(owner: str, name: str) -> Of:
    """Read a member of an object that may be missing."""
    return Of(lambda correction: getattr(getattr(correction, owner), name, None))


class ExclusionAnswer(ComputedAnswer):
    """Time of a job that the fleet's numbers leave out, up to and without its end."""

    from_at: Annotated[Instant | None, _of("window", "from_at")] = Field(
        serialization_alias="from", description="Null: from the start of the job."
    )
    to_at: Annotated[Instant | None, _of("window", "to_at")] = Field(
        serialization_alias="to", description="Null: to the end of the job."
    )
    why: str
    made_by: KeyPrefix = Field(validation_alias=AliasPath("made_by", "key"))
    made_by_name: str | None = Field(validation_alias=AliasPath("made_by", "name"))
    made_at: Instant


class CorrectionAnswer(ComputedAnswer):
    """A correction: who made it, when and why, and whether it was taken back or replaced."""

    id: int = Field(description="Counts the job's corrections.")
    kind: Annotated[
        str,
        Words((corrections.VERDICT, corrections.EXCLUSION)),
        Of(
            lambda correction: (
                corrections.EXCLUSION if correction.attempt is None else corrections.VERDICT
            )
        ),
    ]
    launch: Annotated[str | None, _of("attempt", "launch")] = Field(
        description="With `attempt` and `cycle`: the attempt that failed."
    )
    attempt: Annotated[int | None, _of("attempt", "attempt")]
    cycle: Annotated[int | None, _of("attempt", "cycle")]
    origin: Origin | None
    cause: Cause | None
    from_at: Annotated[Instant | None, _of("window", "from_at")] = Field(
        serialization_alias="from", description="Start of an exclusion's window."
    )
    to_at: Annotated[Instant | None, _of("window", "to_at")] = Field(serialization_alias="to")
    why: str
    made_by: KeyPrefix = Field(validation_alias=AliasPath("made_by", "key"))
    made_by_name: str | None = Field(validation_alias=AliasPath("made_by", "name"))
    made_at: Instant
    taken_back_by: Annotated[KeyPrefix | None, _of("taken_back_by", "key")]
    taken_back_by_name: Annotated[str | None, _of("taken_back_by", "name")]
    taken_back_at: Instant | None = Field(description="Null while it is in force.")


class CorrectionPage(Answer):
    """A page of a job's corrections, the earliest first."""

    job: str
    corrections: list[CorrectionAnswer]
    next_cursor: NextCursor


class ExclusionsAnswer(Answer):
    """The time of a job that the fleet's numbers leave out now."""

    job: str
    exclusions: list[ExclusionAnswer]


@router.get(
    "/corrections",
    operation_id="list_corrections",
    response_model=CorrectionPage,
    responses=as_files(paged=True),
)
def list_corrections(
    job: Job,
    conn: Reader,
    project_id: ProjectId,
    limit: pagination.Limit = 100,
    cursor: pagination.Cursor = None,
    form: FormatParameter = "json",
) -> CorrectionPage | Response:
    """List the corrections of a job, including those that were taken back."""
    (after,) = (0,) if cursor is None else pagination.read(cursor, _BY_ID)
    rows = corrections.history(conn, JobKey(project_id, job), limit=limit + 1, after=after)
    if not rows and not events.job_exists(conn, project_id, job):
        raise Problem(ProblemKind.NOT_FOUND, "No such job.")
    shown, next_cursor = pagination.page(rows, limit, lambda correction: (correction.id,))
    page = CorrectionPage.of(job=job, corrections=shown, next_cursor=next_cursor)
    return listed(form, page, page.corrections, of=CorrectionAnswer, name="corrections")


@router.put(
    "/attempts/{number}/verdict",
    operation_id="put_verdict",
    responses=declared(400, 401, 403, 404, 408, 409, 410, 413, 415, 422, 503),
    openapi_extra=described(NewVerdict),
)
async def put_verdict(
    request: Request,
    job: Job,
    number: Number,
    acts: CorrectingActs,
    project_id: CorrectedProjectId,
    state: State,
) -> CorrectionAnswer:
    """Set the origin and cause of a failure, in place of the rules and of any earlier verdict.

    The verdict stays with the attempt, whose `number` may change when an earlier attempt becomes
    known. The result of the rules is kept beside it. An attempt that did not fail has no cause:
    409.
    """
    body = await read_struct(request, state, NewVerdict)
    now_us = state.now_us()
    content = members(body, frame(now_us))
    content.setdefault("origin", ORIGIN_OF_CAUSE[body.cause])
    verdict = FailureVerdict(**content, made_by=acts.key.prefix, made_at=now_us)
    details = {"number": number, "cause": verdict.cause, "origin": verdict.origin}
    correction = await run_in_threadpool(
        _write,
        acts,
        lambda conn: corrections.put_verdict(conn, JobKey(project_id, job), number, verdict),
        AdminAct(Action.VERDICT_SET, job, project_id, {**details, "why": verdict.why}),
    )
    return CorrectionAnswer.model_validate(correction)


@router.delete(
    "/attempts/{number}/verdict",
    operation_id="take_back_verdict",
    status_code=204,
    response_class=Response,
    responses=declared(401, 403, 404, 410, 422, 503),
)
def take_back_verdict(
    job: Job, number: Number, acts: CorrectingActs, project_id: CorrectedProjectId, state: State
) -> None:
    """Take back the verdict on a failure: the rules apply again. The history keeps the verdict."""
    of, by = JobKey(project_id, job), _by(acts, state)
    act = AdminAct(Action.VERDICT_TAKEN_BACK, job, project_id, {"number": number})
    if not _write(acts, lambda conn: corrections.take_back_verdict(conn, of, number, **by), act):
        raise Problem(ProblemKind.NOT_FOUND, "No verdict is in force.")


@router.put(
    "/exclusion",
    operation_id="put_exclusion",
    responses=declared(400, 401, 403, 404, 408, 410, 413, 415, 422, 503),
    openapi_extra=described(NewExclusion),
)
async def put_exclusion(
    request: Request,
    job: Job,
    acts: CorrectingActs,
    project_id: CorrectedProjectId,
    state: State,
) -> ExclusionsAnswer:
    """Exclude time of a job from the fleet's numbers, in place of any earlier exclusion.

    `from` and `to` name one window, `windows` several. Without a window the whole job is
    excluded. An instant may lie up to a year ahead.
    """
    body = await read_struct(request, state, NewExclusion)
    now_us = state.now_us()
    windows = _windows(body, frame(now_us))
    by = _by(acts, state)
    exclusions = await run_in_threadpool(
        _write,
        acts,
        lambda conn: corrections.put_exclusion(
            conn, JobKey(project_id, job), windows, why=body.why, **by
        ),
        AdminAct(Action.EXCLUSION_SET, job, project_id, _excluded(windows, body.why)),
    )
    return ExclusionsAnswer.of(job=job, exclusions=exclusions)


@router.delete(
    "/exclusion",
    operation_id="take_back_exclusion",
    status_code=204,
    response_class=Response,
    responses=declared(401, 403, 404, 410, 422, 503),
)
def take_back_exclusion(
    job: Job, acts: CorrectingActs, project_id: CorrectedProjectId, state: State
) -> None:
    """Take back the exclusion: all of the job counts again. The history keeps the exclusion."""
    of, by = JobKey(project_id, job), _by(acts, state)
    act = AdminAct(Action.EXCLUSION_TAKEN_BACK, job, project_id)
    if not _write(acts, lambda conn: corrections.take_back_exclusion(conn, of, **by), act):
        raise Problem(ProblemKind.NOT_FOUND, "No exclusion is in force.")


def _by(acts: Acts, state: AppState) -> dict[str, Any]:
    return {"made_by": acts.key.prefix, "now_us": state.now_us()}


def _excluded(windows: list[Exclusion], why: str) -> dict[str, Any]:
    bounds = [(window.from_at, window.to_at) for window in windows]
    named = [[None if bound is None else rfc3339(bound) for bound in window] for window in bounds]
    return {"windows": named, "why": why}


def _write(acts: Acts, work: Callable[[Connection], T], act: AdminAct) -> T:
    try:
        result = acts.write(work, act)
    except NothingThere as error:
        raise Problem(ProblemKind.NOT_FOUND, str(error)) from error
    except NoFailure as error:
        raise Problem(ProblemKind.CONFLICT, str(error)) from error
    if acts.state.worker is not None:
        acts.state.worker.wake()
    return result


def _windows(body: NewExclusion, readers: Frame) -> list[Exclusion]:
    bounds = members(body, readers)
    windows: list[NewWindow] = bounds.pop("windows", None) or []
    del bounds["why"]
    if windows and bounds:
        pointer = f"/{'from' if 'from_at' in bounds else 'to'}"
        errors = [{"code": "one_or_the_other", "pointer": pointer}]
        raise Problem(
            ProblemKind.VALIDATION_FAILED,
            "Give either one window or `windows`, not both.",
            errors=errors,
        )
    if not windows:
        return [_window(bounds, "")]
    pointers = [f"/windows/{index}" for index in range(len(windows))]
    return [
        _window(members(window, readers, pointer), pointer)
        for window, pointer in zip(windows, pointers, strict=True)
    ]


def _window(bounds: dict[str, int], pointer: str) -> Exclusion:
    window = Exclusion(**bounds)
    if window.from_at is not None and window.to_at is not None and window.to_at <= window.from_at:
        raise refused_window(f"{pointer}/to")
    return window


class DeletionAnswer(Answer):
    """What was stored of a job."""

    job: str
    deleted: bool = Field(description="False for a dry run.")
    events: int
    attempts: int
    corrections: int


@deletion_router.delete(
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
            holdings = retention.holdings(conn, of)
    else:
        holdings = state.store.write(lambda conn: _delete(conn, of, acts))
    if holdings is None:
        raise Problem(ProblemKind.NOT_FOUND, "No such job.")
    return DeletionAnswer.of(holdings, job=job, deleted=not dry_run)


def _delete(conn: Connection, of: JobKey, acts: AdminActs) -> Holdings | None:
    holdings = retention.delete_job(conn, of)
    if holdings is not None:
        acts.record(conn, AdminAct(Action.JOB_DELETED, of.job, of.project_id, asdict(holdings)))
    return holdings
